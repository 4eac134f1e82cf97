//! A replica: a service process that a test can kill, freeze and start again with the same configuration.

use std::fs::File as LogFile;
use std::net::SocketAddr;
use std::process::Stdio;
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
    config: File,
    log: File,
    variables: Vec<(String, String)>,
    process: ControlledProcess,
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

impl Replica {
    /// Starts a replica on free ports. `more` is the configuration of Redis and the chains. `name` must be unique
    /// within the test process.
    pub(crate) fn start(name: &str, more: &str) -> Self {
        Self::with_environment(name, more, &[])
    }

    /// Starts a replica with these environment variables.
    pub(crate) fn with_environment(name: &str, more: &str, variables: &[(&str, &str)]) -> Self {
        let [address, admin] =
            [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let no_readings = if more.contains("[score]") { "" } else { "[score]\nevery = 0\n" };
        let config = File::new(
            name,
            &format!(
                "[server]\nlisten = \"{address}\"\nadmin_listen = \"{admin}\"\ndrain_delay = \"0s\"\n\
                 [limits]\nrequests_per_second_per_client = 0\n[history]\nrefill = false\n\
                 [log]\nformat = \"json\"\nfilter = \"info,gas_suggestion::requests=warn\"\n\
                 {no_readings}{more}"
            ),
        );
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        // The client pools no connections, because they break when the process is killed.
        let client = http_client::builder().pool_max_idle_per_host(0).no_proxy().build().unwrap();
        let replica = Self {
            name: name.to_owned(),
            address,
            admin,
            config,
            log: File::new(&format!("{name}-log"), ""),
            variables: variables.collect(),
            process: ControlledProcess::default(),
            client,
        };
        replica.start_again();
        replica
    }

    /// Starts the killed process again, as a supervisor would. Does not wait until it listens.
    pub(crate) fn start_again(&self) {
        let mut command = command(&["--config", self.config.path()], &[]);
        let log = LogFile::options().append(true).open(self.log.path()).unwrap();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        self.process.set(child);
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// Suspends the process (SIGSTOP) until [`thaw`](Self::thaw).
    pub(crate) fn freeze(&self) {
        self.process.freeze();
    }

    pub(crate) fn thaw(&self) {
        self.process.thaw();
    }

    /// Returns true if the process has exited by itself.
    pub(crate) fn has_exited(&self) -> bool {
        self.process.has_exited()
    }

    /// Returns the log, which spans all restarts.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// Returns the log lines about Redis.
    pub(crate) fn redis_log_lines(&self) -> Vec<Value> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.to_lowercase().contains("redis"));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Checks that the log has at most `max` lines about Redis.
    pub(crate) fn check_redis_log_volume(&self, max: usize) {
        let lines = self.redis_log_lines();
        assert!(lines.len() <= max, "{} lines of {}: {lines:#?}", lines.len(), self.name);
    }

    /// Sends a GET request. Returns the response, or the reason if none arrives within `within`.
    pub(crate) async fn try_get(&self, path: &str, within: Duration) -> Result<Response, String> {
        self.try_get_at(self.address, path, within).await
    }

    async fn try_get_at(
        &self,
        address: SocketAddr,
        path: &str,
        within: Duration,
    ) -> Result<Response, String> {
        let request = async {
            let response = self.client.get(format!("http://{address}{path}")).send().await?;
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            Ok::<_, reqwest::Error>(Response { status, headers, body: response.text().await? })
        };
        match tokio::time::timeout(within, request).await {
            Ok(response) => response.map_err(|error| format!("{path}: {error:?}")),
            Err(_) => Err(format!("{path}: no response within {within:?}")),
        }
    }

    /// Sends a GET request and returns the response. Panics without a response.
    pub(crate) async fn get(&self, path: &str) -> Response {
        self.expect_response(self.try_get(path, TIMEOUT).await)
    }

    /// Returns the text of `/metrics`.
    pub(crate) async fn metrics(&self) -> String {
        let response = self.expect_response(self.try_get_at(self.admin, "/metrics", TIMEOUT).await);
        assert_eq!(response.status, 200, "{response:?}");
        response.body
    }

    fn expect_response(&self, response: Result<Response, String>) -> Response {
        response.unwrap_or_else(|error| panic!("{}: {error}\n{}", self.name, self.log()))
    }

    /// Returns the metrics of a chain and of Redis.
    pub(crate) async fn counts(&self, chain: &str) -> Counts {
        let metrics = self.metrics().await;
        let chain_count = |metric: &str, outcome: &str| {
            let chain = format!("chain=\"{chain}\"");
            sum(&metrics, metric, &[&chain, &format!("outcome=\"{outcome}\"")])
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
            redis_up: sum(&metrics, "redis_up", &[]),
            redis_failures: sum(&metrics, "redis_failures_total", &[]),
        }
    }

    /// Waits until `/readyz` returns 200; returns how long that took.
    pub(crate) async fn wait_until_ready(&self) -> Duration {
        self.wait_until_ok("/readyz").await
    }

    /// Waits until `/livez` returns 200; returns how long that took.
    pub(crate) async fn wait_until_live(&self) -> Duration {
        self.wait_until_ok("/livez").await
    }

    async fn wait_until_ok(&self, path: &str) -> Duration {
        let since = Instant::now();
        loop {
            let response = self.try_get(path, TIMEOUT).await;
            if response.as_ref().is_ok_and(|response| response.status == 200) {
                return since.elapsed();
            }
            let has_failed = since.elapsed() > TIMEOUT || self.has_exited();
            assert!(!has_failed, "{} at {path}: {response:?}\n{}", self.name, self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Returns the sum of the samples of `gas_suggestion_{metric}` with these labels, 0 if there are none.
fn sum(metrics: &str, metric: &str, labels: &[&str]) -> u64 {
    let samples = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix("gas_suggestion_")?.strip_prefix(metric)?;
        let (found, value) = rest.rsplit_once(' ')?;
        let is_match = found.is_empty() || found.starts_with('{');
        (is_match && labels.iter().all(|label| found.contains(label))).then(|| value.parse::<u64>())
    });
    samples.map(|value| value.expect("a whole number")).sum()
}

#[test]
fn sum_matches_labels_and_the_whole_metric_name() {
    let metrics = "# TYPE gas_suggestion_poll_slots_total counter\n\
                   gas_suggestion_poll_slots_total{chain=\"a\",outcome=\"yielded\"} 3\n\
                   gas_suggestion_poll_slots_total{chain=\"a\",outcome=\"claimed\"} 4\n\
                   gas_suggestion_poll_slots_total{chain=\"b\",outcome=\"yielded\"} 10\n\
                   gas_suggestion_redis_up 1\n\
                   gas_suggestion_redis_up_total 7\n";
    assert_eq!(sum(metrics, "poll_slots_total", &["chain=\"a\""]), 7);
    assert_eq!(sum(metrics, "poll_slots_total", &["outcome=\"yielded\""]), 13);
    assert_eq!(sum(metrics, "redis_up", &[]), 1);
    assert_eq!(sum(metrics, "redis_failures_total", &[]), 0);
}
