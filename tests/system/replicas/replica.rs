//! A replica: a service process that a test can kill, freeze and start again with the same configuration.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::Value;

use super::controlled_process::ControlledProcess;
use crate::http_client;
use crate::process::{File, command};
use crate::raw_client::{TIMEOUT, free_port};
use crate::test_server::Response;

/// A replica that keeps its ports, configuration and log file across restarts.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    command: Mutex<Command>,
    log: File,
    _config: File,
    pub(crate) process: ControlledProcess,
    client: Client,
}

/// Metrics of a replica. Counters start at 0 with each process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Slots that the replica claimed, in which it polled for all replicas.
    pub(crate) claimed: u64,
    /// Slots that the replica yielded to another one.
    pub(crate) yielded: u64,
    /// Slots in which the replica polled standalone.
    pub(crate) standalone: u64,
    /// Shared values that the replica adopted.
    pub(crate) adopted: u64,
    /// Shared values that the replica rejected as invalid, implausible or older.
    pub(crate) rejected: u64,
    pub(crate) redis_up: u64,
    pub(crate) redis_failures: u64,
}

impl Counts {
    /// Returns the number of slots in which the replica shared polls.
    pub(crate) fn shared(self) -> u64 {
        self.claimed + self.yielded
    }
}

impl Replica {
    /// Starts a replica on free ports. `more` is the configuration of Redis and the chains. `name` must be unique
    /// within the test process.
    pub(crate) fn start(name: &str, more: &str, variables: &[(&str, &str)]) -> Self {
        let [address, admin] =
            [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let config = File::new(
            name,
            &format!(
                "[server]\nlisten = \"{address}\"\nadmin_listen = \"{admin}\"\ndrain_delay = \"0s\"\n\
                 [limits]\nrequests_per_second_per_client = 0\n[history]\nrefill = false\n\
                 [log]\nformat = \"json\"\nfilter = \"info,gas_suggestion::requests=warn\"\n\
                 {more}"
            ),
        );
        let log = File::new(&format!("{name}-log"), "");
        let to_log = std::fs::File::options().append(true).open(log.path()).unwrap();
        let mut command = command(&["--config", config.path()], variables);
        command.stdin(Stdio::null()).stderr(to_log);
        // The client pools no connections, because they break when the process is killed.
        let client = http_client::builder().pool_max_idle_per_host(0).no_proxy().build().unwrap();
        let replica = Self {
            name: name.to_owned(),
            address,
            admin,
            command: Mutex::new(command),
            log,
            _config: config,
            process: ControlledProcess::default(),
            client,
        };
        replica.start_again();
        replica
    }

    /// Starts the killed process again, as a supervisor would. Does not wait until it listens.
    pub(crate) fn start_again(&self) {
        self.process.set(self.command.lock().unwrap().spawn().unwrap());
    }

    /// Returns the log, which spans all restarts.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    pub(crate) fn redis_log_lines(&self) -> Vec<Value> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.to_lowercase().contains("redis"));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Sends a GET request, for `/metrics` to the admin address. Returns the response, or the reason if none arrives
    /// within `within`.
    pub(crate) async fn try_get(&self, path: &str, within: Duration) -> Result<Response, String> {
        let address = if path == "/metrics" { self.admin } else { self.address };
        let failed = |error: reqwest::Error| format!("{path}: {error:?}");
        let request = self.client.get(format!("http://{address}{path}")).timeout(within);
        let response = request.send().await.map_err(failed)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Response { status, headers, body: response.text().await.map_err(failed)? })
    }

    /// Sends a GET request and returns the response. Panics without a response.
    pub(crate) async fn get(&self, path: &str) -> Response {
        let response = self.try_get(path, TIMEOUT).await;
        response.unwrap_or_else(|error| panic!("{}: {error}\n{}", self.name, self.log()))
    }

    /// Returns the suggestion for the chain `a`.
    pub(crate) async fn suggestion(&self) -> Response {
        self.get("/v1/a/gas-suggestion").await
    }

    pub(crate) async fn counts(&self, chain: &str) -> Counts {
        let Response { status, body: metrics, .. } = self.get("/metrics").await;
        assert_eq!(status, 200, "{metrics}");
        let chain_count = |metric: &str, outcome: &str| {
            sum(&metrics, &format!("{metric}{{chain=\"{chain}\",outcome=\"{outcome}\"}} "))
        };
        Counts {
            claimed: chain_count("poll_slots_total", "claimed"),
            yielded: chain_count("poll_slots_total", "yielded"),
            standalone: chain_count("poll_slots_total", "standalone"),
            adopted: chain_count("replica_messages_total", "adopted"),
            rejected: ["invalid", "implausible", "older"]
                .map(|outcome| chain_count("replica_messages_total", outcome))
                .iter()
                .sum(),
            redis_up: sum(&metrics, "redis_up "),
            redis_failures: sum(&metrics, "redis_failures_total{"),
        }
    }

    /// Waits until `/readyz` returns 200; returns how long that took.
    pub(crate) async fn wait_until_ready(&self) -> Duration {
        self.wait_until_ok("/readyz").await
    }

    /// Waits until `path` returns 200; returns how long that took.
    pub(crate) async fn wait_until_ok(&self, path: &str) -> Duration {
        let since = Instant::now();
        loop {
            let response = self.try_get(path, TIMEOUT).await;
            if response.as_ref().is_ok_and(|response| response.status == 200) {
                return since.elapsed();
            }
            let has_failed = since.elapsed() > TIMEOUT || self.process.has_exited();
            assert!(!has_failed, "{} at {path}: {response:?}\n{}", self.name, self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Returns the sum of the samples that start with `gas_suggestion_{start}`, 0 if there are none.
fn sum(metrics: &str, start: &str) -> u64 {
    let samples = metrics.lines().filter(|line| {
        line.strip_prefix("gas_suggestion_").is_some_and(|rest| rest.starts_with(start))
    });
    let value = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>();
    samples.map(|line| value(line).expect("a whole number")).sum()
}
