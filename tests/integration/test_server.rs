//! The whole service in this process, on ports of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use gas_suggestion::config::Config;
use gas_suggestion::server::Server;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::anvil::Anvil;

/// No event that a test waits for takes this long unless it never comes.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// A running service; it stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Service {
    address: SocketAddr,
    admin: SocketAddr,
    client: Client,
    stop: oneshot::Sender<()>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Service {
    /// Starts with `chains` on free loopback ports.
    pub(crate) async fn start(chains: &str) -> Self {
        Self::with_server("", chains).await
    }

    /// The same with `more` in the `[server]` section, or after it.
    pub(crate) async fn with_server(more: &str, chains: &str) -> Self {
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
             drain_delay = \"0s\"\n{more}\n{chains}"
        );
        // All tests are one client, which asks as often as it can.
        let no_rate = "[limits]\nrequests_per_second_per_client = 0\n";
        let text = if text.contains("[limits]") { text } else { format!("{text}\n{no_rate}") };
        Self::with_config(&text).await
    }

    /// With this whole configuration.
    pub(crate) async fn with_config(text: &str) -> Self {
        let server = Server::bind(Config::from_toml(text).unwrap()).await.unwrap();
        let (address, admin) = (server.address().unwrap(), server.admin_address().unwrap());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            // A dropped handle stops the service as well.
            let _ = stopped.await;
        }));
        Self { address, admin, client: Client::new(), stop, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[]).await
    }

    pub(crate) fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.admin)
    }

    pub(crate) async fn admin(&self, path: &str) -> Answer {
        Answer::of(self.client.get(self.admin_url(path)).send().await.unwrap()).await
    }

    /// The count of the counter with this name and these labels, `name{a="b",c="d"}`.
    pub(crate) async fn count(&self, counter: &str) -> u64 {
        let text = self.admin("/metrics").await.body;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(counter));
        let count = lines.find_map(|rest| rest.strip_prefix(' '));
        count.unwrap_or_else(|| panic!("{counter} in {text}")).parse().unwrap()
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = self.client.request(method, self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.send().await.unwrap()).await
    }

    /// Asks again and again until the answer is `as_expected`.
    pub(crate) async fn wait_for(
        &self,
        path: &str,
        as_expected: impl Fn(&Answer) -> bool,
    ) -> Answer {
        wait_for(&self.client, &self.url(path), as_expected).await
    }

    /// The same of the admin listener, which limits nobody.
    pub(crate) async fn wait_admin(
        &self,
        path: &str,
        as_expected: impl Fn(&Answer) -> bool,
    ) -> Answer {
        wait_for(&self.client, &self.admin_url(path), as_expected).await
    }

    /// Waits until the polls have seen the newest block of `node`, which does not mine meanwhile.
    pub(crate) async fn wait_for_head(&self, chain: &str, node: &Anvil) {
        let head = node.call("eth_blockNumber", json!([])).await;
        let head = u64::from_str_radix(&head.as_str().unwrap()[2..], 16).unwrap().to_string();
        let is_seen = |answer: &Answer| answer.header("x-newest-block") == head;
        self.wait_for(&format!("/v1/{chain}/gas-suggestion"), is_seen).await;
    }

    /// Stops the service and gives what its run came to.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        drop(self.stop);
        self.task.await.unwrap()
    }
}

/// Looks again and again until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Asks at `url` again and again until the answer is `as_expected`.
pub(crate) async fn wait_for(
    client: &Client,
    url: &str,
    as_expected: impl Fn(&Answer) -> bool,
) -> Answer {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let answer = Answer::of(client.get(url).send().await.unwrap()).await;
        if as_expected(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{url} stays at {answer:#?}");
        // Whoever is waited for needs the processor too.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn of(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.text().await.unwrap() }
    }

    /// A header's text; empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}
