//! The service as a process with ten chains: one whose nodes can be broken, nine that are well.

use std::fmt::Write;
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Client;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::truth::{self, Truth, Window, whole};
use crate::command::{File, command};
use crate::fake_node::{FakeNode, Made};
use crate::fault_proxy::{Fault, FaultProxy, Scope};
use crate::service::Answer;

/// The broken chain's suggestion.
pub(super) const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// How old data may be that is served, and that is not labelled.
pub(super) const MAX_AGE: Duration = Duration::from_secs(3);
const STALE_AFTER: Duration = Duration::from_secs(2);

/// No event takes this long unless it never comes.
const PATIENCE: Duration = Duration::from_mins(1);

/// For how long a machine that is busy with other things may hold up anything.
pub(super) const SLACK: Duration = Duration::from_millis(1500);

const HEALTHY: std::ops::RangeInclusive<u64> = 101..=109;
/// Configured as on the network that the service is made for: an attempt may take a second.
const HEALTHY_BLOCK: Duration = Duration::from_secs(2);
/// Shorter, so that what is behind is seen to be before it is labelled.
const HEALTHY_REAL_BLOCK: Duration = Duration::from_millis(400);

/// A decompression bomb is as large as this, and everything else is far smaller.
const MOST_MEMORY_KIB: u64 = 64 * 1024;

/// Is part of every secret: of the URLs, of the configuration, of the requests.
const CANARY: &str = "canary";
/// Base64 of the two before an `@`.
const ENCODED_CANARY: &str = "Y2FuYXJ5LXVzZXI6Y2FuYXJ5LXBhc3N3b3Jk";

/// The node of the nine chains that are well.
#[derive(Debug)]
pub(super) struct Healthy {
    node: FakeNode,
    truth: Truth,
}

impl Healthy {
    pub(super) async fn start() -> Self {
        let truth = Truth::new(Some(HEALTHY_REAL_BLOCK));
        let answer = Made::by(move |columns| truth::history(truth.head(), columns));
        Self { node: FakeNode::of_every_chain(answer).await, truth }
    }
}

/// What a case is played with, and how far it got.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) healthy: Arc<Healthy>,
    pub(super) number: usize,
    pub(super) phase: Arc<Mutex<&'static str>>,
}

/// The broken chain's configuration and its nodes.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// The configured block time.
    pub(super) block: Duration,
    /// The real one; `None`: the head stands.
    pub(super) real_block: Option<Duration>,
    /// Further lines of the chain's table.
    pub(super) more: String,
    pub(super) columns: usize,
    pub(super) urls: Urls,
    /// The process's environment.
    pub(super) variables: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urls {
    /// One proxy.
    One,
    /// Two proxies in front of one node.
    Two,
    /// A host that is in no DNS, then a proxy.
    AfterNoHost,
    /// `https://` at a proxy, which does not speak it, then one as usual.
    AfterPlainPort,
}

impl Default for Setup {
    fn default() -> Self {
        let block = Duration::from_millis(100);
        Self {
            block,
            real_block: Some(block),
            more: String::new(),
            columns: 1,
            urls: Urls::One,
            variables: Vec::new(),
        }
    }
}

impl Setup {
    /// The longest time between two answers when one upstream fails over to another: a tick, and
    /// the deadline of the attempt that failed.
    pub(super) fn longest_pause(&self) -> Duration {
        self.block + (self.block / 2).max(Duration::from_millis(500))
    }
}

/// The service under test with everything around it.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) truth: Truth,
    pub(super) proxies: Vec<FaultProxy>,
    pub(super) process: Process,
    /// What the rules may make of a window at present.
    pub(super) allowed: Vec<fn(u64) -> Window>,
    stage: Stage,
    watch: Watch,
    _node: FakeNode,
    _file: File,
}

impl Rig {
    /// Starts with `fault` at the first proxies, and waits for the nine other chains.
    pub(super) async fn start(stage: &Stage, setup: Setup, faults: &[(Fault, Scope)]) -> Self {
        let truth = Truth::new(setup.real_block);
        let percentiles = if setup.columns == 2 { json!([60, 100]) } else { json!([60]) };
        let answer = Made::by(move |columns| truth::history(truth.head(), columns));
        let node = FakeNode::with_percentiles(7, percentiles.clone(), answer).await;
        let mut proxies = Vec::new();
        for _ in 0..if matches!(setup.urls, Urls::Two | Urls::AfterPlainPort) { 2 } else { 1 } {
            proxies.push(FaultProxy::start(node.url()).await);
        }
        for (proxy, (fault, scope)) in proxies.iter().zip(faults) {
            proxy.switch(fault.clone(), *scope).await;
        }
        let config = configuration(stage, &setup, &percentiles, &proxies);
        let file = File::new(&format!("faults-{}", stage.number), &config);
        let log = File::new(&format!("faults-{}-log", stage.number), "");
        let process = Process::start(&file, &setup.variables, log);
        let watch = Watch::start(&process, &stage.healthy).await;
        Self {
            truth,
            proxies,
            process,
            allowed: vec![Window::ending_with],
            stage: stage.clone(),
            watch,
            _node: node,
            _file: file,
        }
    }

    /// Says which phase begins.
    pub(super) fn phase(&self, phase: &'static str) {
        *self.stage.phase.lock().unwrap() = phase;
    }

    pub(super) async fn break_with(&self, fault: &Fault, scope: Scope) {
        self.proxies[0].switch(fault.clone(), scope).await;
    }

    pub(super) async fn lift(&self) {
        for proxy in &self.proxies {
            proxy.switch(Fault::Pass, Scope::All).await;
        }
    }

    /// The broken chain's suggestion, of which no number may be wrong.
    pub(super) async fn read(&self) -> Suggestion {
        let answer = self.process.get(SUGGESTION).await;
        let read = Suggestion::of(&answer);
        match &read.served {
            Ok(served) => {
                let rules = self.allowed.iter().map(|window| window(served.newest).body("a"));
                let is_by_the_rules = rules.into_iter().any(|body| body == served.body);
                assert!(is_by_the_rules, "a wrong number: {answer:#?}");
            }
            Err(code) => {
                assert!(["no_data", "stale_data"].contains(&code.as_str()), "{answer:#?}");
                assert_eq!(answer.header("cache-control"), "no-store");
                assert_ne!(answer.header("retry-after"), "");
            }
        }
        read
    }

    /// Looks again and again until it is so.
    pub(super) async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut ticks = tokio::time::interval(Duration::from_millis(25));
        while !is_so().await {
            assert!(Instant::now() < deadline, "never: {what}; {:?}", self.read().await);
            ticks.tick().await;
        }
    }

    /// How often an attempt at the broken chain's `upstream` came to `outcome`.
    pub(super) async fn count(&self, upstream: usize, outcome: &str) -> u64 {
        let counts = self.counts().await;
        counts
            .into_iter()
            .find(|(of, what, _)| (*of, what.as_str()) == (upstream, outcome))
            .map_or(0, |it| it.2)
    }

    /// All attempts at the broken chain by upstream and outcome.
    pub(super) async fn counts(&self) -> Vec<(usize, String, u64)> {
        let metrics = self.process.get_at(self.process.admin, "/metrics").await.body;
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

    /// Waits until a further attempt has come to `outcome`, while every read passes `check`.
    pub(super) async fn rises(&self, upstream: usize, outcome: &str, check: impl Fn(&Suggestion)) {
        let before = self.count(upstream, outcome).await;
        self.until(&format!("another {outcome} of {upstream}"), async || {
            check(&self.read().await);
            self.count(upstream, outcome).await > before
        })
        .await;
    }

    /// Waits until the chain's newest blocks are served as the rules make them, within this time,
    /// and then goes on so.
    pub(super) async fn is_fresh(&self, window: fn(u64) -> Window, within: Duration) -> Served {
        let (started, head) = (Instant::now(), self.truth.head());
        let is_it = |served: &Served| {
            !served.is_stale
                && served.newest >= head
                && served.body == window(served.newest).body("a")
        };
        let mut last = None;
        self.until("fresh", async || {
            last = self.read().await.served.ok().filter(is_it);
            last.is_some()
        })
        .await;
        let took = started.elapsed();
        assert!(took <= within + SLACK, "fresh after {took:?}");
        let first = last.unwrap();
        let further = if self.truth.head() == head { 0 } else { 2 };
        let mut last = first.clone();
        self.until("newer blocks", async || {
            last = self.read().await.served.unwrap();
            assert!(is_it(&last) && last.newest >= first.newest, "{last:?} after {first:?}");
            last.newest >= first.newest + further
        })
        .await;
        last
    }

    /// Watches the last good value being kept, then labelled, then refused.
    pub(super) async fn wears_out(&self, last: &Served) {
        let started = Instant::now();
        let (mut is_kept, mut is_labelled) = (false, false);
        self.until("refused", async || {
            let served = match self.read().await.served {
                Ok(served) => served,
                Err(code) => {
                    assert_eq!(code, "stale_data");
                    return true;
                }
            };
            assert_eq!((served.newest, &served.body), (last.newest, &last.body));
            assert_eq!(served.is_stale, served.age >= STALE_AFTER.as_secs(), "{served:?}");
            assert!(served.age < MAX_AGE.as_secs(), "{served:?}");
            is_kept |= !served.is_stale;
            if served.is_stale && !is_labelled {
                is_labelled = true;
                self.is_told_as("stale", last.newest.into()).await;
            }
            false
        })
        .await;
        assert!(is_kept && is_labelled, "kept: {is_kept}, labelled: {is_labelled}");
        let took = started.elapsed();
        assert!(took <= MAX_AGE + SLACK, "refused after {took:?}");
        self.is_told_as("unavailable", Value::Null).await;
        let all = self.process.get("/v1/gas-suggestions").await.json();
        assert_eq!(all.as_array().unwrap().len(), 9);
    }

    /// What `/v1/chains` says of the broken chain.
    pub(super) async fn is_told_as(&self, status: &str, newest_block: Value) {
        let entry = &self.process.get("/v1/chains").await.json()[0];
        let found = (&entry["chain"], &entry["status"], &entry["newest_block"]);
        assert_eq!(found, (&json!("a"), &json!(status), &newest_block));
    }

    /// Asserts that no attempt came to anything else; a busy machine may make one time out.
    pub(super) async fn has_only_counted(&self, outcomes: &[&str]) {
        let counts = self.counts().await;
        let is_expected = |outcome: &str| outcome == "timeout" || outcomes.contains(&outcome);
        assert!(counts.iter().all(|(_, outcome, _)| is_expected(outcome)), "{counts:?}");
    }

    /// Watches for a second that every read is fresh and not behind by more than the longest pause.
    pub(super) async fn serves_on(&self, setup: &Setup) {
        let block = setup.real_block.unwrap();
        let lag = whole(setup.longest_pause() + SLACK, block);
        let until = Instant::now() + Duration::from_secs(1);
        self.until("a second", async || {
            let lowest = self.truth.head() - lag;
            let read = self.read().await;
            read.is_fresh();
            assert!(read.served.as_ref().unwrap().newest >= lowest, "{read:?} below {lowest}");
            Instant::now() >= until
        })
        .await;
    }

    /// Ends the service and looks at what it leaves: nine chains that nothing happened to, no
    /// panic, no secret.
    pub(super) async fn end(self) -> String {
        self.phase("end");
        self.process.get_at(self.process.admin, "/metrics").await;
        self.watch.end();
        let memory = self.process.peak_memory();
        assert!(memory < MOST_MEMORY_KIB, "{memory} KiB of memory");
        let output = self.process.end();
        is_clean(&output);
        assert!(output.contains("TRACE"), "the log tells less than it could: {output}");
        assert!(!output.contains("hyper_util"), "whom it connects to: {output}");
        assert!(!output.to_lowercase().contains("panicked"), "a panic: {output}");
        // Nothing that a node sends comes through as it is, or at length.
        assert!(!output.contains('\x1b'), "an escape: {output}");
        assert!(!output.contains(&"~".repeat(129)), "a long excerpt");
        output
    }
}

/// What an error page has in it beside secrets.
pub(super) fn unpleasant_text() -> String {
    format!("\x1b[31m\r\n{}", "~".repeat(1000))
}

/// Asserts that nothing secret is in `text`.
fn is_clean(text: &str) {
    let lower = text.to_lowercase();
    for secret in [CANARY, &ENCODED_CANARY.to_lowercase()] {
        let Some(at) = lower.find(secret) else { continue };
        let from = lower[..at].rfind('\n').map_or(0, |end| end + 1);
        let line: String = lower[from..].chars().take(600).collect();
        panic!("a secret is told: {line}");
    }
}

fn configuration(
    stage: &Stage,
    setup: &Setup,
    percentiles: &Value,
    proxies: &[FaultProxy],
) -> String {
    let user = if stage.number.is_multiple_of(3) { "canary-user:canary-password@" } else { "" };
    let format = if stage.number.is_multiple_of(2) { "text" } else { "json" };
    let url = |scheme: &str, place: &str| {
        format!("{scheme}://{user}{place}/v2/Canary-Path?key=CANARY-query")
    };
    let mut urls: Vec<_> =
        proxies.iter().map(|proxy| url("http", &proxy.address().to_string())).collect();
    match setup.urls {
        Urls::One | Urls::Two => {}
        Urls::AfterNoHost => urls.insert(0, url("http", "node.invalid")),
        Urls::AfterPlainPort => {
            urls[0] = url("https", &proxies[0].address().to_string());
        }
    }
    let mut text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n\
         shutdown_grace = \"0s\"\n\
         [limits]\nrequests_per_second_per_client = 0\n\
         [log]\nfilter = \"trace\"\nformat = \"{format}\"\n\
         [delegation]\napi_key = \"canary-delegation\"\n\
         [chains.a]\nchain_id = 7\nrpc_urls = {urls:?}\nblock_time = \"{}ms\"\nmax_age = \"{}s\"\n\
         stall_after = \"0s\"\npricing.reward_percentiles = {percentiles}\n{}\n",
        setup.block.as_millis(),
        MAX_AGE.as_secs(),
        setup.more,
    );
    // A key of a table that was set already cannot be set again.
    if setup.more.contains("stall_after") {
        text = text.replace("stall_after = \"0s\"\n", "");
    }
    for id in HEALTHY {
        let base = stage.healthy.node.url().replace("http://", &format!("http://{user}"));
        write!(
            text,
            "[chains.h{id}]\nchain_id = {id}\nblock_time = \"{}ms\"\n\
             rpc_urls = [\"{base}/{id}/canary-path?key=canary-query\"]\n",
            HEALTHY_BLOCK.as_millis(),
        )
        .unwrap();
    }
    text
}

/// An answer for the broken chain: a suggestion, or a problem's code.
#[derive(Debug, Clone)]
pub(super) struct Suggestion {
    pub(super) served: Result<Served, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) newest: u64,
    pub(super) age: u64,
    pub(super) is_stale: bool,
    pub(super) body: String,
}

impl Suggestion {
    fn of(answer: &Answer) -> Self {
        let served = if answer.status == 200 {
            Ok(Served {
                newest: answer.header("x-newest-block").parse().unwrap(),
                age: answer.header("age").parse().unwrap(),
                is_stale: match answer.header("x-stale") {
                    "true" => true,
                    "" => false,
                    other => panic!("X-Stale: {other}"),
                },
                body: answer.body.clone(),
            })
        } else {
            assert_eq!(answer.status, 503, "{answer:#?}");
            assert_eq!(answer.header("content-type"), "application/problem+json");
            Err(answer.json()["code"].as_str().unwrap().to_owned())
        };
        Self { served }
    }

    pub(super) fn is_fresh(&self) {
        let is_fresh = self.served.as_ref().is_ok_and(|served| !served.is_stale);
        assert!(is_fresh, "not fresh: {self:?}");
    }

    pub(super) fn is_no_data(&self) {
        assert_eq!(self.served.as_ref().unwrap_err(), "no_data");
    }
}

/// A running service; killed when dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
    client: Client,
    /// A file: a pipe that nobody reads in time would hold up the process.
    log: File,
    reader: Option<std::thread::JoinHandle<String>>,
}

impl Process {
    fn start(file: &File, variables: &[(&str, String)], log: File) -> Self {
        let mut command = command(&["--config", file.path()], &[]);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let to_log = std::fs::File::create(log.path()).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(to_log).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            out.read_to_end(&mut all).unwrap();
            String::from_utf8_lossy(&all).into_owned()
        });
        let is_it = |line: &&str| line.contains("listening") && line.ends_with('\n');
        let deadline = Instant::now() + PATIENCE;
        let addresses = loop {
            let text = log.text();
            if let Some(line) = text.split_inclusive('\n').find(is_it) {
                break addresses(line);
            }
            assert!(Instant::now() < deadline, "it does not listen: {text}");
            std::thread::yield_now();
        };
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::from_static("canary-x-api-key"));
        headers.insert("authorization", HeaderValue::from_static("Bearer canary-authorization"));
        headers.insert("cookie", HeaderValue::from_static("session=canary-cookie"));
        let client = Client::builder().default_headers(headers).build().unwrap();
        let [address, admin] = addresses[..] else { panic!("{addresses:?}") };
        Self { child, address, admin, client, log, reader: Some(reader) }
    }

    /// The most memory that the process ever had in use, in KiB.
    fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.get_at(self.address, path).await
    }

    async fn get_at(&self, address: SocketAddr, path: &str) -> Answer {
        get(&self.client, &format!("http://{address}{path}")).await
    }

    /// Asks the process to stop and gives all that it wrote.
    fn end(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").arg(&id).status().unwrap().success());
        let code = self.child.wait().unwrap().code();
        let output = self.reader.take().unwrap().join().unwrap() + &self.log.text();
        assert_eq!(code, Some(0), "{output}");
        output
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer without secrets.
async fn get(client: &Client, url: &str) -> Answer {
    let answer = Answer::of(client.get(url).send().await.unwrap()).await;
    is_clean(&format!("{:?} {}", answer.headers, answer.body));
    answer
}

/// The loopback addresses in a line.
fn addresses(line: &str) -> Vec<SocketAddr> {
    let is_part = |character: char| character.is_ascii_digit() || ".:".contains(character);
    let words = line.split(|character| !is_part(character));
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Reads the nine other chains again and again.
#[derive(Debug)]
struct Watch {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    rounds: usize,
    violations: Vec<String>,
}

impl Watch {
    const PAUSE: Duration = Duration::from_millis(200);
    /// How far a suggestion may be behind its chain: a block time, and a poll and a read on a busy
    /// machine.
    const MAX_LAG_BLOCKS: u64 = 7;

    /// Waits until all nine are there.
    async fn start(process: &Process, healthy: &Arc<Healthy>) -> Self {
        let (client, healthy) = (process.client.clone(), Arc::clone(healthy));
        let base = process.url("");
        let deadline = Instant::now() + PATIENCE;
        while let Err(violation) = Self::round(&client, &base, &healthy).await {
            assert!(Instant::now() < deadline, "{violation}");
            tokio::task::yield_now().await;
        }
        let seen = Arc::<Mutex<Seen>>::default();
        let of_task = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Self::PAUSE);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let outcome = Self::round(&client, &base, &healthy).await;
                let mut seen = of_task.lock().unwrap();
                seen.rounds += 1;
                seen.violations.extend(outcome.err());
            }
        });
        Self { seen, task }
    }

    async fn round(client: &Client, base: &str, healthy: &Healthy) -> Result<(), String> {
        let lowest = healthy.truth.head().saturating_sub(Self::MAX_LAG_BLOCKS);
        let mut bodies = Vec::new();
        for id in HEALTHY {
            let answer = get(client, &format!("{base}/v1/h{id}/gas-suggestion")).await;
            let newest: u64 = answer.header("x-newest-block").parse().unwrap_or(0);
            let is_fresh = answer.status == 200
                && answer.header("x-stale").is_empty()
                && newest >= lowest
                && answer.body == Window::ending_with(newest).body(&format!("h{id}"));
            if !is_fresh {
                return Err(format!("h{id} while {lowest} is the lowest: {answer:#?}"));
            }
            bodies.push(newest);
        }
        let chains = get(client, &format!("{base}/v1/chains")).await.json();
        for (entry, id) in chains.as_array().unwrap()[1..].iter().zip(HEALTHY) {
            let newest = entry["newest_block"].as_u64().unwrap_or(0);
            if entry["chain_id"] != id || entry["status"] != "fresh" || newest < lowest {
                return Err(format!("{entry} while {lowest} is the lowest"));
            }
        }
        let all = get(client, &format!("{base}/v1/gas-suggestions")).await;
        for (id, newest) in HEALTHY.zip(bodies) {
            let mut possible = (newest..=healthy.truth.head())
                .map(|newest| Window::ending_with(newest).body(&format!("h{id}")));
            if !possible.any(|body| all.body.contains(&body)) {
                return Err(format!("h{id} is not at {newest} or above: {all:#?}"));
            }
        }
        Ok(())
    }

    fn end(&self) {
        assert!(!self.task.is_finished(), "a read of another chain failed");
        self.task.abort();
        let seen = self.seen.lock().unwrap();
        let Seen { rounds, violations } = &*seen;
        assert!(
            violations.is_empty() && *rounds > 0,
            "of {rounds} rounds {} met another chain that is not well: {}",
            violations.len(),
            violations.first().map_or("", String::as_str),
        );
    }
}
