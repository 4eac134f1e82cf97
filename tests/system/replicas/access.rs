//! Tests of replicas' access to Redis (passwords, ACL, TLS), and of replicas without access.

use std::sync::Arc;
use std::time::Instant;

use redis::Value;

use super::mock_clock_node::{Behaviour, MockClockNode};
use super::monitor::MAX_GAP;
use super::redis::{Authority, Redis};
use super::replica::Replica;
use super::{
    BLOCK_TIME, CHAIN_ID, Harness, REJOIN_TIMEOUT, shared_chain, start_monitor, start_replicas,
    wait_until,
};
use crate::logged_process::assert_no_secrets;
use crate::mock_upstream::{MockUpstream, Step};
use crate::raw_client::free_port;

/// Part of every secret in the URLs.
const SECRET: &str = "canary";

/// Starts a replica with this Redis URL and these environment variables, and waits until it is ready.
async fn start(
    name: &str,
    node: &MockClockNode,
    url: &str,
    variables: &[(&str, &str)],
) -> Arc<Replica> {
    let config = shared_chain(url, &node.url(), "");
    let replica = Arc::new(Replica::start(name, &config, variables));
    let ready = replica.wait_until_ready().await;
    assert!(ready < REJOIN_TIMEOUT, "{name}: {ready:?}");
    replica
}

/// Name and Redis URL of a replica, and its environment variables.
type Scenario<'a> = (&'a str, String, &'a [(&'a str, &'a str)]);

/// Starts these replicas. Checks that each polls once per block by itself, logs the reason once, and reveals no secret.
async fn check_all_standalone(replicas: &[Scenario<'_>]) {
    let checks = replicas.iter().map(async |(name, url, variables)| {
        let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
        let replica = start(name, &node, url, variables).await;
        let monitor = start_monitor(&replica, "a", &node);
        let first = monitor.counts().await;
        node.check_one_poll_per_block(5).await;
        let last = monitor.counts().await;
        assert!(last.standalone >= first.standalone + 3, "{first:?}, then {last:?}");
        assert_eq!((last.redis_up, last.shared()), (0, 0), "{last:?}");
        assert!(last.redis_failures > 0, "{last:?}");
        let stats = monitor.take_stats();
        assert_eq!(stats.failures, [""; 0]);
        assert!(stats.max_lag <= MAX_GAP, "{stats:?}");
        let output = replica.redis_log_lines();
        assert_eq!(output.len(), 1, "{output:#?}");
        assert!(["WARN", "ERROR"].contains(&output[0]["level"].as_str().unwrap()), "{output:#?}");
        check_no_secret(&replica).await;
    });
    futures_util::future::join_all(checks).await;
}

/// Checks that the log, the metrics and the responses contain neither the secrets nor the Redis URL.
async fn check_no_secret(replica: &Replica) {
    let secrets = [SECRET, "redis://", "rediss://"];
    assert_no_secrets(&secrets, "the log", &replica.log());
    let prices = "/v1/a/gas-suggestion /v1/a/fee-market /v1/chains /v1/nowhere/gas-suggestion";
    let others = "/readyz /livez /openapi.json / /metrics";
    for path in prices.split(' ').chain(others.split(' ')) {
        let response = replica.get(path).await;
        assert_no_secrets(&secrets, path, &format!("{:?} {}", response.headers, response.body));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_never_contains_the_urls_of_nodes() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let url = node.url_for("canary-path").replace("http://", "http://canary-user:canary-password@");
    let config = shared_chain(&redis.url(0), &url, "");
    redis.subscribe("");
    let _replicas = start_replicas("learning", 2, |_| config.clone()).await;
    let check = || {
        let mut output: Vec<_> = redis.messages().into_iter().flat_map(<[_; 2]>::from).collect();
        for key in redis.keys("") {
            if let Value::BulkString(value) = redis.try_command(&[b"GET", key.as_slice()]).unwrap()
            {
                output.push(value);
            }
            output.push(key);
        }
        let output = String::from_utf8_lossy(&output.join(&b'\n')).into_owned();
        assert_no_secrets(&[SECRET, "http", "127.0.0.1"], "Redis", &output);
        output
    };
    wait_until("keys and messages", async || {
        let output = check();
        [":claim:", ":record", ":records:"].iter().all(|part| output.contains(part))
    })
    .await;
    node.set_behaviour(Behaviour::Failing);
    node.wait_for_calls(node.progress().calls + 2).await;
    check();
}

const TRACE: (&str, &str) = ("GAS_LOG__FILTER", "trace");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_password_leads_to_standalone_polling_and_one_log_line() {
    let redis = Redis::start();
    redis.set_password("right");
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    // No password, a wrong password, and an unknown user.
    check_all_standalone(&[
        ("password-none", redis.url(0), &[]),
        ("password-wrong", redis.url_with_credentials(":canary-wrong"), &[]),
        ("password-unknown", redis.url_with_credentials("canary-user:right"), &[]),
    ])
    .await;
    // At trace level only the secrets are checked, not the number of lines.
    let url = redis.url_with_credentials("canary-user:canary-wrong");
    let replica = start("password-traced", &node, &url, &[TRACE]).await;
    wait_until("standalone polls", async || replica.counts("a").await.standalone >= 3).await;
    check_no_secret(&replica).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_replicas_share_only_if_they_trust_the_authority() {
    let (known, other) = (Authority::new("known-to-all"), Authority::new("unknown-authority"));
    let (redis, url) = Redis::with_tls(&known);
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let [known, other] = [&known, &other].map(|authority| authority.path("authority.crt"));
    // An unknown authority, plain text at the TLS port, and TLS at the plain port.
    let plain = redis.url(0);
    check_all_standalone(&[
        ("tls-other", url.clone(), &[("SSL_CERT_FILE", &other)]),
        ("tls-not", url.replace("rediss", "redis"), &[("SSL_CERT_FILE", &known)]),
        ("tls-plain", plain.replace("redis:", "rediss:"), &[("SSL_CERT_FILE", &known)]),
    ])
    .await;
    let variables = [("SSL_CERT_FILE", known.as_str())];
    let replicas = [
        start("tls-0", &node, &url, &variables).await,
        start("tls-1", &node, &url, &variables).await,
    ];
    let harness = Harness::sharing(node, &replicas).await;
    harness.check_no_failures();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_start_without_redis_and_share_once_it_is_available() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    // A closed port, a frozen Redis, a server that is not Redis, and an unknown host.
    redis.process.freeze();
    let closed_port = free_port();
    let bad_request = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    let other = MockUpstream::start(vec![Step::Write(bad_request), Step::Close]).await;
    let no_redis = format!("redis://{}", other.address());
    check_all_standalone(&[
        ("start-closed-port", format!("redis://127.0.0.1:{closed_port}"), &[]),
        ("start-frozen", redis.url(0), &[]),
        ("start-other", no_redis, &[]),
        ("start-no-host", "redis://redis.invalid".into(), &[]),
    ])
    .await;
    let config = shared_chain(&redis.url(0), &node.url(), "");
    let replicas = start_replicas("start", 2, |_| config.clone()).await;
    redis.process.thaw();
    let returned = Instant::now();
    Harness::sharing(node, &replicas).await;
    let rejoined = returned.elapsed();
    assert!(rejoined < REJOIN_TIMEOUT, "{rejoined:?}");
}
