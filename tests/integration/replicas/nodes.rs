//! Replicas of which one, or none, gets anything out of the node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock_node::{ClockNode, Mood, Terms};
use super::redis::Redis;
use super::replica::Replica;
use super::watch::{MOST, Record, Watch};
use super::{BLOCK, Group, ID, READING, at, chain, until};
use crate::failover::dead_url;
use crate::raw::{self, Connection};
use crate::read_node::{ReadNode, Say};
use crate::service::{Answer, Service};

const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// What is compared of times that two clocks were read for.
const SECOND: Duration = Duration::from_secs(1);

fn newest(answer: &Answer) -> Option<u64> {
    answer.header("x-newest-block").parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_starts_while_the_node_is_down_serves_what_is_shared_until_it_is_too_old() {
    const MAX_AGE: Duration = Duration::from_secs(12);
    const STALE_AFTER: Duration = Duration::from_secs(4);
    let block = Duration::from_secs(2);
    let redis = Redis::start();
    let node = ClockNode::start(ID, block).await;
    let config = |url: &str| {
        let chain = chain("a", ID, url, "max_age = \"12s\"\n").replace("\"1s\"", "\"2s\"");
        at(&redis.url(0)) + &chain
    };
    let start = |who: &str| Replica::start(&format!("down-{who}"), &config(&node.url_of(who)));
    let mut replicas = vec![start("first"), start("second")];
    for replica in &replicas {
        replica.is_ready().await;
    }
    until("a turn that is left", async || {
        let (first, second) = (replicas[0].counts("a").await, replicas[1].counts("a").await);
        first.adopted + second.adopted >= 2
    })
    .await;

    node.is(Mood::Broken);
    // Right after a turn, so that the next one is a block time away.
    let calls = node.tally().calls;
    until("a poll that fails", async || node.tally().calls > calls).await;
    let (head, observed) = node.last_answer().unwrap();
    let started = Instant::now();
    replicas.push(start("new"));
    replicas[2].is_ready().await;
    let ready = started.elapsed();
    let first = replicas[2].get(SUGGESTION).await;
    let asked = node.calls().iter().filter(|call| call.who == "new").count();
    println!("ready after {ready:?}, {asked} calls by then, age {}", first.header("age"));
    assert_eq!((first.status, asked), (200, 0), "{first:?}");
    assert_eq!(first.body, Terms::default().suggestion("a", head));

    // All of them say the same of it, and no longer than they may.
    let mut ended = [None; 3];
    let (mut fresh, mut stale) = (0, 0);
    until("all refuse", async || {
        for (replica, ended) in replicas.iter().zip(&mut ended) {
            let least = observed.elapsed();
            let answer = replica.get(SUGGESTION).await;
            let most = observed.elapsed();
            let told = format!("{} between {least:?} and {most:?}: {answer:?}", replica.name);
            if answer.status == 503 {
                assert_eq!(answer.json()["code"], "stale_data", "{told}");
                ended.get_or_insert(most);
                continue;
            }
            assert!(answer.status == 200 && ended.is_none(), "{told}");
            assert_eq!(newest(&answer), Some(head), "{told}");
            let age = Duration::from_secs(answer.header("age").parse().unwrap());
            assert!(age + SECOND >= least && age <= most + SECOND, "{told}");
            let is_stale = answer.header("x-stale") == "true";
            // At the limit the difference of two clocks decides.
            let is_near = least < STALE_AFTER + SECOND / 4 && most + SECOND / 4 > STALE_AFTER;
            assert!(is_near || is_stale == (least > STALE_AFTER), "{told}");
            if replica.name == "down-new" {
                *(if is_stale { &mut stale } else { &mut fresh }) += 1;
            }
        }
        ended.iter().all(Option::is_some)
    })
    .await;
    println!("refused from an age of {ended:?} on");
    for ended in ended.into_iter().flatten() {
        assert!(ended + SECOND / 4 >= MAX_AGE && ended <= MAX_AGE + SECOND, "{ended:?}");
    }
    assert!(fresh > 0 && stale > 0, "{fresh} fresh, {stale} stale");

    node.is(Mood::Well);
    until("all serve again", async || {
        for replica in &replicas {
            let answer = replica.get(SUGGESTION).await;
            if answer.status != 200 || newest(&answer).is_none_or(|newest| newest <= head) {
                return false;
            }
        }
        true
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_reaches_a_replica_late_is_as_old_as_it_is_and_no_longer_served_than_by_others() {
    const MAX_AGE: Duration = Duration::from_secs(9);
    const FROZEN: Duration = Duration::from_secs(5);
    let redis = Redis::start();
    let node = ClockNode::start(ID, BLOCK).await;
    let config = at(&redis.url(0)) + &chain("a", ID, &node.url(), "max_age = \"9s\"\n");
    let start = |name: &str| Arc::new(Replica::start(name, &config));
    let group = Group::of(redis, node, &["late-0", "late-1"].map(start)).await;
    // Whoever polls goes on polling; the other one is not there when it is told of the last value.
    let counts = group.counts().await;
    let late = &group.watches[usize::from(counts[0].claimed > counts[1].claimed)];
    let calls = group.node.tally().calls;
    until("a poll", async || group.node.tally().calls > calls).await;
    // From here on it is read below.
    group.watches.iter().for_each(Watch::is_gone);
    late.replica.freeze();
    until("another poll", async || group.node.answers(calls + 1).len() == 1).await;
    group.node.is(Mood::Broken);
    let (head, observed) = group.node.last_answer().unwrap();
    // What is waited for is the time itself.
    tokio::time::sleep(FROZEN).await;
    late.replica.thaw();

    let mut ages = Vec::new();
    let mut ended = [None; 2];
    until("both refuse", async || {
        for (watch, ended) in group.watches.iter().zip(&mut ended) {
            let least = observed.elapsed();
            let answer = watch.replica.get(SUGGESTION).await;
            let most = observed.elapsed();
            if answer.status == 503 {
                ended.get_or_insert(most);
            } else if newest(&answer) == Some(head) {
                let age: u64 = answer.header("age").parse().unwrap();
                ages.push((watch.replica.name.clone(), least, age, most));
            }
        }
        ended.iter().all(Option::is_some)
    })
    .await;
    println!("{} is late; refused from an age of {ended:?} on", late.replica.name);
    let is_true = |(_, least, age, most): &&(_, Duration, u64, Duration)| {
        let age = Duration::from_secs(*age);
        age + SECOND >= *least && age <= *most + SECOND
    };
    let wrong: Vec<_> = ages.iter().filter(|age| !is_true(age)).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(ages.iter().any(|(name, ..)| *name == late.replica.name), "it never served it");
    for ended in ended.into_iter().flatten() {
        assert!(ended + SECOND / 4 >= MAX_AGE && ended <= MAX_AGE + SECOND, "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_cannot_reach_the_node_serves_what_the_others_get() {
    const BLOCKS: u64 = 10;
    let redis = Redis::start();
    let node = ClockNode::start(ID, BLOCK).await;
    let config = |url: &str| at(&redis.url(0)) + &chain("a", ID, url, "");
    let start = |name: &str, url: &str| Arc::new(Replica::start(name, &config(url)));
    let replicas = [
        start("reaching-0", &node.url()),
        start("reaching-1", &node.url()),
        start("cut-off", &dead_url()),
    ];
    let group = Group::of(redis, node, &replicas).await;
    let goes_on = async |what: &str| {
        group.take();
        let before = group.node.tally();
        group.blocks(BLOCKS).await;
        let (blocks, calls) = group.node.tally().since(before);
        let record = group.take();
        println!("{what}: {calls} calls in {blocks} blocks, {record:?}");
        assert_eq!(record.failures, [""; 0]);
        assert!(record.max_lag() <= MOST && record.max_jump() <= MOST, "{record:?}");
        assert!((blocks - 1..=blocks + 1).contains(&calls), "{calls} in {blocks} blocks");
    };
    goes_on("all run").await;

    // Nobody else is there, so the turns are its own; what it is not able to do is soon done by those who come back.
    let cut_off = async || group.watches[2].replica.counts("a").await;
    let claimed = cut_off().await.claimed;
    for watch in &group.watches[..2] {
        watch.is_gone();
        watch.replica.freeze();
    }
    until("turns of the one that is cut off", async || cut_off().await.claimed >= claimed + 2)
        .await;
    for watch in &group.watches[..2] {
        watch.replica.thaw();
        watch.is_thawed(2 * SECOND);
    }
    group.blocks(3).await;
    goes_on("those who can reach it were away").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_that_one_replica_meets_is_kept_by_all_and_by_those_that_start_meanwhile() {
    const LIMIT: Duration = Duration::from_secs(5);
    let group = Group::start("limit", 3, Redis::start()).await;
    let first = group.node.tally().calls;
    group.node.is(Mood::Limited(LIMIT.as_secs()));
    until("a call that is refused", async || group.node.tally().calls > first).await;
    let refused = group.node.calls()[first].at;
    // Whoever asks now would be answered, and counted.
    group.node.is(Mood::Well);
    // Else the one that is ended may be the one that was told, before it has told anybody.
    let is_told = |key: &Vec<u8>| String::from_utf8_lossy(key).contains(":cooldown:");
    until("a cool-down", async || group.redis.keys("gas:v1:").iter().any(is_told)).await;
    let restarted = &group.watches[0];
    restarted.is_gone();
    restarted.replica.kill();
    restarted.replica.start_again();
    restarted.replica.is_ready().await;
    restarted.is_back();
    until("a further call", async || group.node.tally().calls > first + 1).await;
    let calls: Vec<_> = group.node.calls()[first + 1..].to_vec();
    let pause = calls[0].at - refused;
    println!("asked again after {pause:?}: {calls:?}");
    assert!(pause >= LIMIT, "{pause:?}: {calls:#?}");
    // Up to a tenth more than the node wants, and then the next turn.
    assert!(pause <= LIMIT + LIMIT / 10 + 2 * BLOCK + SECOND / 2, "{pause:?}");
    assert!(pause > Duration::ZERO && restarted.replica.counts("a").await.alone == 0);
    group.share_again(Instant::now()).await;
    group.is_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_are_started_again_do_not_ask_for_the_chain_again() {
    let group = Group::start("proof", 3, Redis::start()).await;
    // Whoever polls is started again, until each of them has polled.
    let mut have_polled = [false; 3];
    until("each has polled", async || {
        for (watch, has_polled) in group.watches.iter().zip(&mut have_polled) {
            if watch.replica.counts("a").await.claimed > 0 {
                *has_polled = true;
                watch.is_gone();
                watch.replica.kill();
                watch.replica.start_again();
                watch.replica.is_ready().await;
                watch.is_back();
            }
        }
        have_polled == [true; 3]
    })
    .await;
    let methods = group.node.methods(0);
    println!("{methods:?}");
    assert_eq!(methods["eth_chainId"], 1, "{methods:?}");
    group.is_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_struck_in_the_middle_of_its_poll_costs_one_block() {
    let group = Group::start("struck", 3, Redis::start()).await;
    group.node.takes(Duration::from_millis(300));
    group.blocks(1).await;
    for is_killed in [true, false, true, false] {
        group.take();
        let (first, struck) = group.next_poll().await;
        struck.is_gone();
        if is_killed {
            struck.replica.kill();
        } else {
            struck.replica.freeze();
        }
        let answers = || group.node.answers(first + 1);
        until("further polls", async || answers().len() >= 3).await;
        if is_killed {
            struck.replica.start_again();
            struck.replica.is_ready().await;
            struck.is_back();
        } else {
            // What it was told before it was frozen is by now older than what the others have.
            struck.replica.thaw();
            struck.is_thawed(SECOND);
        }
        until("further polls", async || answers().len() >= 5).await;
        let record = group.take();
        let by = if is_killed { "killed" } else { "frozen" };
        println!("{} is {by}: {record:?}", struck.replica.name);
        assert_eq!(record.failures, [""; 0]);
        assert!(record.max_lag() <= MOST && record.max_jump() <= MOST, "{record:?}");
        // The node answers the one that is struck, too, but nobody hears of it. One slot is lost, and the next
        // one may be claimed a little later.
        let polls: Vec<_> = group.node.calls()[first..].to_vec();
        for two in polls.windows(2) {
            let pause = two[1].at - two[0].at;
            assert!(pause <= BLOCK + SECOND / 2, "{pause:?}: {polls:#?}");
            assert!(pause >= SECOND / 4, "{pause:?}: {polls:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_together_ask_the_node_once() {
    let redis = Redis::start();
    // They all come within the first slot, as a rule.
    let node = ClockNode::start(ID, 10 * BLOCK).await;
    let chain = chain("a", ID, &node.url(), "").replace("\"1s\"", "\"10s\"");
    let config = at(&redis.url(0)) + &chain;
    let started = Instant::now();
    let replicas: Vec<_> =
        (0..6).map(|place| Replica::start(&format!("together-{place}"), &config)).collect();
    for replica in &replicas {
        replica.is_ready().await;
        let answer = replica.get(SUGGESTION).await;
        let newest = newest(&answer).unwrap();
        assert_eq!(answer.body, Terms::default().suggestion("a", newest), "{answer:?}");
    }
    let (took, methods) = (started.elapsed(), node.methods(0));
    println!("{methods:?} in {took:?}");
    assert!(took < 8 * BLOCK, "too slow for a slot: {took:?}");
    assert_eq!(methods["eth_chainId"], 1, "{methods:?}");
    assert!(methods["eth_feeHistory"] <= 2, "{methods:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_that_fails_is_made_up_for_within_seconds_by_one_for_all() {
    const FAILING: Duration = Duration::from_secs(11);
    let redis = Redis::start();
    let node = ClockNode::start(ID, BLOCK).await;
    node.is(Mood::Broken);
    let chain = chain("a", ID, &node.url(), "max_age = \"40m\"\n").replace("\"1s\"", "\"10m\"");
    let config = at(&redis.url(0)) + &chain;
    let replicas: Vec<_> =
        (0..3).map(|place| Replica::start(&format!("failing-{place}"), &config)).collect();
    for replica in &replicas {
        replica.is_live().await;
    }
    until("a poll that fails", async || node.tally().calls > 0).await;
    // What must not happen needs the time not to: a poll each five seconds, not one of each replica.
    tokio::time::sleep(FAILING).await;
    let failed = node.tally().calls;
    node.is(Mood::Well);
    let since = Instant::now();
    until("all serve", async || {
        for replica in &replicas {
            if replica.get(SUGGESTION).await.status != 200 {
                return false;
            }
        }
        true
    })
    .await;
    let (took, methods) = (since.elapsed(), node.methods(failed));
    println!("{failed} calls in {FAILING:?}, then {methods:?}, served after {took:?}");
    assert!((2..=4).contains(&failed), "{failed}");
    assert!(took <= 7 * SECOND, "{took:?}");
    assert_eq!((methods["eth_chainId"], methods["eth_feeHistory"]), (1, 1), "{methods:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_starts_while_the_head_stands_knows_for_how_long() {
    let redis = Redis::start();
    let node = ClockNode::start(ID, Duration::from_hours(1)).await;
    let config = at(&redis.url(0)) + &chain("a", ID, &node.url(), "stall_after = \"4s\"\n");
    let start = |name: &str| Replica::start(name, &config);
    let mut replicas = vec![start("standing-0"), start("standing-1")];
    let since = Instant::now();
    for replica in &replicas {
        replica.is_ready().await;
        let answer = replica.get(SUGGESTION).await;
        assert_eq!((answer.status, answer.header("x-stale")), (200, ""), "{answer:?}");
    }
    for replica in &replicas {
        let is_stale = async || replica.get(SUGGESTION).await.header("x-stale") == "true";
        until("it is labelled", is_stale).await;
    }
    let took = since.elapsed();
    assert!(took >= 4 * SECOND && took <= 7 * SECOND, "{took:?}");
    replicas.push(start("standing-new"));
    replicas[2].is_ready().await;
    for replica in &replicas {
        let answer = replica.get(SUGGESTION).await;
        let age: u64 = answer.header("age").parse().unwrap();
        assert!(answer.header("x-stale") == "true" && age <= 2, "{}: {answer:?}", replica.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_polls_reaches_the_others_at_once() {
    const POLLS: usize = 5;
    let group = Group::start("reaching-all", 3, Redis::start()).await;
    let mut delays = Vec::new();
    while delays.len() < POLLS {
        let answered = group.node.tally().calls;
        until("a poll", async || group.node.answers(answered).len() == 1).await;
        let (head, at) = group.node.last_answer().unwrap();
        let reached =
            async |replica: &Replica| newest(&replica.get(SUGGESTION).await) >= Some(head);
        until("it has reached all", async || {
            for replica in group.replicas() {
                if !reached(replica).await {
                    return false;
                }
            }
            true
        })
        .await;
        delays.push(at.elapsed());
    }
    delays.sort_unstable();
    println!("{delays:?}");
    // Those who do not hear of it find it when they look for a turn, an eighth of a slot after the poll. A busy
    // machine may hold up each, but hardly all.
    assert!(delays[0] < BLOCK / 8, "{delays:?}");
    group.is_well();
}

/// Waits until all of them serve a head of the chain that began at `first` less than a minute ago.
async fn all_follow(watches: &[Watch], first: u64) -> Duration {
    let since = Instant::now();
    until("all follow", async || {
        for watch in watches {
            let answer = watch.replica.get(SUGGESTION).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            if newest(&answer).is_none_or(|newest| !(first..first + 60).contains(&newest)) {
                return false;
            }
        }
        true
    })
    .await;
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_that_starts_over_reaches_all_and_goes_on_from_there() {
    let group = Group::start("reset", 4, Redis::start()).await;
    group.is_well();
    let resets = [
        (5_000_000, false),
        // What was agreed on before is forgotten.
        (3_000_000, true),
        (1_000_000, false),
    ];
    for (first, is_forgotten) in resets {
        if is_forgotten {
            group.redis.kill();
            group.redis.start_again();
        }
        group.watches.iter().for_each(Watch::is_gone);
        // One is away when it happens, another one is new when it has happened.
        let (frozen, new) = (&group.watches[0].replica, &group.watches[1].replica);
        frozen.freeze();
        group.node.start_over_at(first);
        let took = all_follow(&group.watches[1..], first).await;
        frozen.thaw();
        let took_frozen = all_follow(&group.watches, first).await;
        new.kill();
        new.start_again();
        new.is_ready().await;
        all_follow(&group.watches, first).await;
        println!("from {first} on: followed after {took:?}, after being frozen {took_frozen:?}");
        assert!(took <= 10 * SECOND && took_frozen <= 3 * SECOND);

        // Whoever went back to the old chain would serve what is no block yet.
        group.watches.iter().for_each(Watch::starts_over);
        group.blocks(6).await;
        let record = group.watches.iter().map(Watch::take).fold(Record::default(), Record::and);
        assert_eq!(record.failures, [""; 0]);
        assert!(record.max_lag() <= MOST && record.max_jump() <= MOST, "{record:?}");
    }
    group.share_again(Instant::now()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_shared_is_served_on_every_route_and_priced_by_each_for_itself() {
    let redis = Redis::start();
    let node = ClockNode::start(ID, BLOCK).await;
    let config = |more: &str| at(&redis.url(0)) + &chain("a", ID, &node.url(), more);
    let dear = "pricing.base_fee_multiplier = 3\npricing.priority_fee_floor = \"500 gwei\"\n";
    let replicas = [("plain", config("")), ("same", config("")), ("dear", config(dear))]
        .map(|(name, config)| Replica::start(&format!("priced-{name}"), &config));
    for replica in &replicas {
        replica.is_ready().await;
    }
    // At some moment all three have the same block.
    let paths = ["fee-market", "fee-history?blocks=20", "gas-suggestion"];
    let answers = async |replica: &Replica| {
        let mut answers = Vec::new();
        for path in paths {
            answers.push(replica.get(&format!("/v1/a/{path}")).await);
        }
        answers
    };
    let since = Instant::now();
    let [plain, same, dear] = loop {
        let mut all = Vec::new();
        for replica in &replicas {
            all.push(answers(replica).await);
        }
        let heads: Vec<_> = all.iter().flatten().map(newest).collect();
        if heads.iter().all(|head| *head == heads[0]) && since.elapsed() > 4 * BLOCK {
            break all.try_into().unwrap();
        }
        assert!(since.elapsed() < crate::raw::PATIENCE, "{heads:?}");
        tokio::time::sleep(READING).await;
    };
    let comparable = |answer: &Answer| {
        let mut json = answer.json();
        if let Some(at) = json.get_mut("observed_at") {
            let at = humantime::parse_rfc3339(at.take().as_str().unwrap()).unwrap();
            return (json, Some(at));
        }
        (json, None)
    };
    for (plain, same) in plain.iter().zip(&same) {
        let ((plain, at), (same, same_at)) = (comparable(plain), comparable(same));
        assert_eq!(plain, same);
        if let (Some(at), Some(same_at)) = (at, same_at) {
            let apart = at.duration_since(same_at).or_else(|_| same_at.duration_since(at)).unwrap();
            assert!(apart < SECOND / 4, "{apart:?}");
        }
    }
    // Whoever follows one of them hears of each block.
    let stream = raw::get("/v1/a/gas-suggestion/stream", "");
    for replica in &replicas {
        let mut client = Connection::open(replica.address).await;
        client.send(&stream).await;
        client.bytes_until(b"\ndata: {\"chain_name\":\"a\",", 3).await;
    }
    // What is configured of prices is each one's own.
    assert_eq!(dear[1].json(), plain[1].json());
    let base = |answers: &[Answer]| -> u128 {
        answers[2].json()["base_fee_per_gas"].as_str().unwrap().parse().unwrap()
    };
    assert_eq!(base(&dear) * 2, base(&plain) * 3);
    let tip = &dear[2].json()["medium"]["max_priority_fee_per_gas"];
    assert_eq!(tip, "500000000000");
    // They did share it.
    for replica in &replicas {
        let counts = replica.counts("a").await;
        assert!(counts.alone == 0 && counts.claimed + counts.left > 0, "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_refuses_a_client_keeps_no_replica_from_polling() {
    let redis = Redis::start();
    let node = ReadNode::start(Say::Raw(429, "slow down".into())).await;
    let config = at(&redis.url(0))
        + &format!(
            "[chains.a]\nchain_id = 2020\nblock_time = \"250ms\"\nrpc_urls = [\"{}\"]\n",
            node.url()
        );
    let services = [Service::start(&config).await, Service::start(&config).await];
    until("polls", async || node.polls() >= 2).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_gasPrice","params":[]}"#;
    let refused = reqwest::Client::new().post(services[0].url("/rpc/a")).body(call).send();
    let refused = Answer::of(refused.await.unwrap()).await;
    assert_eq!(refused.json()["error"]["code"], -32005, "{refused:?}");
    let polls = node.polls();
    until("further polls", async || {
        let keys = redis.keys("gas:v1:");
        let keys = keys.iter().map(|key| String::from_utf8_lossy(key));
        assert!(keys.into_iter().all(|key| !key.contains(":cooldown:")));
        node.polls() >= polls + 3
    })
    .await;
}
