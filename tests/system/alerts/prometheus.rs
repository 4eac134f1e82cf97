//! A real Prometheus process.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::http_client;
use crate::raw_client::free_port;
use crate::test_server::TestServer;

/// Returns a command for `name`, a program of Debian's package `prometheus`.
pub(super) fn program(name: &str) -> Command {
    let found = Command::new(name).arg("--version").output();
    assert!(
        found.is_ok(),
        "no {name}: run tests/run.sh, or apt-get install prometheus ({found:?})"
    );
    Command::new(name)
}

/// A Prometheus server on a free loopback port; killed when dropped.
#[derive(Debug)]
pub(super) struct Prometheus {
    process: Child,
    folder: PathBuf,
    url: String,
    client: reqwest::Client,
}

impl Prometheus {
    /// Scrape and rule evaluation interval.
    const INTERVAL: Duration = Duration::from_millis(400);
    const DEADLINE: Duration = Duration::from_mins(3);

    pub(super) async fn start(rules: &str) -> Self {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("{}-prometheus-{port}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let interval = format!("{}ms", Self::INTERVAL.as_millis());
        let config = format!(
            "global: {{ scrape_interval: {interval}, scrape_timeout: {interval}, evaluation_interval: {interval} }}\n\
             rule_files: [rules.yml]\n\
             scrape_configs:\n\
             - job_name: gas-suggestion\n  \
               file_sd_configs: [{{ files: [targets.json] }}]\n"
        );
        fs::write(folder.join("prometheus.yml"), config).unwrap();
        fs::write(folder.join("rules.yml"), rules).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = program("prometheus")
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=warn")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let (url, client) = (format!("http://127.0.0.1:{port}"), http_client::new());
        let mut started = Self { process, folder, url, client };
        let deadline = Instant::now() + Self::DEADLINE;
        while !started.is_ready(port).await {
            let exit_status = started.process.try_wait().unwrap();
            assert!(
                exit_status.is_none() && Instant::now() < deadline,
                "{exit_status:?} {}",
                started.log()
            );
            tokio::time::sleep(Self::INTERVAL / 10).await;
        }
        started
    }

    async fn is_ready(&self, port: u16) -> bool {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
            && self.client.get(format!("{}/-/ready", self.url)).send().await.unwrap().status()
                == 200
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Replaces the scrape targets by these pairs of instance name and admin URL.
    pub(super) fn scrape(&self, targets: &[(&str, String)]) {
        let targets = targets.iter().map(|(instance, url)| {
            let address = url.strip_prefix("http://").unwrap();
            json!({ "targets": [address], "labels": { "instance": instance } })
        });
        // Prometheus reads the file as soon as it exists, so it is moved into place complete.
        let written = self.folder.join("written");
        fs::write(&written, targets.collect::<Value>().to_string()).unwrap();
        fs::rename(written, self.folder.join("targets.json")).unwrap();
    }

    /// Calls the HTTP API and returns the response's `data`.
    pub(super) async fn call_api(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let pairs = parameters.iter().map(|(name, value)| format!("{name}={}", encode(value)));
        let url = format!("{}/api/v1/{path}?{}", self.url, pairs.collect::<Vec<_>>().join("&"));
        let response = self.client.get(url).send().await.unwrap();
        let mut response: Value = response.json().await.unwrap();
        assert_eq!(response["status"], "success", "{path} {parameters:?}: {response}");
        response["data"].take()
    }

    /// Evaluates `expression` now and returns its series, each with labels and value.
    pub(super) async fn query(&self, expression: &str) -> Vec<Value> {
        let mut data = self.call_api("query", &[("query", expression)]).await;
        match data["result"].take() {
            Value::Array(series) => series,
            other => panic!("{expression}: {other}"),
        }
    }

    /// Waits until `expression` returns at least one series.
    pub(super) async fn wait_for(&self, expression: &str) {
        let deadline = Instant::now() + Self::DEADLINE;
        while self.query(expression).await.is_empty() {
            assert!(Instant::now() < deadline, "{expression} returns no series; {}", self.log());
            tokio::time::sleep(Self::INTERVAL / 5).await;
        }
    }

    /// Returns all active alerts, including pending ones.
    pub(super) async fn alerts(&self) -> Vec<Value> {
        match self.call_api("alerts", &[]).await["alerts"].take() {
            Value::Array(alerts) => alerts,
            other => panic!("{other}"),
        }
    }

    /// Waits until `is_expected` accepts the sorted firing alerts, and runs `meanwhile` before each attempt. An alert
    /// is its name and its labels except severity and job.
    pub(super) async fn wait_for_alerts(
        &self,
        is_expected: impl Fn(&[String]) -> bool,
        meanwhile: impl AsyncFn(),
    ) {
        let deadline = Instant::now() + Self::DEADLINE;
        loop {
            meanwhile().await;
            let alerts = self.alerts().await;
            let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
            let mut firing: Vec<_> =
                firing.map(|alert| describe_labels(&alert["labels"])).collect();
            firing.sort();
            if is_expected(&firing) {
                return;
            }
            assert!(Instant::now() < deadline, "{firing:#?} fire; {}", self.log());
            tokio::time::sleep(Self::INTERVAL / 5).await;
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn describe_labels(labels: &Value) -> String {
    let name = labels["alertname"].as_str().unwrap().to_owned();
    let labels = labels.as_object().unwrap().iter();
    let labels =
        labels.filter(|(name, _)| !["alertname", "severity", "job"].contains(&name.as_str()));
    labels.fold(name, |text, (name, value)| format!("{text} {name}={}", value.as_str().unwrap()))
}

/// Returns the URL at which Prometheus scrapes `service`.
pub(super) fn target(service: &TestServer) -> String {
    service.admin_url("")
}
