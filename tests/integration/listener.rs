//! What a client may take: time, connections, requests, memory and file descriptors.
//!
//! Deadlines are met to a second or so; `benches/slow_clients.sh` measures that. Here they only have
//! to be told from the built-in ones, on a machine that is busy with other tests.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::command::{self, FREE_PORTS, Process};
use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::raw::{Connection, PATIENCE, Response, get};
use crate::service::Service;

/// All deadlines of these tests, and when a connection that missed one is gone at the latest.
const DEADLINE: Duration = Duration::from_millis(300);
const GONE: Duration = Duration::from_secs(6);

const DEADLINES: &str = "header_timeout = \"300ms\"\nidle_timeout = \"300ms\"\n\
                         write_timeout = \"300ms\"\nbody_timeout = \"300ms\"\n";
const NO_RATE: &str = "requests_per_second_per_client = 0\n";

/// A service with these `[limits]`, and more in its `[server]` section.
async fn start(limits: &str, server: &str) -> (FakeNode, Service) {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let more = format!("{server}\n[limits]\n{limits}");
    let chain = format!("[chains.a]\nchain_id = 7\nrpc_urls = [\"{}\"]\n", node.url());
    let service = Service::with_server(&more, &chain).await;
    service.wait_admin("/readyz", |answer| answer.status == 200).await;
    (node, service)
}

const SUGGESTION: &str = "/v1/a/gas-suggestion";

fn connections(outcome: &str) -> String {
    format!("gas_suggestion_connections_total{{listener=\"public\",outcome=\"{outcome}\"}}")
}

fn cut(deadline: &str) -> String {
    format!("gas_suggestion_connections_cut_total{{listener=\"public\",deadline=\"{deadline}\"}}")
}

/// What is answered until the connection is closed, which has to be after the deadline and soon.
async fn fate(client: &mut Connection, since: Instant) -> Vec<Response> {
    let answers = client.until_closed().await;
    let elapsed = since.elapsed();
    assert!(elapsed >= DEADLINE && elapsed < GONE, "gone after {elapsed:?}");
    answers
}

fn outcomes(answers: &[Response]) -> Vec<(u16, String)> {
    answers.iter().map(Response::outcome).collect()
}

#[tokio::test]
async fn a_client_that_sends_nothing_is_gone_without_a_word() {
    let (_node, service) = start(DEADLINES, "").await;
    let since = Instant::now();
    let mut client = Connection::open(service.address()).await;
    assert_eq!(fate(&mut client, since).await, []);
    assert_eq!(service.count(&cut("header")).await, 1);
    assert_eq!(service.count(&cut("idle")).await, 0);
}

#[tokio::test]
async fn a_client_that_drips_its_headers_is_told_so_and_gone() {
    let (_node, service) = start(DEADLINES, "").await;
    let since = Instant::now();
    let mut client = Connection::open(service.address()).await;
    let endless = format!("GET {SUGGESTION} HTTP/1.1\r\nHost: a\r\nX-A: {}", "x".repeat(100_000));
    let mut bytes = endless.as_bytes().chunks(1);
    let answer = loop {
        assert!(since.elapsed() < GONE, "it is still there");
        client.send(bytes.next().unwrap()).await;
        if let Ok(answer) = tokio::time::timeout(DEADLINE / 10, client.next()).await {
            break answer.unwrap().unwrap();
        }
    };
    assert_eq!(answer.outcome(), (408, "request_timeout".into()));
    assert!(answer.closes());
    assert_eq!(fate(&mut client, since).await, []);
    assert_eq!(service.count(&cut("header")).await, 1);
}

#[tokio::test]
async fn an_idle_client_is_gone_without_a_word() {
    let limits = DEADLINES.replace("header_timeout = \"300ms\"", "header_timeout = \"1h\"");
    let (_node, service) = start(&limits, "").await;
    let mut client = Connection::open(service.address()).await;
    let since = Instant::now();
    assert_eq!(client.ask(get(SUGGESTION, "")).await.status, 200);
    // An empty line is no request.
    client.send("\r\n").await;
    assert_eq!(fate(&mut client, since).await, []);
    assert_eq!(service.count(&cut("idle")).await, 1);
    assert_eq!(service.count(&cut("header")).await, 0);
}

#[tokio::test]
async fn the_beginning_of_a_next_request_has_the_deadline_of_headers_even_if_it_came_with_the_last()
{
    let limits = DEADLINES.replace("idle_timeout = \"300ms\"", "idle_timeout = \"1h\"");
    let (_node, service) = start(&limits, "").await;
    for part in ["G", "GET /v1/chains HTTP/1.1\r\nHost: a\r\n"] {
        let since = Instant::now();
        let mut client = Connection::open(service.address()).await;
        client.send(get(SUGGESTION, "") + part).await;
        let answers = fate(&mut client, since).await;
        assert_eq!(outcomes(&answers), [(200, String::new()), (408, "request_timeout".into())]);
        assert_eq!(answers.iter().map(Response::closes).collect::<Vec<_>>(), [false, true]);
    }
    assert_eq!(service.count(&cut("header")).await, 2);
}

#[tokio::test]
async fn a_client_that_stalls_its_body_is_answered_and_gone() {
    for headers in ["Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n"] {
        let (_node, service) = start("body_timeout = \"300ms\"\nmax_connections = 1\n", "").await;
        let since = Instant::now();
        let mut client = Connection::open(service.address()).await;
        client.send(format!("POST /v1/chains HTTP/1.1\r\nHost: a\r\n{headers}\r\n5\r\nab")).await;
        let answers = client.until_closed().await;
        assert!(since.elapsed() < GONE, "{:?}", since.elapsed());
        assert_eq!(outcomes(&answers), [(405, "method_not_allowed".into())]);
        assert!(answers[0].closes());
        // It keeps its end open: the service's is closed all the same, and its slot is free.
        wait_for_a_place(service.address()).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_gone() {
    let limits = format!("write_timeout = \"300ms\"\n{NO_RATE}max_connections = 1\n");
    let (_node, service) = start(&limits, "").await;
    let mut client = Connection::open(service.address()).await;
    let requests = get("/v1/chains", "").repeat(100);
    let since = Instant::now();
    let sending = async { while client.try_send(&requests).await.is_ok() {} };
    // First nothing more is taken, because nothing is read, and then the connection is cut.
    tokio::time::timeout(PATIENCE, sending).await.expect("it is gone");
    assert!(since.elapsed() >= DEADLINE, "{:?}", since.elapsed());
    assert_eq!(service.count(&cut("write")).await, 1);
    assert_eq!(service.count(&cut("idle")).await, 0);
    wait_for_a_place(service.address()).await;
}

#[tokio::test]
async fn connections_too_many_are_told_at_once_and_places_are_free_again() {
    let limits = format!("max_connections = 3\n{NO_RATE}");
    let (_node, service) = start(&limits, "").await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut client = Connection::open(service.address()).await;
        assert_eq!(client.ask(get(SUGGESTION, "")).await.status, 200);
        held.push(client);
    }
    let refused = Connection::open(service.address()).await.until_closed().await;
    assert_eq!(outcomes(&refused), [(503, "overloaded".into())]);
    assert_eq!(refused[0].header("retry-after"), "1");
    assert!(refused[0].closes());
    // Those that are there do not suffer.
    for client in &mut held {
        assert_eq!(client.ask(get(SUGGESTION, "")).await.status, 200);
    }
    assert_eq!(service.count(&connections("accepted")).await, 3);
    assert_eq!(service.count(&connections("refused_overloaded")).await, 1);
    held.pop();
    wait_for_a_place(service.address()).await;
    assert_eq!(service.count(&connections("accepted")).await, 4);
}

#[tokio::test]
async fn places_that_silent_clients_hold_are_free_after_their_deadline() {
    let limits = format!("{DEADLINES}max_connections = 2\n{NO_RATE}");
    let (_node, service) = start(&limits, "").await;
    let _silent =
        [Connection::open(service.address()).await, Connection::open(service.address()).await];
    wait_for_a_place(service.address()).await;
    assert_eq!(service.count(&cut("header")).await, 2);
}

#[tokio::test]
async fn one_client_does_not_get_all_the_connections() {
    let limits = format!("max_connections_per_client = 2\n{NO_RATE}");
    let (_node, service) = start(&limits, "").await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = Connection::open(service.address()).await;
        assert_eq!(client.ask(get(SUGGESTION, "")).await.status, 200);
        held.push(client);
    }
    let refused = Connection::open(service.address()).await.until_closed().await;
    assert_eq!(outcomes(&refused), [(429, "rate_limited".into())]);
    assert_eq!(refused[0].header("retry-after"), "1");
    assert!(refused[0].closes());
    let mut other = Connection::open_from(Ipv4Addr::new(127, 0, 0, 2), service.address()).await;
    assert_eq!(other.ask(get(SUGGESTION, "")).await.status, 200);
    assert_eq!(service.count(&connections("refused_too_many_of_client")).await, 1);
    held.pop();
    wait_for_a_place(service.address()).await;
}

/// Connects until a connection is taken; those that are refused are told so.
async fn wait_for_a_place(address: SocketAddr) {
    let since = Instant::now();
    loop {
        let mut client = Connection::open(address).await;
        client.send(get(SUGGESTION, "")).await;
        // With short deadlines it may itself be cut, if this test is not let run for a while.
        let answer = client.next().await.ok().flatten();
        match answer.as_ref().map(|answer| answer.status) {
            Some(200) => return,
            Some(503 | 429) | None => {}
            _ => panic!("{answer:#?}"),
        }
        assert!(since.elapsed() < PATIENCE, "no place is free: {answer:#?}");
        tokio::task::yield_now().await;
    }
}

const RATE_LIMITED: &str = "gas_suggestion_requests_rate_limited_total";

/// Asks until it is refused; how often it was answered, and the refusal.
async fn spend(client: &mut Connection, headers: &str) -> (usize, Response) {
    for count in 0..1000 {
        let answer = client.ask(get(SUGGESTION, headers)).await;
        if answer.status != 200 {
            return (count, answer);
        }
    }
    panic!("there is no end to it");
}

#[tokio::test]
async fn a_client_that_asks_too_much_is_told_when_to_come_back_and_served_then() {
    let limits = "requests_per_second_per_client = 1\nrequest_burst_per_client = 3\n";
    let (_node, service) = start(limits, "").await;
    let address = service.address();
    let mut client = Connection::open(address).await;
    // What orchestrators ask costs nothing.
    for path in ["/livez", "/readyz"].repeat(5) {
        assert_eq!(client.ask(get(path, "")).await.status, 200);
    }
    let since = Instant::now();
    let (count, refused) = spend(&mut client, "Origin: https://app.example\r\n").await;
    let refills = usize::try_from(since.elapsed().as_secs()).unwrap() + 1;
    assert!((3..=3 + refills).contains(&count), "{count} were answered");
    assert_eq!(refused.outcome(), (429, "rate_limited".into()));
    assert_eq!(refused.header("retry-after"), "1");
    assert_ne!(refused.header("access-control-expose-headers"), "");
    assert!(!refused.closes());
    assert_eq!(service.count(RATE_LIMITED).await, 1);
    // The budget is the client's, not the connection's.
    let mut second = Connection::open(address).await;
    let other = async || {
        let mut other = Connection::open_from(Ipv4Addr::new(127, 0, 0, 2), address).await;
        other.ask(get(SUGGESTION, "")).await.status
    };
    assert_eq!(other().await, 200);
    let mut refusals = 1;
    for path in ["/livez", "/readyz", "/livez"] {
        refusals += u64::from(second.ask(get(SUGGESTION, "")).await.status == 429);
        assert_eq!(second.ask(get(path, "")).await.status, 200);
    }
    assert!(refusals > 1, "another connection has a budget of its own");
    let since = Instant::now();
    while client.ask(get(SUGGESTION, "")).await.status == 429 {
        refusals += 1;
        assert!(since.elapsed() < PATIENCE, "it never refills");
    }
    assert_eq!(service.count(RATE_LIMITED).await, refusals);
}

#[tokio::test]
async fn only_a_trusted_proxy_is_believed_whom_it_asks_for() {
    const BUDGET: &str = "requests_per_second_per_client = 1\nrequest_burst_per_client = 5\n";
    let (_node, service) = start(BUDGET, "trusted_proxies = [\"127.0.0.2/32\"]").await;
    let forwarded = |address: &str| format!("X-Forwarded-For: {address}\r\n");
    let mut proxy = Connection::open_from(Ipv4Addr::new(127, 0, 0, 2), service.address()).await;
    for client in ["192.0.2.1", "192.0.2.2", "9.9.9.9, 192.0.2.3", "192.0.2.4, 127.0.0.2"] {
        assert!(spend(&mut proxy, &forwarded(client)).await.0 >= 5, "{client}");
    }
    // Whatever it says of itself, anybody else is who they are.
    let mut anybody = Connection::open(service.address()).await;
    let since = Instant::now();
    let mut answered = 0;
    for count in 0..100 {
        let answer = anybody.ask(get(SUGGESTION, &forwarded(&format!("192.0.3.{count}")))).await;
        answered += u64::from(answer.status == 200);
    }
    assert!(answered <= 5 + since.elapsed().as_secs() + 1, "{answered} were answered");
}

#[tokio::test]
async fn a_network_of_ipv6_is_one_client() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    // Where there is no IPv6, its clients can still come through a proxy.
    let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    let local = if has_ipv6 { "[::1]" } else { "127.0.0.1" };
    let text = format!(
        "[server]\nlisten = \"{local}:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n\
         trusted_proxies = [\"127.0.0.1/32\", \"::1/128\"]\n\
         [limits]\nrequests_per_second_per_client = 1\nrequest_burst_per_client = 20\n\
         [chains.a]\nchain_id = 7\nrpc_urls = [\"{}\"]\n",
        node.url()
    );
    let service = Service::with_config(&text).await;
    service.wait_admin("/readyz", |answer| answer.status == 200).await;
    let mut proxy = Connection::open(service.address()).await;
    let since = Instant::now();
    let mut ask = async |address: &str| {
        let headers = format!("X-Forwarded-For: {address}\r\n");
        proxy.ask(get(SUGGESTION, &headers)).await.status == 200
    };
    let mut answered = 0;
    for count in 1..=100 {
        answered += u64::from(ask(&format!("2001:db8::{count:x}:1")).await);
    }
    assert!((20..=20 + since.elapsed().as_secs() + 1).contains(&answered), "{answered}");
    assert!(ask("2001:db8:0:1::1").await, "another network is another client");
}

#[tokio::test]
async fn headers_too_large_or_too_many_are_told_so() {
    let (_node, service) = start(NO_RATE, "").await;
    let large = get(SUGGESTION, &format!("X-A: {}\r\n", "x".repeat(20_000)));
    let many = get(SUGGESTION, &"X-A: b\r\n".repeat(101));
    let long = get(&format!("/{}", "x".repeat(20_000)), "");
    for (request, status, code) in [
        (large, 431, "headers_too_large"),
        (many, 431, "headers_too_large"),
        (long, 414, "uri_too_long"),
        ("nonsense\r\n\r\n".into(), 400, "bad_request"),
    ] {
        let mut client = Connection::open(service.address()).await;
        client.send(request).await;
        let answers = client.until_closed().await;
        assert_eq!(outcomes(&answers), [(status, code.to_owned())]);
        assert!(answers[0].closes());
    }
    // The parser's own answer is of the last request's version.
    let mut client = Connection::open(service.address()).await;
    client.send(format!("GET {SUGGESTION} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")).await;
    client.next().await.unwrap().unwrap();
    client.send(get(SUGGESTION, &format!("X-A: {}\r\n", "x".repeat(20_000)))).await;
    let answers = client.until_closed().await;
    assert_eq!(outcomes(&answers), [(431, "headers_too_large".to_owned())]);
}

#[tokio::test]
async fn without_file_descriptors_it_polls_and_answers_on_and_accepts_again_afterwards() {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let mut bare = command::command(&[], &FREE_PORTS);
    let file = command::File::new(
        "few-files",
        &format!(
            "[limits]\nmax_connections = 2\nrequests_per_second_per_client = 0\n\
             [chains.a]\nchain_id = 7\nrpc_urls = [\"{}\"]\nblock_time = \"50ms\"\n",
            node.url()
        ),
    );
    bare.args(["--config", file.path()]);
    let service = Process::of(command::with_open_files(&bare, 96));
    let mut client = Connection::open(service.address).await;
    let mut admin = Connection::open(service.admin).await;
    let since = Instant::now();
    while client.ask(get(SUGGESTION, "")).await.status != 200 {
        assert!(since.elapsed() < PATIENCE, "the node is not read");
    }
    // Each is refused and then waited for, which takes a descriptor; at last there are none.
    let mut flood = Vec::new();
    let since = Instant::now();
    while descriptors(service.id()) < 96 {
        assert!(since.elapsed() < PATIENCE, "{} descriptors", descriptors(service.id()));
        for _ in 0..32 {
            flood.push(TcpStream::connect(service.address).await.unwrap());
        }
    }
    for _ in 0..300 {
        flood.push(TcpStream::connect(service.address).await.unwrap());
    }
    // The node is polled and the client is served while there are none.
    let polls = node.calls("eth_feeHistory");
    let since = Instant::now();
    while node.calls("eth_feeHistory") < polls + 5 {
        assert!(since.elapsed() < PATIENCE, "the node is not polled any more");
        assert_eq!(client.ask(get(SUGGESTION, "")).await.status, 200);
        assert_eq!(admin.ask(get("/readyz", "")).await.status, 200);
    }
    drop(flood);
    // It accepts again: those that are one too many hear of it, and the place is free afterwards.
    // While it is still busy with the flood, some are closed without a word.
    let since = Instant::now();
    loop {
        match Connection::open(service.address).await.until_closed().await.as_slice() {
            [] => assert!(since.elapsed() < PATIENCE, "nobody hears of it"),
            refused => break assert_eq!(outcomes(refused), [(503, "overloaded".into())]),
        }
    }
    drop(client);
    wait_for_a_place(service.address).await;
    let (code, log) = service.end_by("-TERM");
    assert_eq!(code, Some(0), "{log}");
    let told = log.lines().filter(|line| line.contains("cannot accept connections"));
    assert_eq!(told.count(), 1, "{log}");
}

/// How many file descriptors the process has.
fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

#[tokio::test]
async fn clients_that_are_gone_leave_nothing_in_memory() {
    const MOST_KIB: u64 = 2 * 1024;
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let file = command::File::new(
        "memory",
        &format!(
            // A budget that is whole again after a millisecond.
            "[server]\ntrusted_proxies = [\"127.0.0.1/32\"]\n\
             [limits]\nrequests_per_second_per_client = 1000\nrequest_burst_per_client = 1\n\
             [log]\nfilter = \"warn,gas_suggestion::server=info\"\n\
             [chains.a]\nchain_id = 7\nrpc_urls = [\"{}\"]\n",
            node.url()
        ),
    );
    let service = Process::start(&["--config", file.path()], &[]);
    let mut proxy = Connection::open(service.address).await;
    let mut next = 0_u32;
    // Many clients behind a proxy, each with one request, and some that connect themselves.
    let mut wave = async |clients: usize| {
        for _ in 0..clients / 100 {
            let mut requests = String::new();
            for _ in 0..100 {
                next += 1;
                let address = Ipv4Addr::from_bits(0x0a00_0000 + next);
                requests += &get("/v1/chains", &format!("X-Forwarded-For: {address}\r\n"));
            }
            proxy.send(requests).await;
            for _ in 0..100 {
                assert_eq!(proxy.next().await.unwrap().unwrap().status, 200);
            }
            for place in 0..5 {
                let source = Ipv4Addr::from_bits(0x7f01_0000 + next + place);
                let mut client = Connection::open_from(source, service.address).await;
                // With headers that take some memory.
                let headers = format!("X-A: {}\r\n", "x".repeat(12_000));
                assert_eq!(client.ask(get("/livez", &headers)).await.status, 200);
            }
        }
        service.resident_kib()
    };
    let first = wave(4_000).await;
    let mut last = first;
    for _ in 0..4 {
        last = wave(4_000).await;
    }
    assert!(last <= first + MOST_KIB, "{first} KiB became {last} KiB");
}
