//! One of several instances: a process that is killed, frozen and started again under the same configuration.

use std::fs::File as LogFile;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::Value;

use super::life::Life;
use crate::command::{File, command};
use crate::raw::{PATIENCE, free_port};
use crate::service::Answer;

/// How a replica is started, as often as that is.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    config: File,
    log: File,
    variables: Vec<(String, String)>,
    life: Life,
    client: Client,
}

/// What a replica has counted; a process that starts begins at 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Turns that it took: it polled for all.
    pub(crate) claimed: u64,
    /// Turns that it left to another.
    pub(crate) left: u64,
    /// Turns without Redis: it polled for itself.
    pub(crate) alone: u64,
    /// Shared values that were news to it.
    pub(crate) adopted: u64,
    /// Shared values that were not taken: what cannot be one or cannot be true, and older ones.
    pub(crate) refused: u64,
    /// The gauge.
    pub(crate) redis_up: u64,
    pub(crate) redis_failures: u64,
}

impl Replica {
    /// Starts with `more`, which has the chains, on ports of its own. Two replicas of one test process have
    /// different names.
    pub(crate) fn start(name: &str, more: &str) -> Self {
        Self::with_variables(name, more, &[])
    }

    /// The same with these variables in its environment.
    pub(crate) fn with_variables(name: &str, more: &str, variables: &[(&str, &str)]) -> Self {
        let [address, admin] =
            [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let config = File::new(
            name,
            &format!(
                "[server]\nlisten = \"{address}\"\nadmin_listen = \"{admin}\"\ndrain_delay = \"0s\"\n\
                 [limits]\nrequests_per_second_per_client = 0\n\
                 [log]\nformat = \"json\"\nfilter = \"info,gas_suggestion::requests=warn\"\n{more}"
            ),
        );
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        // Its answers may come late, but a connection that was open when it was killed is none of them.
        let client = Client::builder().pool_max_idle_per_host(0).no_proxy().build().unwrap();
        let replica = Self {
            name: name.to_owned(),
            address,
            admin,
            config,
            log: File::new(&format!("{name}-log"), ""),
            variables: variables.collect(),
            life: Life::default(),
            client,
        };
        replica.start_again();
        replica
    }

    /// Starts it after it was killed, as a supervisor does; it may not listen yet.
    pub(crate) fn start_again(&self) {
        let mut command = command(&["--config", self.config.path()], &[]);
        let log = LogFile::options().append(true).open(self.log.path()).unwrap();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let process = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        self.life.begin(process);
    }

    /// Ends it at once.
    pub(crate) fn kill(&self) {
        self.life.kill();
    }

    /// Lets it do nothing until [`thaw`](Self::thaw).
    pub(crate) fn freeze(&self) {
        self.life.freeze();
    }

    pub(crate) fn thaw(&self) {
        self.life.thaw();
    }

    /// Whether the process has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.life.has_ended()
    }

    /// What it has logged in all its lives.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// The lines of its log that are about Redis.
    pub(crate) fn of_redis(&self) -> Vec<Value> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.to_lowercase().contains("redis"));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// It has not filled its log with what it saw of Redis: no more than so many lines.
    pub(crate) fn tells_little_of_redis(&self, most: usize) {
        let told = self.of_redis();
        assert!(told.len() <= most, "{} lines of {}: {told:#?}", told.len(), self.name);
    }

    /// Its answer, or why there is none within this time.
    pub(crate) async fn try_get(&self, path: &str, within: Duration) -> Result<Answer, String> {
        self.try_get_at(self.address, path, within).await
    }

    async fn try_get_at(
        &self,
        address: SocketAddr,
        path: &str,
        within: Duration,
    ) -> Result<Answer, String> {
        let asked = async {
            let response = self.client.get(format!("http://{address}{path}")).send().await?;
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            Ok::<_, reqwest::Error>(Answer { status, headers, body: response.text().await? })
        };
        match tokio::time::timeout(within, asked).await {
            Ok(answer) => answer.map_err(|error| format!("{path}: {error:?}")),
            Err(_) => Err(format!("{path}: no answer within {within:?}")),
        }
    }

    /// Its answer, which has to come.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.has_come(self.try_get(path, PATIENCE).await)
    }

    /// All that `/metrics` shows.
    pub(crate) async fn metrics(&self) -> String {
        let answer = self.has_come(self.try_get_at(self.admin, "/metrics", PATIENCE).await);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    fn has_come(&self, answer: Result<Answer, String>) -> Answer {
        answer.unwrap_or_else(|error| panic!("{}: {error}\n{}", self.name, self.log()))
    }

    /// What it has counted of its turns at a chain, and of Redis.
    pub(crate) async fn counts(&self, chain: &str) -> Counts {
        let metrics = self.metrics().await;
        let of_chain = |metric: &str, outcome: &str| {
            let chain = format!("chain=\"{chain}\"");
            sum(&metrics, metric, &[&chain, &format!("outcome=\"{outcome}\"")])
        };
        Counts {
            claimed: of_chain("turns_total", "claimed"),
            left: of_chain("turns_total", "left"),
            alone: of_chain("turns_total", "alone"),
            adopted: of_chain("shared_values_total", "adopted"),
            refused: ["foreign", "implausible", "older"]
                .map(|outcome| of_chain("shared_values_total", outcome))
                .iter()
                .sum(),
            redis_up: sum(&metrics, "redis_up", &[]),
            redis_failures: sum(&metrics, "redis_failures_total", &[]),
        }
    }

    /// Waits until a connection is taken and `/readyz` is 200, and gives how long that took.
    pub(crate) async fn is_ready(&self) -> Duration {
        self.is_well_at("/readyz").await
    }

    /// Waits until it answers at all.
    pub(crate) async fn is_live(&self) -> Duration {
        self.is_well_at("/livez").await
    }

    async fn is_well_at(&self, path: &str) -> Duration {
        let since = Instant::now();
        loop {
            let answer = self.try_get(path, PATIENCE).await;
            if answer.as_ref().is_ok_and(|answer| answer.status == 200) {
                return since.elapsed();
            }
            let is_over = since.elapsed() > PATIENCE || self.has_ended();
            assert!(!is_over, "{} at {path}: {answer:?}\n{}", self.name, self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The sum of the samples of `gas_suggestion_{metric}` that have these labels; 0 of none.
fn sum(metrics: &str, metric: &str, labels: &[&str]) -> u64 {
    let samples = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix("gas_suggestion_")?.strip_prefix(metric)?;
        let (found, value) = rest.rsplit_once(' ')?;
        let is_it = found.is_empty() || found.starts_with('{');
        (is_it && labels.iter().all(|label| found.contains(label))).then(|| value.parse::<u64>())
    });
    samples.map(|value| value.expect("a whole number")).sum()
}

#[test]
fn samples_are_summed_by_their_labels_and_never_those_of_a_longer_name() {
    let metrics = "# TYPE gas_suggestion_turns_total counter\n\
                   gas_suggestion_turns_total{chain=\"a\",outcome=\"left\"} 3\n\
                   gas_suggestion_turns_total{chain=\"a\",outcome=\"claimed\"} 4\n\
                   gas_suggestion_turns_total{chain=\"b\",outcome=\"left\"} 10\n\
                   gas_suggestion_redis_up 1\n\
                   gas_suggestion_redis_up_total 7\n";
    assert_eq!(sum(metrics, "turns_total", &["chain=\"a\""]), 7);
    assert_eq!(sum(metrics, "turns_total", &["outcome=\"left\""]), 13);
    assert_eq!(sum(metrics, "redis_up", &[]), 1);
    assert_eq!(sum(metrics, "redis_failures_total", &[]), 0);
}
