//! How replicas get into Redis, and what becomes of those that do not.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::clock_node::{ClockNode, Mood, Terms};
use super::redis::{Authority, Redis, Reply};
use super::replica::Replica;
use super::watch::{MOST, Watch};
use super::{BLOCK, Group, ID, READING, REJOINING, at, chain, until};
use crate::logged::tells_none_of;
use crate::raw::free_port;

/// Is part of every secret of a URL.
const SECRET: &str = "canary";

/// Starts with a URL, by the environment where that is so.
async fn start(
    name: &str,
    node: &ClockNode,
    url: &str,
    variables: &[(&str, &str)],
) -> Arc<Replica> {
    let config = at(url) + &chain("a", ID, &node.url(), "");
    let replica = Arc::new(Replica::with_variables(name, &config, variables));
    let ready = replica.is_ready().await;
    println!("{name}: ready after {ready:?}");
    assert!(ready < REJOINING, "{ready:?}");
    replica
}

/// A name, a URL, and variables.
type Setup<'a> = (&'a str, String, &'a [(&'a str, &'a str)]);

/// Each of these is alone.
async fn are_alone(replicas: &[Setup<'_>]) {
    let alone = replicas.iter().map(async |(name, url, variables)| {
        let node = ClockNode::start(ID, BLOCK).await;
        let replica = start(name, &node, url, variables).await;
        is_alone(&replica, &node).await;
    });
    futures_util::future::join_all(alone).await;
}

/// It serves its own polls, one per block, says so once, and tells nobody a secret.
async fn is_alone(replica: &Arc<Replica>, node: &ClockNode) {
    let (clock, terms) = (node.clock(), Terms::default());
    let watch = Watch::start(replica, "a", clock, terms, READING);
    let (before, first) = (node.tally(), replica.counts("a").await);
    until("blocks", async || node.head() >= before.head + 5).await;
    let (after, last) = (node.tally(), replica.counts("a").await);
    let (blocks, calls) = after.since(before);
    assert!((blocks - 1..=blocks + 1).contains(&calls), "{calls} in {blocks} blocks");
    assert!(last.alone >= first.alone + 3, "{first:?}, then {last:?}");
    assert_eq!((last.redis_up, last.claimed, last.left), (0, 0, 0), "{last:?}");
    assert!(last.redis_failures > 0, "{last:?}");
    let record = watch.record();
    assert_eq!(record.failures, [""; 0]);
    assert!(record.max_lag() <= MOST, "{record:?}");
    let told = replica.of_redis();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(["WARN", "ERROR"].contains(&told[0]["level"].as_str().unwrap()), "{told:#?}");
    tells_no_secret(replica).await;
}

/// Neither the log nor the metrics nor any answer has anything of the URL that may be secret.
async fn tells_no_secret(replica: &Replica) {
    let secrets = [SECRET, "redis://", "rediss://"];
    tells_none_of(&secrets, "the log", &replica.log());
    tells_none_of(&secrets, "/metrics", &replica.metrics().await);
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
        let answer = replica.get(path).await;
        tells_none_of(&secrets, path, &format!("{:?} {}", answer.headers, answer.body));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_does_not_learn_the_urls_of_nodes() {
    let redis = Redis::start();
    let node = ClockNode::start(ID, BLOCK).await;
    let url = node.url_of("canary-path").replace("http://", "http://canary-user:canary-password@");
    let config = at(&redis.url(0)) + &chain("a", ID, &url, "");
    redis.overhear("");
    let replicas = ["learning-0", "learning-1"].map(|name| Replica::start(name, &config));
    for replica in &replicas {
        replica.is_ready().await;
    }
    let told = || {
        let mut told: Vec<_> = redis.overheard().into_iter().flat_map(<[_; 2]>::from).collect();
        for key in redis.keys("") {
            if let Reply::Bytes(value) = redis.try_say(&[b"GET", key.as_slice()]).unwrap() {
                told.push(value);
            }
            told.push(key);
        }
        String::from_utf8_lossy(&told.join(&b'\n')).into_owned()
    };
    // All kinds of keys and messages that there are.
    let are_there = async |parts: &[&str]| {
        until("keys and messages", async || {
            let told = told();
            tells_none_of(&[SECRET, "http", "127.0.0.1"], "Redis", &told);
            parts.iter().all(|part| told.contains(part))
        })
        .await;
    };
    are_there(&[":claim:", ":value", ":proof:"]).await;
    node.is(Mood::Limited(1));
    are_there(&[":cooldown:"]).await;
    node.is(Mood::Broken);
    let calls = node.tally().calls;
    until("polls that fail", async || node.tally().calls > calls + 1).await;
    are_there(&[]).await;
}

const TRACE: (&str, &str) = ("GAS_LOG__FILTER", "trace");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_means_to_be_alone_and_is_said_once_without_it() {
    let redis = Redis::with_password("right");
    let node = ClockNode::start(ID, BLOCK).await;
    // Without any, with a wrong one, and as somebody who is not known.
    are_alone(&[
        ("password-none", redis.url(0), &[]),
        ("password-wrong", redis.url_as(":canary-wrong"), &[]),
        ("password-unknown", redis.url_as("canary-user:right"), &[]),
    ])
    .await;
    // What is written at the finest level is another number of lines.
    let url = redis.url_as("canary-user:canary-wrong");
    let replica = start("password-traced", &node, &url, &[TRACE]).await;
    until("some turns", async || replica.counts("a").await.alone >= 3).await;
    tells_no_secret(&replica).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_do_no_more_than_is_needed_shares_by_a_password_of_any_letters() {
    let redis = Redis::start();
    let password = "canary p@ss:w/ord#1?%&=";
    let (set, may) = (format!(">{password}"), "~gas:v1:* &gas:v1:* -@all");
    let groups = "+@connection +@read +@write +@scripting +@pubsub +time";
    let mut command = vec!["ACL", "SETUSER", "gas", "on", &set];
    command.extend(may.split(' ').chain(groups.split(' ')));
    redis.say(&command);
    let node = ClockNode::start(ID, BLOCK).await;
    let encoded =
        percent_encoding::utf8_percent_encode(password, percent_encoding::NON_ALPHANUMERIC);
    let url = redis.url_as(&format!("gas:{encoded}"));
    // By the environment, which lies over the file.
    let variables = [("GAS_REDIS__URL", url.as_str()), TRACE];
    let nowhere = "redis://127.0.0.1:1/";
    let replicas = [
        start("letters-0", &node, nowhere, &variables).await,
        start("letters-1", &node, nowhere, &variables).await,
    ];
    let group = Group::of(redis, node, &replicas).await;
    for replica in group.replicas() {
        tells_no_secret(replica).await;
    }
    group.is_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_tls_replicas_share_where_they_know_the_authority_and_are_alone_where_not() {
    let (known, other) = (Authority::new("known-to-all"), Authority::new("known-to-nobody"));
    let redis = Redis::with_tls(&known);
    let node = ClockNode::start(ID, BLOCK).await;
    let believes = |authority: &Authority| authority.certificate.to_str().unwrap().to_owned();
    let (known, other) = (believes(&known), believes(&other));
    let url = redis.tls_url();
    // The port that speaks TLS is no port for others, and the other one does not speak it.
    let plain = redis.url(0);
    are_alone(&[
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
    let group = Group::of(redis, node, &replicas).await;
    group.is_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_at_the_start_it_starts_all_the_same_and_shares_when_there_is_one() {
    let redis = Redis::start();
    let node = ClockNode::start(ID, BLOCK).await;
    // Nobody there, nobody who answers, and somebody who is no Redis.
    redis.freeze();
    let elsewhere = free_port();
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let no_redis = format!("redis://{}", other.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = other.accept().await {
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    are_alone(&[
        ("start-nobody", format!("redis://127.0.0.1:{elsewhere}"), &[]),
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
    let (clock, terms) = (node.clock(), Terms::default());
    let watches = replicas
        .each_ref()
        .map(|replica| Watch::start(replica, "a", clock.clone(), terms.clone(), READING));
    let rejoined = super::share_again(&watches, &node, returned).await;
    println!("shared after {rejoined:?}");
}
