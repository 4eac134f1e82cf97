//! Tests of replicas' access to Redis (passwords, ACL, TLS), and of replicas without access.

use std::sync::Arc;
use std::time::Instant;

use redis::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::mock_clock_node::{Behaviour, MockClockNode};
use super::monitor::MAX_GAP;
use super::redis::{Authority, Redis};
use super::replica::Replica;
use super::{
    BLOCK_TIME, CHAIN_ID, Harness, REJOIN_TIMEOUT, chain_section, redis_section, shared_chain,
    start_monitor, wait_until,
};
use crate::logged_process::assert_no_secrets;
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
    let config = redis_section(url) + &chain_section("a", CHAIN_ID, &node.url(), "");
    let replica = Arc::new(Replica::with_environment(name, &config, variables));
    let ready = replica.wait_until_ready().await;
    println!("{name}: ready after {ready:?}");
    assert!(ready < REJOIN_TIMEOUT, "{ready:?}");
    replica
}

/// Name and Redis URL of a replica, and its environment variables.
type Scenario<'a> = (&'a str, String, &'a [(&'a str, &'a str)]);

/// Starts these replicas and checks that each of them polls standalone.
async fn check_all_standalone(replicas: &[Scenario<'_>]) {
    let checks = replicas.iter().map(async |(name, url, variables)| {
        let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
        let replica = start(name, &node, url, variables).await;
        check_standalone(&replica, &node).await;
    });
    futures_util::future::join_all(checks).await;
}

/// Checks that the replica polls once per block by itself, logs the reason once, and reveals no secret.
async fn check_standalone(replica: &Arc<Replica>, node: &MockClockNode) {
    let monitor = start_monitor(replica, "a", node);
    let (before, first) = (node.progress(), replica.counts("a").await);
    wait_until("blocks", async || node.head() >= before.head + 5).await;
    let (after, last) = (node.progress(), replica.counts("a").await);
    let (blocks, calls) = after.since(before);
    assert!((blocks - 1..=blocks + 1).contains(&calls), "{calls} in {blocks} blocks");
    assert!(last.standalone >= first.standalone + 3, "{first:?}, then {last:?}");
    assert_eq!((last.redis_up, last.claimed, last.yielded), (0, 0, 0), "{last:?}");
    assert!(last.redis_failures > 0, "{last:?}");
    let stats = monitor.stats();
    assert_eq!(stats.failures, [""; 0]);
    assert!(stats.max_lag() <= MAX_GAP, "{stats:?}");
    let output = replica.redis_log_lines();
    assert_eq!(output.len(), 1, "{output:#?}");
    assert!(["WARN", "ERROR"].contains(&output[0]["level"].as_str().unwrap()), "{output:#?}");
    check_no_secret(replica).await;
}

/// Checks that the log, the metrics and the responses contain neither the secrets nor the Redis URL.
async fn check_no_secret(replica: &Replica) {
    let secrets = [SECRET, "redis://", "rediss://"];
    assert_no_secrets(&secrets, "the log", &replica.log());
    assert_no_secrets(&secrets, "/metrics", &replica.metrics().await);
    for path in [
        "/v1/a/gas-suggestion",
        "/v1/a/fee-market",
        "/v1/chains",
        "/readyz",
        "/livez",
        "/openapi.json",
        "/v1/nowhere/gas-suggestion",
        "/",
    ] {
        let response = replica.get(path).await;
        assert_no_secrets(&secrets, path, &format!("{:?} {}", response.headers, response.body));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_never_contains_the_urls_of_nodes() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let url = node.url_for("canary-path").replace("http://", "http://canary-user:canary-password@");
    let config = shared_chain(&redis, &url, "");
    redis.subscribe("");
    let replicas = ["learning-0", "learning-1"].map(|name| Replica::start(name, &config));
    for replica in &replicas {
        replica.wait_until_ready().await;
    }
    let output = || {
        let mut output: Vec<_> = redis.messages().into_iter().flat_map(<[_; 2]>::from).collect();
        for key in redis.keys("") {
            if let Value::BulkString(value) = redis.try_command(&[b"GET", key.as_slice()]).unwrap()
            {
                output.push(value);
            }
            output.push(key);
        }
        String::from_utf8_lossy(&output.join(&b'\n')).into_owned()
    };
    let check = || {
        let output = output();
        assert_no_secrets(&[SECRET, "http", "127.0.0.1"], "Redis", &output);
        output
    };
    wait_until("keys and messages", async || {
        let output = check();
        [":claim:", ":record", ":records:"].iter().all(|part| output.contains(part))
    })
    .await;
    node.set_behaviour(Behaviour::Failing);
    let calls = node.progress().calls;
    wait_until("failed polls", async || node.progress().calls > calls + 1).await;
    check();
}

const TRACE: (&str, &str) = ("GAS_LOG__FILTER", "trace");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_password_leads_to_standalone_polling_and_one_log_line() {
    let redis = Redis::with_password("right");
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
async fn minimal_acl_user_with_special_characters_in_the_password_shares() {
    let redis = Redis::start();
    let password = "canary p@ss:w/ord#1?%&=";
    let (set, base_rules) = (format!(">{password}"), "~gas:* &gas:* -@all");
    let categories = "+@connection +@read +@write +@scripting +@pubsub +time";
    let mut command = vec!["ACL", "SETUSER", "gas", "on", &set];
    command.extend(base_rules.split(' ').chain(categories.split(' ')));
    redis.command(&command);
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let encoded =
        percent_encoding::utf8_percent_encode(password, percent_encoding::NON_ALPHANUMERIC);
    let url = redis.url_with_credentials(&format!("gas:{encoded}"));
    // The environment variable overrides the unreachable URL in the file.
    let variables = [("GAS_REDIS__URL", url.as_str()), TRACE];
    let nowhere = "redis://127.0.0.1:1/";
    let replicas = [
        start("letters-0", &node, nowhere, &variables).await,
        start("letters-1", &node, nowhere, &variables).await,
    ];
    let harness = Harness::from_replicas(redis, node, &replicas).await;
    for replica in harness.replicas() {
        check_no_secret(replica).await;
    }
    harness.check_no_failures();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_replicas_share_only_if_they_trust_the_authority() {
    let (known, other) = (Authority::new("known-to-all"), Authority::new("unknown-authority"));
    let redis = Redis::with_tls(&known);
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let certificate_path =
        |authority: &Authority| authority.certificate.to_str().unwrap().to_owned();
    let (known, other) = (certificate_path(&known), certificate_path(&other));
    let url = redis.tls_url();
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
    let harness = Harness::from_replicas(redis, node, &replicas).await;
    harness.check_no_failures();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_start_without_redis_and_share_once_it_is_available() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    // A closed port, a frozen Redis, a server that is not Redis, and an unknown host.
    redis.freeze();
    let closed_port = free_port();
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let no_redis = format!("redis://{}", other.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = other.accept().await {
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    check_all_standalone(&[
        ("start-closed-port", format!("redis://127.0.0.1:{closed_port}"), &[]),
        ("start-frozen", redis.url(0), &[]),
        ("start-other", no_redis, &[]),
        ("start-no-host", "redis://redis.invalid".into(), &[]),
    ])
    .await;
    let url = redis.url(0);
    let replicas =
        [start("start-0", &node, &url, &[]).await, start("start-1", &node, &url, &[]).await];
    redis.thaw();
    let returned = Instant::now();
    let monitors = replicas.each_ref().map(|replica| start_monitor(replica, "a", &node));
    let rejoined = super::share_again(&monitors, &node, returned).await;
    println!("shared after {rejoined:?}");
}
