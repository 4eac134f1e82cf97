//! A real Prometheus, as a process.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::raw::free_port;
use crate::service::Service;

/// The program `name` of Debian's package `prometheus`.
pub(super) fn program(name: &str) -> Command {
    let found = Command::new(name).arg("--version").output();
    assert!(
        found.is_ok(),
        "no {name}: run tests/run.sh, or apt-get install prometheus ({found:?})"
    );
    Command::new(name)
}

/// A Prometheus with these rules, on a free loopback port; killed when dropped.
#[derive(Debug)]
pub(super) struct Prometheus {
    process: Child,
    folder: PathBuf,
    url: String,
    client: reqwest::Client,
}

impl Prometheus {
    /// How often it asks its targets, and evaluates its rules.
    const INTERVAL: Duration = Duration::from_millis(400);
    const DEADLINE: Duration = Duration::from_secs(90);

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
        let (url, client) = (format!("http://127.0.0.1:{port}"), reqwest::Client::new());
        let mut started = Self { process, folder, url, client };
        let deadline = Instant::now() + Self::DEADLINE;
        while !started.is_ready(port).await {
            let ended = started.process.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "{ended:?} {}", started.log());
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

    /// Scrapes the admin listeners at these URLs from now on, as instances of these names.
    pub(super) fn scrape(&self, targets: &[(&str, String)]) {
        let targets = targets.iter().map(|(instance, url)| {
            let address = url.strip_prefix("http://").unwrap();
            json!({ "targets": [address], "labels": { "instance": instance } })
        });
        // It reads the file as soon as there is one.
        let written = self.folder.join("written");
        fs::write(&written, targets.collect::<Value>().to_string()).unwrap();
        fs::rename(written, self.folder.join("targets.json")).unwrap();
    }

    /// What its API answers.
    pub(super) async fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let pairs = parameters.iter().map(|(name, value)| format!("{name}={}", encode(value)));
        let url = format!("{}/api/v1/{path}?{}", self.url, pairs.collect::<Vec<_>>().join("&"));
        let answer = self.client.get(url).send().await.unwrap();
        let mut answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["status"], "success", "{path} {parameters:?}: {answer}");
        answer["data"].take()
    }

    /// What `expression` is now: its series, each with its labels and its value.
    pub(super) async fn query(&self, expression: &str) -> Vec<Value> {
        let mut data = self.ask("query", &[("query", expression)]).await;
        match data["result"].take() {
            Value::Array(series) => series,
            other => panic!("{expression}: {other}"),
        }
    }

    /// Waits until `expression` has any series.
    pub(super) async fn wait_for(&self, expression: &str) {
        let deadline = Instant::now() + Self::DEADLINE;
        while self.query(expression).await.is_empty() {
            assert!(Instant::now() < deadline, "{expression} is never there; {}", self.log());
            tokio::time::sleep(Self::INTERVAL / 5).await;
        }
    }

    /// The alerts that there are, pending ones too.
    pub(super) async fn alerts(&self) -> Vec<Value> {
        match self.ask("alerts", &[]).await["alerts"].take() {
            Value::Array(alerts) => alerts,
            other => panic!("{other}"),
        }
    }

    /// Waits until the alerts that fire are `as_expected`, each as its name and its labels but for the
    /// severity and the job. `meanwhile` goes on until then.
    pub(super) async fn wait_for_alerts(
        &self,
        as_expected: impl Fn(&[String]) -> bool,
        meanwhile: impl AsyncFn(),
    ) {
        let deadline = Instant::now() + Self::DEADLINE;
        loop {
            meanwhile().await;
            let alerts = self.alerts().await;
            let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
            let mut firing: Vec<_> = firing.map(|alert| text_of(&alert["labels"])).collect();
            firing.sort();
            if as_expected(&firing) {
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

fn text_of(labels: &Value) -> String {
    let name = labels["alertname"].as_str().unwrap().to_owned();
    let labels = labels.as_object().unwrap().iter();
    let labels =
        labels.filter(|(name, _)| !["alertname", "severity", "job"].contains(&name.as_str()));
    labels.fold(name, |text, (name, value)| format!("{text} {name}={}", value.as_str().unwrap()))
}

/// Where Prometheus scrapes `service`.
pub(super) fn target(service: &Service) -> String {
    service.admin_url("")
}
