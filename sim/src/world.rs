//! One world: its services, nodes, Redis, clients and faults, in one thread, from a seed.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode};
use bytes::Bytes;
use fastrand::Rng;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gas_suggestion::api::App;
use gas_suggestion::assembly::{Dial, Network};
use gas_suggestion::config::Config;
use gas_suggestion::extras::sections;
use gas_suggestion::nodes::{Error, NodeTransport};
use gas_suggestion::server::Service;
use http_body_util::BodyExt;
use reqwest::Url;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::chain::Chain;
use crate::clock;
use crate::node::{Call, Node};
use crate::plan::{Fault, NodeFault, Plan, What};
use crate::promises::{Promises, Violation, node_delay_ms};
use crate::redis::Redis;

/// A request is answered within the longest of the service's timeouts.
const ANSWER_WITHIN: Duration = Duration::from_secs(31);

/// The result of a world.
#[derive(Debug)]
pub struct Outcome {
    pub violations: Vec<Violation>,
    /// Hash of all that has happened, in order.
    pub trace: u64,
    /// All that has happened, if it was asked for.
    pub lines: Vec<String>,
    pub simulated: Duration,
    pub calls: u64,
    pub responses: u64,
    pub checked: BTreeMap<String, u64>,
}

#[derive(Debug, Clone)]
struct World {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    chains: Vec<Chain>,
    nodes: Vec<Vec<Node>>,
    promises: Promises,
    rng: Rng,
    trace: Trace,
    /// Service of each replica, while it runs.
    apps: Vec<Option<App>>,
    /// Number of starts of each replica.
    starts: Vec<u32>,
    calls: u64,
    responses: u64,
}

#[derive(Debug)]
struct Trace {
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl Trace {
    fn push(&mut self, line: &str) {
        let now = clock::now();
        now.hash(&mut self.hash);
        line.hash(&mut self.hash);
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:10.3} s  {line}", now.as_secs_f64()));
        }
    }
}

/// Carries the calls of one replica.
#[derive(Debug)]
struct Transport {
    world: World,
    replica: usize,
}

/// A replica that runs, and what ends it.
struct Replica {
    task: tokio::task::JoinHandle<()>,
    kill: CancellationToken,
    stop: CancellationToken,
}

/// Runs the world of a plan. There must have been no other one in this process.
pub fn run(plan: Plan, keeps_lines: bool) -> Outcome {
    clock::run(plan.seed, World::live(plan, keeps_lines))
}

impl World {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn live(plan: Plan, keeps_lines: bool) -> Outcome {
        let seed = plan.seed;
        let numbered = plan.chains.iter().enumerate();
        let chains: Vec<_> = numbered
            .map(|(index, chain)| Chain::new(chain.clone(), seed ^ (index as u64 + 1)))
            .collect();
        let mut rng = Rng::with_seed(!seed);
        let nodes = random_nodes(&plan, &mut rng);
        let state = State {
            chains,
            nodes,
            promises: Promises::new(&plan),
            rng,
            trace: Trace { hash: DefaultHasher::new(), lines: keeps_lines.then(Vec::new) },
            apps: vec![None; plan.replicas],
            starts: vec![0; plan.replicas],
            calls: 0,
            responses: 0,
        };
        let world = Self { state: Arc::new(Mutex::new(state)) };
        let redis = Redis::new();
        let directory = Directory::new(&plan);
        let mut replicas: Vec<Option<Replica>> = Vec::new();
        for replica in 0..plan.replicas {
            replicas.push(Some(world.start(&plan, replica, &redis, &directory).await));
            tokio::spawn(world.clone().be_client(plan.clone(), replica));
        }
        tokio::spawn(world.clone().watch_shared_polls());
        for (at, index, is_start) in events(&plan) {
            tokio::time::sleep_until((tokio::time::Instant::now() - clock::now()) + at).await;
            let fault = plan.faults[index];
            let word = if is_start { "begins" } else { "ends" };
            world.with(|state| {
                state.trace.push(&format!("{word}: {fault}"));
                state.promises.set_time(index, is_start);
            });
            match (fault.what, is_start) {
                (What::Kill(replica), true) => {
                    if let Some(running) = replicas[replica].take() {
                        running.kill.cancel();
                        let _ = running.task.await;
                    }
                }
                (What::Stop(replica), true) => {
                    if let Some(running) = replicas[replica].take() {
                        running.stop.cancel();
                        let _ = running.task.await;
                    }
                }
                (What::Kill(replica) | What::Stop(replica), false) => {
                    if replicas[replica].is_none() {
                        replicas[replica] =
                            Some(world.start(&plan, replica, &redis, &directory).await);
                    }
                }
                (What::Redis(fault), true) => redis.begin(fault),
                (What::Redis(fault), false) => redis.end(fault),
                (What::Freeze | What::Sleep | What::Pause(_), true) => {
                    world.stand_still(fault).await;
                }
                (What::Freeze | What::Sleep | What::Pause(_), false) => {}
                (What::Clock(seconds), true) => clock::set_wall_error(seconds),
                (What::Clock(_), false) => clock::set_wall_error(0),
                (What::Chain(chain, fault), _) => world.with(|state| {
                    let (chain, now) = (&mut state.chains[chain], clock::now());
                    if is_start { chain.begin(fault, now) } else { chain.end(fault, now) }
                }),
                (What::Node(chain, node, fault), true) => {
                    world.with(|state| state.begin_node_fault(chain, node, fault));
                }
                (What::Node(chain, node, fault), false) => {
                    world.with(|state| state.end_node_fault(chain, node, fault));
                }
            }
        }
        // Faults during which the machine stands still delay those that follow.
        let planned = plan.faults.iter().map(|fault| fault.at + fault.lasts).max();
        let delay = clock::now().saturating_sub(planned.unwrap_or_default());
        world.with(|state| state.promises.fresh_from = Some(plan.fresh_from + delay));
        tokio::time::sleep((plan.end + delay).saturating_sub(clock::now())).await;
        for running in replicas.into_iter().flatten() {
            running.kill.cancel();
            let _ = running.task.await;
        }
        world.with(|state| Outcome {
            violations: std::mem::take(&mut state.promises.violations),
            trace: state.trace.hash.finish(),
            lines: state.trace.lines.take().unwrap_or_default(),
            simulated: clock::now(),
            calls: state.calls,
            responses: state.responses,
            checked: std::mem::take(&mut state.promises.checked),
        })
    }

    /// Lets the time of a fault pass in which the machine does nothing.
    async fn stand_still(&self, fault: Fault) {
        match fault.what {
            What::Sleep => {
                clock::sleep(fault.lasts);
                self.with(|state| state.promises.record_sleep(fault.lasts));
            }
            What::Pause(seconds) => {
                clock::pause(fault.lasts);
                let (world, paused_until) = (self.clone(), clock::now());
                self.with(|state| state.promises.record_pause(fault.lasts));
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    clock::end_pause(fault.lasts);
                    world.with(|state| {
                        state.trace.push("the clock of the virtual machine is set");
                        state.promises.record_leap(paused_until, fault.lasts);
                    });
                });
            }
            _ => {
                let until = clock::now() + fault.lasts;
                self.with(|state| state.promises.frozen_until = until);
                tokio::time::advance(fault.lasts).await;
            }
        }
    }

    async fn start(
        &self,
        plan: &Plan,
        replica: usize,
        redis: &Redis,
        directory: &Directory,
    ) -> Replica {
        let transport = Transport { world: self.clone(), replica };
        let transport: Arc<dyn NodeTransport> = Arc::new(transport);
        let dial: Arc<dyn Dial> = Arc::new(redis.clone());
        let network = Network { nodes: Some(transport), services: Some(dial) };
        let config = Config::from_toml(&configuration(plan, replica, directory), &sections());
        let config = config.expect("a configuration");
        let stop = CancellationToken::new();
        let service = Service::start(config, network, stop.clone()).await.expect("a service");
        self.with(|state| {
            state.apps[replica] = Some(service.app().clone());
            state.starts[replica] += 1;
            state.promises.restarted(replica);
            state.trace.push(&format!("replica {replica} has started"));
        });
        let kill = CancellationToken::new();
        let task = self.clone().keep(service, replica, kill.clone(), stop.clone());
        Replica { task: tokio::spawn(task), kill, stop }
    }

    /// Holds a service until it is killed, stopped, or ends by itself.
    async fn keep(
        self,
        mut service: Service,
        replica: usize,
        kill: CancellationToken,
        stop: CancellationToken,
    ) {
        let crash = tokio::select! {
            error = service.ended() => Some(format!("replica {replica}: {error:#}")),
            () = kill.cancelled() => None,
            () = stop.cancelled() => None,
        };
        self.with(|state| {
            state.apps[replica] = None;
            state.promises.check("no task ends by itself", crash);
        });
        if stop.is_cancelled() {
            service.stop().await;
        }
    }

    /// Requests from a replica what clients request, until the world ends.
    async fn be_client(self, plan: Plan, replica: usize) {
        let mut rng = Rng::with_seed(plan.seed ^ (0x00C1_1E57 + replica as u64));
        loop {
            tokio::time::sleep(Duration::from_millis(rng.u64(100..2500))).await;
            let chain = rng.usize(..plan.chains.len());
            let (app, starts) =
                self.with(|state| (state.apps[replica].clone(), state.starts[replica]));
            let Some(app) = app else { continue };
            let kind = rng.u8(..10);
            let request = match kind {
                0..=3 => get(&format!("/v1/c{chain}/gas-suggestion")),
                4..=6 => get(&format!("/v1/c{chain}/fee-market")),
                7 => get(&format!("/v1/c{chain}/fee-trend?period=1h")),
                // Now and then a client wants much at once.
                8 => read(&format!("/rpc/c{chain}"), if rng.u8(..6) == 0 { 60 } else { 1 }),
                _ => get(["/v1/chains", "/livez", "/v1/gas-suggestions", "/v1/fee-markets"]
                    [rng.usize(..4)]),
            };
            let path = request.uri().to_string();
            let (asked_at, frozen) = (clock::now(), self.with(|state| state.promises.frozen_until));
            let answer = tokio::time::timeout(2 * ANSWER_WITHIN, answer(&app, request)).await;
            self.with(|state| {
                if state.starts[replica] != starts || state.apps[replica].is_none() {
                    return;
                }
                let took = clock::now().saturating_sub(asked_at);
                // A machine that stands still answers no request.
                if state.promises.frozen_until == frozen {
                    let is_late = answer.is_err() || took > ANSWER_WITHIN;
                    state.promises.check(
                        "every request is answered in time",
                        is_late.then(|| {
                            format!("replica {replica} has not answered {path} in {took:?}")
                        }),
                    );
                }
                let Ok((status, headers, body)) = answer else { return };
                state.responses += 1;
                state.trace.push(&format!(
                    "replica {replica}: {path}: {status} {}",
                    shown(&headers, &body)
                ));
                let is_failure =
                    status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE;
                state.promises.check(
                    "every request has a known answer",
                    is_failure.then(|| format!("replica {replica}: {path}: {status} {body}")),
                );
                let State { promises, chains, .. } = state;
                match kind {
                    0..=6 => {
                        let of = (replica, chain);
                        chains[chain].advance(clock::now());
                        promises.priced(of, status, &headers, &body, &chains[chain]);
                        if kind <= 3 && status == StatusCode::OK {
                            promises.tagged(replica, chain, &headers, &body);
                        }
                    }
                    7 if status == StatusCode::OK => promises.trend(replica, chain, &body),
                    _ => {}
                }
            });
        }
    }

    async fn watch_shared_polls(self) {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            self.with(|state| {
                for (chain, nodes) in state.nodes.iter().enumerate() {
                    state.promises.check_shared_polls(chain, nodes);
                }
            });
        }
    }
}

impl State {
    fn begin_node_fault(&mut self, chain: usize, index: usize, fault: NodeFault) {
        self.chains[chain].advance(clock::now());
        let newest = self.chains[chain].newest().number;
        let node = &mut self.nodes[chain][index];
        if fault == NodeFault::CutOff {
            node.cut_off_at.get_or_insert(newest);
        }
        node.faults.push(fault);
    }

    fn end_node_fault(&mut self, chain: usize, index: usize, fault: NodeFault) {
        let node = &mut self.nodes[chain][index];
        if let Some(position) = node.faults.iter().position(|known| *known == fault) {
            node.faults.remove(position);
        }
        if !node.faults.contains(&NodeFault::CutOff) {
            node.cut_off_at = None;
        }
    }
}

impl NodeTransport for Transport {
    fn post(&self, url: &Url, body: Vec<u8>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        let (world, replica) = (self.world.clone(), self.replica);
        let host = url.host_str().unwrap_or_default().trim_start_matches('n').to_owned();
        async move {
            let (chain, index) =
                host.trim_end_matches(".sim").split_once('-').expect("chain and node");
            let (chain, index): (usize, usize) =
                (chain.parse().expect("a chain"), index.parse().expect("a node"));
            let call = Call::parse(&body).expect("a call");
            let latency = world.with(|state| {
                state.calls += 1;
                let node = &mut state.nodes[chain][index];
                state.promises.called(replica, chain, index, node, &call);
                (!node.is_silent()).then(|| {
                    Duration::from_millis(state.rng.u64(1..node.latency_ms) + node.slowness())
                })
            });
            let Some(latency) = latency else { return std::future::pending().await };
            tokio::time::sleep(latency / 2).await;
            let (answer, asked_at, frozen) = world.with(|state| {
                let now = clock::now();
                state.chains[chain].advance(now);
                let node = &state.nodes[chain][index];
                let answer = match node.connection_failure() {
                    Some(failure) => Err(failure),
                    None => Ok(node.answer(
                        &state.chains[chain],
                        9000 + chain as u64,
                        index,
                        &call,
                        now,
                    )),
                };
                (answer, now, state.promises.frozen_until)
            });
            // What a node has said is on its way.
            tokio::time::sleep(latency.saturating_sub(latency / 2)).await;
            world.with(|state| {
                let mut line = format!("replica {replica}: n{chain}-{index} {}", call.method);
                let (response, said) = answer.inspect_err(|failure| {
                    state.trace.push(&format!("{line}: {failure}"));
                })?;
                let _ = write!(line, " {}", response.status());
                if let Some(mut said) = said {
                    let _ = write!(line, " block {} {:?}", said.head, said.price);
                    // The service cannot know how long it was on its way, but for the time in which all stood still.
                    let has_stood_still = state.promises.frozen_until != frozen;
                    said.at = if has_stood_still { asked_at } else { clock::now() };
                    state.promises.said(chain, said);
                }
                state.trace.push(&line);
                Ok(response)
            })
        }
        .boxed()
    }
}

/// Chooses how far the nodes of each chain are away.
fn random_nodes(plan: &Plan, rng: &mut Rng) -> Vec<Vec<Node>> {
    let nodes = plan.chains.iter().map(|chain| {
        let longest = node_delay_ms(chain.block_time.as_millis() as u64);
        (0..chain.nodes)
            .map(|_| {
                let delay = rng.i64(1..=longest as i64);
                // Near nodes and far ones, of which none is too slow for two calls within a deadline.
                let is_slow_chain = chain.block_time >= Duration::from_secs(2);
                let latency = [20, 40, 150, if is_slow_chain { 450 } else { 150 }][rng.usize(..4)];
                Node::new(plan.replicas, delay, latency)
            })
            .collect()
    });
    nodes.collect()
}

/// Starts and ends of the faults, in order.
fn events(plan: &Plan) -> Vec<(Duration, usize, bool)> {
    let numbered = plan.faults.iter().enumerate();
    let mut events: Vec<_> = numbered
        .flat_map(|(index, Fault { at, lasts, .. })| {
            [(*at, index, true), (*at + *lasts, index, false)]
        })
        .collect();
    events.sort_by_key(|(at, index, is_start)| (*at, *index, !*is_start));
    events
}

pub async fn answer(app: &App, request: Request<Body>) -> (StatusCode, HeaderMap, Value) {
    let (parts, body) = app.respond(request).await.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::from_static(b"the body was cut off"),
    };
    let body = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    (parts.status, parts.headers, body)
}

pub fn get(path: &str) -> Request<Body> {
    Request::get(path).header("host", "gas.sim").body(Body::empty()).expect("a request")
}

/// Returns a batch of so many reads.
fn read(path: &str, count: u64) -> Request<Body> {
    let call = |id| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_getBalance","params":["0x{id:040x}","latest"]}}"#
        )
    };
    let calls: Vec<_> = (0..count).map(call).collect();
    Request::post(path)
        .header("host", "gas.sim")
        .header("content-type", "application/json")
        .body(format!("[{}]", calls.join(",")).into())
        .expect("a request")
}

/// Returns the part of a response that is in the trace: no ids, no dates.
fn shown(headers: &HeaderMap, body: &Value) -> String {
    let names = ["age", "x-newest-block", "x-stale", "x-doubt", "etag"];
    let mut text = String::new();
    for name in names {
        if let Some(value) = headers.get(name).and_then(|value| value.to_str().ok()) {
            let _ = write!(text, "{name}: {value} ");
        }
    }
    if let Some(code) = body.get("code") {
        let _ = write!(text, "{code}");
    }
    text
}

fn configuration(plan: &Plan, replica: usize, directory: &Directory) -> String {
    let mut text = String::from("[history]\nrefill = false\n");
    if let Some(path) = directory.file(replica) {
        let _ = writeln!(text, "path = \"{}\"", path.display());
    }
    if plan.has_redis {
        text += "[redis]\nurl = \"redis://redis.sim:6379\"\n";
    }
    for (index, chain) in plan.chains.iter().enumerate() {
        let urls: Vec<_> =
            (0..chain.nodes).map(|node| format!("\"http://n{index}-{node}.sim/\"")).collect();
        let _ = write!(
            text,
            "[chains.c{index}]\nchain_id = {}\nblock_time = \"{}ms\"\nrpc_urls = [{}]\nagreement = {}\n\
             json_rpc = true\nhistory_blocks = 128\nreads_per_minute = {}\npricing.strategy = \"network\"\n\
             pricing.base_fee_change_denominator = 8\n",
            9000 + index,
            chain.block_time.as_millis(),
            urls.join(", "),
            chain.agreement,
            chain.reads_per_minute,
        );
        if chain.has_two_percentiles {
            text += "pricing.reward_percentiles = [60, 100]\n";
        }
    }
    text
}

/// Directory of the history files of a world. Removed when dropped.
struct Directory(Option<PathBuf>);

impl Directory {
    fn new(plan: &Plan) -> Self {
        Self(plan.keeps_history.then(|| {
            let name = format!("gas-suggestion-sim-{}-{}", std::process::id(), plan.seed);
            let path = std::env::temp_dir().join(name);
            // One of a run that was killed.
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir(&path).expect("a directory");
            path
        }))
    }

    fn file(&self, replica: usize) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(format!("{replica}.redb")))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}
