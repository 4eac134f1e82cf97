//! How often the API is asked without a key, however often the service is.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::{Stage, address, check, source};
use crate::delegate_api::{Asked, DelegateApi};
use crate::exchange::exchange;
use crate::raw::{Connection, Response, free_port, get};
use crate::upstream::{Step, Upstream};

const WINDOW: Duration = Duration::from_secs(10);
/// How long a request may wait for a place that gets free.
const PATIENCE: Duration = Duration::from_secs(1);
/// For how long a machine that is busy with other things may hold up anything.
const SLACK: Duration = Duration::from_secs(2);

/// A look-up from its beginning to its answer.
#[derive(Debug)]
struct Done {
    asked: Instant,
    answered: Instant,
    answer: Response,
}

impl Done {
    fn of(asked: Instant, answer: Response) -> Self {
        Self { asked, answered: Instant::now(), answer }
    }

    fn retry_after(&self) -> Duration {
        Duration::from_secs(self.answer.header("retry-after").parse().expect("seconds"))
    }
}

/// 500 look-ups in 10 s by 20 clients: two in five are for one of four popular ones.
async fn load(service: SocketAddr) -> Vec<Done> {
    let mut clients = JoinSet::new();
    for client in 0..20_usize {
        clients.spawn(async move {
            let from = Ipv4Addr::new(127, 0, 0, u8::try_from(client).unwrap() + 10);
            let mut connection = Connection::open_from(from, service).await;
            let mut pace = tokio::time::interval(Duration::from_millis(400));
            pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut done = Vec::new();
            for round in 0..25 {
                pace.tick().await;
                let is_popular = (client + round) % 5 < 2;
                let number =
                    if is_popular { 2 + (client + round) % 4 } else { 1000 + client * 100 + round };
                let asked = Instant::now();
                let answer = connection.ask(get(&check(number), "")).await;
                done.push(Done::of(asked, answer));
            }
            done
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

/// The most requests of any window, wherever it begins.
pub(super) fn most_in_a_window(asked: &[Asked]) -> usize {
    let within = |from: Instant| {
        let later = asked.iter().filter(|one| one.at >= from);
        later.filter(|one| one.at.duration_since(from) < WINDOW).count()
    };
    asked.iter().map(|one| within(one.at)).max().unwrap_or_default()
}

/// What a refusal promises is neither less than the truth nor much more: when the 25th request before it
/// leaves every window. `asked` is in order.
fn check_refusal(done: &Done, asked: &[Asked]) {
    assert_eq!(done.answer.outcome(), (429, "rate_limited".into()), "{done:#?}");
    let arrived = |by: Instant| asked.iter().filter(|one| one.at <= by).count();
    // Some of them may be on their way.
    let soon = asked.iter().filter(|one| one.at <= done.answered + SLACK).count();
    assert!(soon >= 25, "refused after {soon} requests");
    let free_after = |count: usize| asked[count.saturating_sub(25)].at + WINDOW;
    let free = free_after(arrived(done.answered));
    let promised = done.answered + done.retry_after();
    assert!(promised + PATIENCE >= free, "{:?} too early", free - promised);
    // Those that waited for a place had one by then.
    let latest = free_after(arrived(done.answered + PATIENCE)) + Duration::from_secs(1) + SLACK;
    let promised = done.asked + done.retry_after();
    assert!(promised <= latest, "{:?} too late", promised - latest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_do_not_make_the_service_ask_too_often_and_are_told_when_to_come_back() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    api.say("check/all", "true");
    let began = Instant::now();
    let done = load(stage.service.address()).await;
    println!("500 look-ups in {:?}", began.elapsed());
    assert_eq!(done.len(), 500);
    let (answered, refused): (Vec<_>, Vec<_>) =
        done.iter().partition(|done| done.answer.status == 200);
    for done in &answered {
        assert_eq!(done.answer.body, "true");
        assert_eq!(done.answer.header("x-delegation-source"), "api");
    }
    let asked = api.asked();
    println!(
        "{} answered, {} refused, {} requests, at most {} in a window",
        answered.len(),
        refused.len(),
        asked.len(),
        most_in_a_window(&asked)
    );
    for done in &refused {
        check_refusal(done, &asked);
        let took = done.answered.duration_since(done.asked);
        assert!(took < Duration::from_secs(1), "refused after {took:?}");
    }
    // Whatever may be asked is, and what was asked for twice is asked once.
    assert!((25..=50).contains(&asked.len()), "{}", asked.len());
    assert!(answered.len() > asked.len() && refused.len() > 100, "{}", answered.len());
    // Whoever comes back when it was told to, and nobody came in between, is answered.
    let mut more = 0;
    let wait: u64 = loop {
        let answer = stage.get(&check(9000 + more)).await;
        more += 1;
        match answer.status() {
            200 => assert!(more <= 25, "asked too often"),
            _ => break answer.header("retry-after").parse().unwrap(),
        }
    };
    tokio::time::sleep(Duration::from_secs(wait)).await;
    let answer = stage.get(&check(8999)).await;
    assert_eq!((answer.status(), answer.text()), (200, "true"), "{answer:#?}");
    assert!(most_in_a_window(&api.asked()) <= 25);
    let mut counted = 0;
    for outcome in ["api", "reused", "shared", "over_budget"] {
        counted += stage.count(outcome).await;
    }
    assert_eq!(counted, u64::try_from(501 + more).unwrap());
    assert_eq!(stage.count("over_budget").await, u64::try_from(refused.len() + 1).unwrap());
    assert_eq!(stage.count("api").await, u64::try_from(api.count()).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_are_all_answered_where_the_chain_takes_over() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api-then-chain", "").await;
    // The chain says that they may.
    api.say("check/all", "false");
    let done = load(stage.service.address()).await;
    assert_eq!(done.len(), 500);
    let (mut of_api, mut of_chain) = (0, 0);
    for done in &done {
        let answer = &done.answer;
        match (answer.status, answer.header("x-delegation-source"), answer.body.as_str()) {
            (200, "api", "false") => of_api += 1,
            (200, "chain", "true") => of_chain += 1,
            other => panic!("{other:?}"),
        }
    }
    let (asked, reads) = (api.asked(), stage.reads());
    println!(
        "{of_api} by the API in {} requests, at most {} in a window; {of_chain} by the chain in \
         {reads} reads",
        asked.len(),
        most_in_a_window(&asked)
    );
    assert!((25..=50).contains(&asked.len()), "{}", asked.len());
    assert!(of_api >= asked.len() && of_chain >= reads && reads > 100, "{of_api} {of_chain}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_long_requests_are_on_their_way_no_window_of_the_api_has_too_many() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    // Those that are sent first arrive late, those that follow arrive at once.
    api.is_away(Duration::from_secs(2));
    let service = stage.service.address();
    let mut first = JoinSet::new();
    for number in 0..25 {
        let request = crate::exchange::get(&check(1000 + number));
        first.spawn(async move { exchange(service, request.as_bytes()).await.0.unwrap().status() });
    }
    assert_eq!(first.join_all().await, [200; 25]);
    api.is_away(Duration::ZERO);
    let mut number = 2000;
    loop {
        let asked = Instant::now();
        let answer = Connection::open(service).await.ask(get(&check(number), "")).await;
        number += 1;
        let done = Done::of(asked, answer);
        if done.answer.status == 429 {
            check_refusal(&done, &api.asked());
            // As soon as it may be asked, and as often.
            if api.count() > 25 {
                break;
            }
        }
        tokio::task::yield_now().await;
    }
    // The API itself tells when it is asked too often.
    assert!(api.count() > 25 && most_in_a_window(&api.asked()) <= 25);
}

#[tokio::test]
async fn a_look_up_more_than_may_be_asked_is_refused_at_once() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "").await;
    for number in 0..25 {
        assert_eq!(stage.get(&check(1000 + number)).await.status(), 200);
    }
    let first = api.asked()[0].at;
    for path in [check(2000), format!("/registry/v2/{}", address(5))] {
        let asked = Instant::now();
        let answer = stage.get(&path).await;
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        assert_eq!(answer.outcome(), (429, "rate_limited".into()));
        let problem = answer.problem();
        assert_eq!(problem["title"], "Too Many Requests");
        assert_eq!(problem["detail"], "more look-ups than the service may make at a time");
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        let free = (first + WINDOW).duration_since(Instant::now());
        assert!(wait <= 10 && Duration::from_secs(wait) + PATIENCE >= free, "{wait} {free:?}");
        assert!(!answer.has("x-delegation-source") && !answer.has("age"), "{answer:#?}");
    }
    // What is known is told.
    let answer = stage.get(&check(1024)).await;
    assert_eq!((answer.status(), source(&answer)), (200, "api"));
    assert_eq!(api.count(), 25);
}

#[tokio::test]
async fn what_cannot_be_sent_costs_nothing_and_what_fails_costs_its_place() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let stage = Stage::before(&url, "api", "timeout = \"1s\"").await;
    for number in 0..60 {
        let answer = stage.get(&check(number)).await;
        assert_eq!(answer.outcome(), (502, "upstream_unreachable".into()));
    }
    let upstream = Upstream::at(port, vec![Step::Request, Step::Close]).await;
    for number in 0..25 {
        let answer = stage.get(&check(number)).await;
        assert_eq!(answer.outcome(), (502, "upstream_unreachable".into()), "{number}");
    }
    assert_eq!(stage.get(&check(100)).await.outcome(), (429, "rate_limited".into()));
    assert_eq!(upstream.connections(), 25);
}

#[tokio::test]
async fn a_promise_holds_however_long_the_requests_under_way_still_take() {
    let api = DelegateApi::start().await;
    let stage = Stage::before(&api.url(), "api", "timeout = \"3s\"").await;
    api.hold("check/all");
    let service = stage.service.address();
    let mut under_way = JoinSet::new();
    for number in 0..25 {
        let request = get(&check(1000 + number), "");
        under_way.spawn(async move { exchange(service, request.as_bytes()).await.0.unwrap() });
    }
    api.wait_for(25).await;
    // Longer than an answer takes as long as nothing else is known.
    tokio::time::sleep(PATIENCE).await;
    let answer = stage.get(&check(2000)).await;
    assert_eq!(answer.outcome(), (429, "rate_limited".into()));
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    let promised = Instant::now() + Duration::from_secs(wait);
    // None of them has ended before that.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    api.release();
    assert!(under_way.join_all().await.iter().all(|answer| answer.status() == 200));
    tokio::time::sleep_until(promised.into()).await;
    let answer = stage.get(&check(2000)).await;
    assert_eq!((answer.status(), answer.text()), (200, "false"), "{answer:#?}");
}
