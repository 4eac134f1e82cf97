//! A real Prometheus process.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::http_client;
use crate::process::Folder;
use crate::raw_client::free_port;
use crate::replicas::controlled_process::ControlledProcess;
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
    process: ControlledProcess,
    folder: Folder,
    url: String,
    client: reqwest::Client,
}

impl Prometheus {
    /// Scrape and rule evaluation interval.
    const INTERVAL: Duration = Duration::from_millis(400);
    const DEADLINE: Duration = Duration::from_mins(3);

    pub(super) async fn start(rules: &str) -> Self {
        let port = free_port();
        let folder = Folder::new(&format!("prometheus-{port}"));
        let path = |name: &str| folder.path().join(name);
        let interval = format!("{}ms", Self::INTERVAL.as_millis());
        let config = format!(
            "global: {{ scrape_interval: {interval}, scrape_timeout: {interval}, evaluation_interval: {interval} }}\n\
             rule_files: [rules.yml]\n\
             scrape_configs:\n\
             - job_name: gas-suggestion\n  \
               file_sd_configs: [{{ files: [targets.json] }}]\n"
        );
        fs::write(path("prometheus.yml"), config).unwrap();
        fs::write(path("rules.yml"), rules).unwrap();
        let log = fs::File::create(path("log")).unwrap();
        let child = program("prometheus")
            .arg(format!("--config.file={}", path("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", path("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=warn")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let process = ControlledProcess::default();
        process.set(child);
        let (url, client) = (format!("http://127.0.0.1:{port}"), http_client::new());
        let started = Self { process, folder, url, client };
        let ready = format!("{}/-/ready", started.url);
        let is_ready = async || {
            assert!(!started.process.has_exited(), "{}", started.log());
            let response = started.client.get(&ready).send().await;
            response.is_ok_and(|response| response.status() == 200)
        };
        started.wait_until(is_ready, || "Prometheus is not ready".to_owned()).await;
        started
    }

    /// Waits until `is_met` returns true. `what` describes the failure.
    pub(super) async fn wait_until(
        &self,
        is_met: impl AsyncFn() -> bool,
        what: impl Fn() -> String,
    ) {
        let deadline = Instant::now() + Self::DEADLINE;
        while !is_met().await {
            assert!(Instant::now() < deadline, "{}; {}", what(), self.log());
            tokio::time::sleep(Self::INTERVAL / 5).await;
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Replaces the scrape targets by these pairs of instance name and admin URL.
    pub(super) fn scrape(&self, targets: &[(&str, String)]) {
        let targets = targets.iter().map(|(instance, url)| {
            let address = url.strip_prefix("http://").unwrap();
            json!({ "targets": [address], "labels": { "instance": instance } })
        });
        // Prometheus reads the file as soon as it exists, so it is moved into place complete.
        let written = self.folder.path().join("written");
        fs::write(&written, targets.collect::<Value>().to_string()).unwrap();
        fs::rename(written, self.folder.path().join("targets.json")).unwrap();
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
        serde_json::from_value(data["result"].take()).unwrap()
    }

    pub(super) async fn wait_for(&self, expression: &str) {
        let has_series = async || !self.query(expression).await.is_empty();
        self.wait_until(has_series, || format!("{expression} returns no series")).await;
    }
}

/// Returns the URL at which Prometheus scrapes `service`.
pub(super) fn target(service: &TestServer) -> String {
    service.admin_url("")
}
