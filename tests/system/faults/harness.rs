//! The service as a process with ten chains: `a` with injected faults, and nine healthy chains.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Client;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::chain_model::{ChainModel, Window, whole_blocks};
use crate::fault_proxy::{Fault, FaultProxy, Kind};
use crate::http_client;
use crate::logged_process::{LoggedProcess, assert_no_secrets};
use crate::mock_node::MockNode;
use crate::test_server::Response;

/// The route of the faulty chain's suggestion.
pub(super) const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// `max_age` of the faulty chain, and the age at which suggestions are labelled stale.
const MAX_AGE: Duration = Duration::from_secs(3);
const STALE_AFTER: Duration = Duration::from_secs(2);

/// Time after which an expected event counts as missing.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Tolerance for delays on a busy machine.
const SLACK: Duration = Duration::from_millis(1500);

/// Block time of the faulty chain.
pub(super) const BLOCK: Duration = Duration::from_millis(100);

/// Maximum time between two successful polls with failover: a poll interval plus the timeout of the failed attempt.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(600);

const HEALTHY: std::ops::RangeInclusive<u64> = 101..=109;
/// Configured block time of the healthy chains. It allows an attempt to take 1 s.
const HEALTHY_BLOCK: Duration = Duration::from_secs(2);
/// Real block time of the healthy chains, shorter so that a lag shows before the suggestion is labelled stale.
const HEALTHY_REAL_BLOCK: Duration = Duration::from_millis(400);

/// Limit of the peak memory: the decompressed size of the bomb. Every other reply is far smaller.
const MAX_MEMORY_KIB: u64 = 64 * 1024;

/// Part of every secret in the URLs, the configuration and the requests, and the base64 of the credentials in the URLs,
/// in lower case.
const SECRETS: [&str; 2] = ["canary", "y2fuyxj5lxvzzxi6y2fuyxj5lxbhc3n3b3jk"];

/// The node of the nine healthy chains.
pub(super) struct HealthyChains {
    node: MockNode,
    model: ChainModel,
}

impl HealthyChains {
    pub(super) async fn start() -> Self {
        let model = ChainModel::new(Some(HEALTHY_REAL_BLOCK));
        Self { node: MockNode::for_every_chain(model.reply()).await, model }
    }
}

/// One run of a scenario: its resources and current phase.
#[derive(Clone)]
pub(super) struct TestRun {
    pub(super) healthy: Arc<HealthyChains>,
    pub(super) number: usize,
    pub(super) phase: Arc<Mutex<&'static str>>,
}

/// The nodes of the faulty chain.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Urls {
    /// One proxy.
    One,
    /// Two proxies in front of one node.
    Two,
    /// A host name that does not resolve, then a proxy.
    AfterUnresolvableHost,
    /// `https://` at a proxy without TLS, then an `http://` proxy.
    AfterPlainPort,
}

/// The service process with its node, its proxies and the monitor of the healthy chains.
pub(super) struct Harness {
    pub(super) model: ChainModel,
    _node: MockNode,
    pub(super) proxies: Vec<FaultProxy>,
    process: LoggedProcess,
    /// A client whose headers have secrets.
    client: Client,
    run: TestRun,
    monitor: HealthyChainsMonitor,
}

impl Harness {
    /// Starts with `faults` at the first proxies, and waits for the nine healthy chains.
    pub(super) async fn start(run: &TestRun, urls: Urls, faults: &[&Fault]) -> Self {
        let model = ChainModel::new(Some(BLOCK));
        let node = MockNode::start(7, model.reply()).await;
        let mut proxies = Vec::new();
        for _ in 0..if matches!(urls, Urls::Two | Urls::AfterPlainPort) { 2 } else { 1 } {
            proxies.push(FaultProxy::start(node.url()).await);
        }
        for (proxy, fault) in proxies.iter().zip(faults) {
            proxy.switch((*fault).clone()).await;
        }
        let config = configuration(run, urls, &proxies);
        let variables = [("GAS_HISTORY__REFILL", "false")];
        let name = format!("faults-{}", run.number);
        let process = LoggedProcess::with_variables(&name, &config, &variables);
        let headers = [
            ("x-api-key", "canary-x-api-key"),
            ("authorization", "Bearer canary-authorization"),
            ("cookie", "session=canary-cookie"),
        ]
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let client = http_client::builder().default_headers(HeaderMap::from_iter(headers));
        let client = client.build().unwrap();
        let base = format!("http://{}", process.addresses[0]);
        let monitor = HealthyChainsMonitor::start(&client, base, &run.healthy).await;
        Self { model, _node: node, proxies, process, client, run: run.clone(), monitor }
    }

    /// Records the current phase for failure messages.
    pub(super) fn enter_phase(&self, phase: &'static str) {
        *self.run.phase.lock().unwrap() = phase;
    }

    pub(super) async fn inject(&self, fault: &Fault) {
        self.proxies[0].switch(fault.clone()).await;
    }

    /// Enters this phase and ends all faults.
    pub(super) async fn clear_faults(&self, phase: &'static str) {
        self.enter_phase(phase);
        for proxy in &self.proxies {
            proxy.switch(Fault::everywhere(Kind::Pass)).await;
        }
    }

    /// Returns the URL of a path of the public listener (0) or the admin listener (1).
    pub(super) fn url(&self, listener: usize, path: &str) -> String {
        format!("http://{}{path}", self.process.addresses[listener])
    }

    pub(super) async fn get(&self, path: &str) -> Response {
        get(&self.client, &self.url(0, path)).await
    }

    /// Reads the faulty chain's suggestion and checks its numbers, or its error.
    pub(super) async fn read(&self) -> Suggestion {
        let response = self.get(SUGGESTION).await;
        let read = parse(&response);
        match &read {
            Ok(served) => {
                let right = Window::ending_with(served.newest).body("a");
                assert_eq!(served.body, right, "a wrong number: {response:#?}");
            }
            Err(code) => {
                assert!(["no_data", "stale_data"].contains(&code.as_str()), "{response:#?}");
                assert_eq!(response.header("cache-control"), "no-store");
                assert_ne!(response.header("retry-after"), "");
            }
        }
        read
    }

    /// Waits until `is_met` returns true.
    pub(super) async fn wait_until(&self, what: &str, mut is_met: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        let mut ticks = tokio::time::interval(Duration::from_millis(25));
        while !is_met().await {
            assert!(Instant::now() < deadline, "never: {what}; {:?}", self.read().await);
            ticks.tick().await;
        }
    }

    /// Returns the number of attempts at the faulty chain's `upstream` with this `outcome`.
    pub(super) async fn count(&self, upstream: usize, outcome: &str) -> u64 {
        let mut counts = self.counts().await.into_iter();
        let found = counts.find(|(index, label, _)| *index == upstream && label == outcome);
        found.map_or(0, |(_, _, count)| count)
    }

    /// Returns the number of attempts at the faulty chain by upstream and outcome.
    pub(super) async fn counts(&self) -> Vec<(usize, String, u64)> {
        let metrics = get(&self.client, &self.url(1, "/metrics")).await.body;
        let mut counts = Vec::new();
        for line in metrics.lines() {
            let start = "gas_suggestion_upstream_attempts_total{chain=\"a\",upstream=\"";
            let Some(rest) = line.strip_prefix(start) else { continue };
            let (upstream, rest) = rest.split_once("\",outcome=\"").unwrap();
            let (outcome, count) = rest.split_once("\"} ").unwrap();
            counts.push((upstream.parse().unwrap(), outcome.to_owned(), count.parse().unwrap()));
        }
        counts
    }

    /// Waits for another attempt with this `outcome`. Each read meanwhile must pass `check`.
    pub(super) async fn wait_for_attempt(
        &self,
        upstream: usize,
        outcome: &str,
        check: impl Fn(&Suggestion),
    ) {
        let before = self.count(upstream, outcome).await;
        self.wait_until(&format!("another {outcome} of {upstream}"), async || {
            check(&self.read().await);
            self.count(upstream, outcome).await > before
        })
        .await;
    }

    /// Waits until the suggestion is from the chain's newest blocks, and checks that this took at most `within` plus
    /// [`SLACK`]. Then checks that the suggestion follows further blocks.
    pub(super) async fn wait_until_fresh(&self, within: Duration) {
        let (started, head) = (Instant::now(), self.model.head());
        let is_expected = |served: &Served| !served.is_stale && served.newest >= head;
        let mut first = None;
        self.wait_until("fresh", async || {
            first = self.read().await.ok().filter(is_expected);
            first.is_some()
        })
        .await;
        let took = started.elapsed();
        assert!(took <= within + SLACK, "fresh after {took:?}");
        let first = first.unwrap();
        self.wait_until("newer blocks", async || {
            let last = self.read().await.unwrap();
            assert!(!last.is_stale && last.newest >= first.newest, "{last:?} after {first:?}");
            last.newest >= first.newest + 2
        })
        .await;
    }

    /// Checks that the last good suggestion is kept, then labelled stale, then refused.
    pub(super) async fn check_expiry(&self) {
        let last = self.read().await.unwrap();
        let started = Instant::now();
        let (mut is_kept, mut is_labelled) = (false, false);
        self.wait_until("refused", async || {
            let Ok(served) = self.read().await.inspect_err(|code| assert_eq!(code, "stale_data"))
            else {
                return true;
            };
            assert_eq!((served.newest, &served.body), (last.newest, &last.body));
            assert_eq!(served.is_stale, served.age >= STALE_AFTER.as_secs(), "{served:?}");
            assert!(served.age < MAX_AGE.as_secs(), "{served:?}");
            is_kept |= !served.is_stale;
            if served.is_stale && !is_labelled {
                is_labelled = true;
                self.check_reported_status("stale", last.newest.into()).await;
            }
            false
        })
        .await;
        assert!(is_kept && is_labelled, "kept: {is_kept}, labelled: {is_labelled}");
        let took = started.elapsed();
        assert!(took <= MAX_AGE + SLACK, "refused after {took:?}");
        // What was read stays known.
        let entry = &self.get("/v1/chains").await.json()[0];
        assert_eq!([&entry["status"], &entry["reason"]], ["unavailable", "old_data"]);
        assert!(entry["newest_block"].is_u64(), "{entry}");
        let all = self.get("/v1/gas-suggestions").await.json();
        assert_eq!(all.as_array().unwrap().len(), 9);
    }

    /// Checks the entry of the faulty chain in `/v1/chains`.
    pub(super) async fn check_reported_status(&self, status: &str, newest_block: Value) {
        let entry = &self.get("/v1/chains").await.json()[0];
        let found = (&entry["chain"], &entry["status"], &entry["newest_block"]);
        assert_eq!(found, (&json!("a"), &json!(status), &newest_block));
    }

    /// Checks that all attempts had one of these `outcomes`; timeouts are allowed because of busy machines.
    pub(super) async fn check_outcomes(&self, outcomes: &[&str]) {
        let counts = self.counts().await;
        let is_expected = |outcome: &str| outcome == "timeout" || outcomes.contains(&outcome);
        assert!(counts.iter().all(|(_, outcome, _)| is_expected(outcome)), "{counts:?}");
    }

    /// Checks for a second that every read is fresh and lags by at most the longest pause.
    pub(super) async fn check_stays_fresh(&self) {
        let lag = whole_blocks(LONGEST_PAUSE + SLACK, BLOCK);
        let until = Instant::now() + Duration::from_secs(1);
        self.wait_until("a second", async || {
            let lowest = self.model.head() - lag;
            let read = self.read().await;
            assert_fresh(&read);
            assert!(read.as_ref().unwrap().newest >= lowest, "{read:?} below {lowest}");
            Instant::now() >= until
        })
        .await;
    }

    /// Enters this phase, ends all faults, and waits until the suggestion is that of the newest blocks.
    pub(super) async fn recover(&self, phase: &'static str) {
        self.clear_faults(phase).await;
        self.wait_until_fresh(Duration::ZERO).await;
    }

    /// Stops the service and returns all its output. Checks that the nine healthy chains were unaffected, that memory
    /// stayed low, and that the output has no panic, secret, escape sequence or long excerpt.
    pub(super) async fn finish(self) -> String {
        self.enter_phase("end");
        self.counts().await;
        self.monitor.finish();
        let base = format!("http://{}", self.process.addresses[0]);
        let end = HealthyChainsMonitor::round(&self.client, &base, &self.run.healthy).await;
        end.unwrap();
        let memory = self.process.peak_memory() / 1024;
        assert!(memory < MAX_MEMORY_KIB, "{memory} KiB of memory");
        let output = self.process.stop();
        assert_no_secrets(&SECRETS, "the output", &output);
        assert!(output.contains("TRACE"), "the log is not at trace level: {output}");
        assert!(!output.contains("hyper_util"), "the log contains connection details: {output}");
        assert!(!output.to_lowercase().contains("panicked"), "a panic: {output}");
        // Node responses are escaped and truncated in the log.
        assert!(!output.contains('\x1b'), "an escape: {output}");
        assert!(!output.contains(&"~".repeat(129)), "a long excerpt");
        output
    }
}

fn configuration(run: &TestRun, upstreams: Urls, proxies: &[FaultProxy]) -> String {
    let user = if run.number.is_multiple_of(3) { "canary-user:canary-password@" } else { "" };
    let format = if run.number.is_multiple_of(2) { "text" } else { "json" };
    let url = |host: String| format!("http://{user}{host}/v2/Canary-Path?key=CANARY-query");
    let mut urls: Vec<_> = proxies.iter().map(|proxy| url(proxy.address().to_string())).collect();
    match upstreams {
        Urls::One | Urls::Two => {}
        Urls::AfterUnresolvableHost => urls.insert(0, url("node.invalid".into())),
        Urls::AfterPlainPort => urls[0] = urls[0].replace("http:", "https:"),
    }
    let mut text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n\
         shutdown_grace = \"0s\"\n\
         [limits]\nrequests_per_second_per_client = 0\n\
         [log]\nfilter = \"trace\"\nformat = \"{format}\"\n\
         [delegation]\nsource = \"api\"\napi_key = \"canary-delegation\"\n\
         [chains.a]\nchain_id = 7\nrpc_urls = {urls:?}\nblock_time = \"{}ms\"\nmax_age = \"{}s\"\n\
         stall_after = \"0s\"\n\
         pricing.reward_percentiles = [60]\npricing.ask_interval = 0\npricing.base_fee_floor = \"1 gwei\"\n\
         pricing.priority_fee_floor = \"20 gwei\"\n",
        BLOCK.as_millis(),
        MAX_AGE.as_secs(),
    );
    for id in HEALTHY {
        let base = run.healthy.node.url().replace("http://", &format!("http://{user}"));
        write!(
            text,
            "[chains.h{id}]\nchain_id = {id}\npricing.ask_interval = 0\nblock_time = \"{}ms\"\n\
             rpc_urls = [\"{base}/{id}/canary-path?key=canary-query\"]\n",
            HEALTHY_BLOCK.as_millis(),
        )
        .unwrap();
    }
    text
}

/// A response of the faulty chain: a suggestion, or the problem's code.
pub(super) type Suggestion = Result<Served, String>;

#[derive(Debug, Clone)]
pub(super) struct Served {
    pub(super) newest: u64,
    pub(super) age: u64,
    pub(super) is_stale: bool,
    body: String,
}

fn parse(response: &Response) -> Suggestion {
    if response.status != 200 {
        assert_eq!(response.status, 503, "{response:#?}");
        assert_eq!(response.header("content-type"), "application/problem+json");
        return Err(response.json()["code"].as_str().unwrap().to_owned());
    }
    let stale = response.header("x-stale");
    assert!(["true", ""].contains(&stale), "X-Stale: {stale}");
    Ok(Served {
        newest: response.header("x-newest-block").parse().unwrap(),
        age: response.header("age").parse().unwrap(),
        is_stale: stale == "true",
        body: response.body.clone(),
    })
}

pub(super) fn assert_fresh(read: &Suggestion) {
    assert!(read.as_ref().is_ok_and(|served| !served.is_stale), "not fresh: {read:?}");
}

pub(super) fn assert_no_data(read: &Suggestion) {
    assert_eq!(read.as_ref().unwrap_err(), "no_data");
}

/// Sends a request and checks that the response contains no secret.
async fn get(client: &Client, url: &str) -> Response {
    let response = Response::read(client.get(url).send().await.unwrap()).await;
    let text = format!("{:?} {}", response.headers, response.body);
    assert_no_secrets(&SECRETS, url, &text);
    response
}

/// Reads the nine healthy chains in the background.
struct HealthyChainsMonitor {
    rounds: Arc<Mutex<Vec<Result<(), String>>>>,
    task: JoinHandle<()>,
}

impl HealthyChainsMonitor {
    const PAUSE: Duration = Duration::from_millis(200);
    /// Maximum lag of a suggestion: [`HEALTHY_BLOCK`], which is five real blocks, plus two for a poll and a read on a
    /// busy machine.
    const MAX_LAG_BLOCKS: u64 = 7;

    /// Waits until all nine chains are served, then starts.
    async fn start(client: &Client, base: String, healthy: &Arc<HealthyChains>) -> Self {
        let (client, healthy) = (client.clone(), Arc::clone(healthy));
        let deadline = Instant::now() + TIMEOUT;
        while let Err(violation) = Self::round(&client, &base, &healthy).await {
            assert!(Instant::now() < deadline, "{violation}");
            tokio::task::yield_now().await;
        }
        let rounds = Arc::<Mutex<Vec<_>>>::default();
        let finished = Arc::clone(&rounds);
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Self::PAUSE);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let round = Self::round(&client, &base, &healthy).await;
                finished.lock().unwrap().push(round);
            }
        });
        Self { rounds, task }
    }

    async fn round(client: &Client, base: &str, healthy: &HealthyChains) -> Result<(), String> {
        let lowest = healthy.model.head().saturating_sub(Self::MAX_LAG_BLOCKS);
        let mut bodies = Vec::new();
        for id in HEALTHY {
            let response = get(client, &format!("{base}/v1/h{id}/gas-suggestion")).await;
            let newest: u64 = response.header("x-newest-block").parse().unwrap_or(0);
            let is_fresh = response.status == 200
                && response.header("x-stale").is_empty()
                && newest >= lowest
                && response.body == Window::ending_with(newest).body(&format!("h{id}"));
            if !is_fresh {
                return Err(format!("h{id} while {lowest} is the lowest: {response:#?}"));
            }
            bodies.push(newest);
        }
        let chains = get(client, &format!("{base}/v1/chains")).await.json();
        for (entry, id) in chains.as_array().unwrap()[1..].iter().zip(HEALTHY) {
            let newest = entry["newest_block"].as_u64().unwrap_or(0);
            let is_fresh = entry["status"] == "fresh";
            if entry["chain_id"] != id || !is_fresh || newest < lowest {
                return Err(format!("{entry} while {lowest} is the lowest"));
            }
        }
        let all = get(client, &format!("{base}/v1/gas-suggestions")).await;
        for (id, newest) in HEALTHY.zip(bodies) {
            let mut possible = (newest..=healthy.model.head())
                .map(|newest| Window::ending_with(newest).body(&format!("h{id}")));
            if !possible.any(|body| all.body.contains(&body)) {
                return Err(format!("h{id} is not at {newest} or above: {all:#?}"));
            }
        }
        Ok(())
    }

    fn finish(&self) {
        assert!(!self.task.is_finished(), "a read of another chain failed");
        self.task.abort();
        let rounds = self.rounds.lock().unwrap();
        let violations: Vec<_> = rounds.iter().filter_map(|round| round.as_ref().err()).collect();
        assert!(
            violations.is_empty() && !rounds.is_empty(),
            "{} of {} rounds found an unhealthy chain: {:?}",
            violations.len(),
            rounds.len(),
            violations.first(),
        );
    }
}
