//! Whatever the API does, each look-up comes to an end, the next one works, and where the chain may answer,
//! it does.

use std::time::{Duration, Instant};

use super::fault_list::{Fault, Question, Told, broken, errors, late, no_answers, odd_answers};
use super::{Stage, source};
use crate::message::Message;
use crate::raw::free_port;
use crate::read_node::Say;
use crate::upstream::{Seen, Step, Upstream, answer, answering};

/// The API's deadline where it is met.
const TIMEOUT: Duration = Duration::from_millis(400);
/// For how long a machine that is busy with other things may hold up anything.
const SLACK: Duration = Duration::from_secs(5);

fn well(question: Question) -> Vec<Step> {
    answering(answer("200 OK", "Content-Type: application/json\r\n", question.of_api()))
}

/// Asserts that the fault was told as it should be.
fn check(fault: &Fault, answer: &Message) {
    let name = &fault.name;
    let code = match &fault.told {
        Told::Unreachable => (502, "upstream_unreachable"),
        Told::Invalid => (502, "upstream_invalid"),
        Told::Late => (504, "upstream_timeout"),
        Told::Passes(status, retry_after, body) => {
            assert_eq!((answer.status(), source(answer)), (*status, "api"), "{name}");
            assert_eq!(answer.text(), body, "{name}");
            assert_eq!(answer.header("content-type"), "application/json", "{name}");
            assert_eq!(answer.header("retry-after"), *retry_after, "{name}");
            let lifetime = if *status == 200 { "public, max-age=5" } else { "no-store" };
            assert_eq!(answer.header("cache-control"), lifetime, "{name}");
            return;
        }
    };
    assert_eq!(answer.outcome(), (code.0, code.1.into()), "{name}: {answer:#?}");
    assert!(!answer.has("x-delegation-source") && !answer.has("location"), "{name}");
}

fn check_chain(fault: &Fault, answer: &Message) {
    let (_, expected) = fault.question.of_chain();
    let found = (answer.status(), answer.text(), source(answer));
    assert_eq!(found, (200, expected, "chain"), "{}: {answer:#?}", fault.name);
    assert_eq!(answer.header("cache-control"), "no-store", "{}", fault.name);
    assert!(!answer.has("age") && !answer.has("retry-after"), "{}", fault.name);
}

/// Plays each fault where the API alone answers and where the chain may too. Those that are met at the
/// deadline have a service of their own: it does not wait for such an API again so soon.
async fn play(faults: Vec<Fault>) {
    tokio::join!(play_for("api", &faults), play_for("api-then-chain", &faults));
}

async fn play_for(sources: &str, faults: &[Fault]) {
    let upstream = Upstream::start(Vec::new()).await;
    let is_late = |fault: &Fault| fault.told == Told::Late;
    let timeout = if faults.iter().any(is_late) { TIMEOUT } else { Duration::from_secs(30) };
    // One place: whoever kept it would be found.
    let more = format!(
        "timeout = \"{}ms\"\napi_key = \"of-the-service\"\nmax_in_flight = 1",
        timeout.as_millis()
    );
    let url = upstream_url(&upstream);
    let start = || Stage::before(&url, sources, &more);
    let mut stage = start().await;
    for (number, fault) in faults.iter().enumerate() {
        let name = &fault.name;
        if is_late(fault) {
            stage = start().await;
        }
        let (returned, _) = fault.question.of_chain();
        stage.node.say(Say::Result(returned.into()));
        upstream.play(fault.script.clone());
        let (before, reads) = (upstream.connections(), stage.reads());
        let asked = Instant::now();
        let answer = stage.get(&fault.question.path(number)).await;
        let took = asked.elapsed();
        let is_of_chain = sources == "api-then-chain" && fault.is_taken_over;
        if is_of_chain {
            check_chain(fault, &answer);
            assert!(stage.reads() > reads, "{name}");
        } else {
            check(fault, &answer);
            assert_eq!(stage.reads(), reads, "{name}");
        }
        if is_late(fault) {
            assert!(took >= timeout, "{name}: after {took:?}");
        }
        assert!(took < TIMEOUT + SLACK, "{name}: after {took:?}");
        // It is asked once.
        assert_eq!(upstream.connections(), before + 1, "{name}");
        upstream.open(1);
        // Nothing of that is left, but that an API which is silent is let be.
        upstream.play(well(fault.question));
        let answer = stage.get(&fault.question.path(number + 1000)).await;
        if is_late(fault) && is_of_chain {
            check_chain(fault, &answer);
            assert_eq!(upstream.connections(), before + 1, "{name}");
        } else {
            let found = (answer.status(), answer.text(), source(&answer));
            assert_eq!(found, (200, fault.question.of_api(), "api"), "{name}: {answer:#?}");
            let request = upstream.request(before + 1).await;
            assert_eq!(request.header("x-api-key"), "of-the-service", "{name}");
        }
    }
}

fn upstream_url(upstream: &Upstream) -> String {
    format!("http://{}", upstream.address())
}

#[tokio::test]
async fn an_api_that_is_late_is_a_504_or_the_chain_answers() {
    play(late()).await;
}

#[tokio::test]
async fn an_api_that_breaks_off_is_a_502_or_the_chain_answers() {
    play(broken()).await;
}

#[tokio::test]
async fn what_no_api_of_delegations_says_is_a_502_or_the_chain_answers() {
    let other = Upstream::start(well(Question::List)).await;
    play(no_answers(&upstream_url(&other))).await;
    // Nobody was led there.
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn errors_of_the_api_pass_unless_the_chain_can_know_better() {
    play(errors()).await;
}

#[tokio::test]
async fn whatever_is_an_answer_is_told() {
    play(odd_answers()).await;
}

#[tokio::test]
async fn an_api_that_is_down_is_a_502_or_the_chain_answers_and_is_asked_again_the_next_time() {
    for sources in ["api", "api-then-chain"] {
        let port = free_port();
        let stage = Stage::before(&format!("http://127.0.0.1:{port}"), sources, "").await;
        let down = async |number| {
            let asked = Instant::now();
            let answer = stage.get(&Question::All.path(number)).await;
            assert!(asked.elapsed() < SLACK, "{:?}", asked.elapsed());
            if sources == "api" {
                assert_eq!(answer.outcome(), (502, "upstream_unreachable".into()));
            } else {
                assert_eq!((answer.text(), source(&answer)), ("true", "chain"));
            }
        };
        for number in 0..40 {
            down(number).await;
        }
        let up = Upstream::at(port, well(Question::All)).await;
        let answer = stage.get(&Question::All.path(40)).await;
        assert_eq!((answer.text(), source(&answer)), ("false", "api"));
        drop(up);
        // What it said is good for a while.
        let answer = stage.get(&Question::All.path(40)).await;
        assert_eq!((answer.text(), source(&answer)), ("false", "api"));
        down(41).await;
    }
}

#[tokio::test]
async fn nobody_waits_for_an_api_that_is_silent_where_the_chain_can_answer() {
    let upstream = Upstream::start(vec![Step::Request]).await;
    let more = format!("timeout = \"{}ms\"", TIMEOUT.as_millis());
    let stage = Stage::before(&upstream_url(&upstream), "api-then-chain", &more).await;
    let answer = stage.get(&Question::All.path(0)).await;
    assert_eq!((answer.text(), source(&answer)), ("true", "chain"));
    upstream.until(0, |seen: &Seen| seen.is_ended).await;
    for number in 1..50 {
        let asked = Instant::now();
        let answer = stage.get(&Question::All.path(number)).await;
        assert_eq!((answer.text(), source(&answer)), ("true", "chain"));
        assert!(asked.elapsed() < TIMEOUT, "{:?}", asked.elapsed());
    }
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn where_neither_answers_the_chain_says_why() {
    let upstream = Upstream::start(vec![Step::Close]).await;
    let stage = Stage::before(&upstream_url(&upstream), "api-then-chain", "").await;
    for (number, (said, code)) in [
        (Say::Result("\"0x\"".into()), "registry_absent"),
        (Say::Result("\"0x01\"".into()), "upstream_invalid"),
        (Say::Raw(500, String::new()), "upstream_unreachable"),
    ]
    .into_iter()
    .enumerate()
    {
        stage.node.say(said);
        let answer = stage.get(&Question::All.path(number)).await;
        assert_eq!(answer.outcome(), (502, code.into()));
    }
    assert_eq!(upstream.connections(), 3);
}
