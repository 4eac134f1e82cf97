//! The whole service in this process, on free ports.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use axum::Router;
use gas_suggestion::config::Config;
use gas_suggestion::extras::sections;
use gas_suggestion::server::Server;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::fixtures;
use crate::http_client;
use crate::raw_client::TIMEOUT;

/// Client of all tests, which reads the system's certificates once. It keeps no connection: the service may close an idle
/// one just when the next request is sent.
static CLIENT: LazyLock<Client> =
    LazyLock::new(|| http_client::builder().pool_max_idle_per_host(0).build().unwrap());

/// A running service. Stopped when dropped.
#[derive(Debug)]
pub(crate) struct TestServer {
    address: SocketAddr,
    admin: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl TestServer {
    /// Starts the service with `chains` on free loopback ports.
    pub(crate) async fn start(chains: &str) -> Self {
        Self::with_server("", chains).await
    }

    /// Like [`start`](Self::start), with further lines in the `[server]` section, or sections after it.
    pub(crate) async fn with_server(server_options: &str, chains: &str) -> Self {
        let mut text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
             drain_delay = \"0s\"\n{server_options}\n{chains}"
        );
        for (section, setting) in [
            // The rate limit would apply, because all requests of a test come from one client.
            ("[limits]", "requests_per_second_per_client = 0"),
            // Many tests count the calls of a node.
            ("[history]", "refill = false"),
        ] {
            if !text.contains(section) {
                write!(text, "\n{section}\n{setting}\n").unwrap();
            }
        }
        Self::with_config(&text).await
    }

    /// Starts the service with a configuration that has all sections but one key: asks are read only where it says so.
    pub(crate) async fn with_config(text: &str) -> Self {
        let mut config = Config::from_toml(text, &sections()).unwrap();
        if !text.contains("ask_interval") {
            for chain in &mut config.chains {
                chain.pricing.ask_interval = 0;
            }
        }
        let server = Server::bind(config).await.unwrap();
        let (address, admin) = (server.address().unwrap(), server.admin_address().unwrap());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            // The service stops when the sender is used or dropped.
            let _ = stopped.await;
        }));
        Self { address, admin, stop, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(Method::GET, path, &[]).await
    }

    /// Sends a POST request without a content type.
    pub(crate) async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        let request = CLIENT.post(self.url(path)).body(body);
        Response::read(request.send().await.unwrap()).await
    }

    pub(crate) fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.admin)
    }

    pub(crate) async fn admin(&self, path: &str) -> Response {
        Response::read(CLIENT.get(self.admin_url(path)).send().await.unwrap()).await
    }

    /// Returns the value of a counter, given as `name{a="b",c="d"}`.
    pub(crate) async fn count(&self, counter: &str) -> u64 {
        let text = self.admin("/metrics").await.body;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(counter));
        let count = lines.find_map(|rest| rest.strip_prefix(' '));
        count.unwrap_or_else(|| panic!("{counter} in {text}")).parse().unwrap()
    }

    /// Waits until a counter or a gauge, given as `name{a="b",c="d"}`, has this value.
    pub(crate) async fn wait_for_count(&self, name: &str, count: usize) {
        let line = format!("\n{name} {count}\n");
        self.wait_for_admin("/metrics", |page| page.body.contains(&line)).await;
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Response {
        Response::read(self.open(method, path, headers).await).await
    }

    /// Like [`send`](Self::send), for a body that may be endless.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> reqwest::Response {
        let request = CLIENT.request(method, self.url(path));
        let add =
            |request: RequestBuilder, (name, value): &(&str, &str)| request.header(*name, *value);
        headers.iter().fold(request, add).send().await.unwrap()
    }

    /// Repeats a GET request until the response passes `check`.
    pub(crate) async fn wait_for(&self, path: &str, check: impl Fn(&Response) -> bool) -> Response {
        wait_for(&CLIENT, &self.url(path), check).await
    }

    /// Repeats a GET request until the status is 200.
    pub(crate) async fn wait_for_ok(&self, path: &str) -> Response {
        self.wait_for(path, |response| response.status == 200).await
    }

    /// Repeats a GET request until the response is from this block.
    pub(crate) async fn wait_for_block(&self, path: &str, number: u64) -> Response {
        let number = number.to_string();
        let is_newest = |response: &Response| {
            response.status == 200 && response.header("x-newest-block") == number
        };
        self.wait_for(path, is_newest).await
    }

    /// Like [`wait_for`](Self::wait_for), on the admin listener, which has no rate limit.
    pub(crate) async fn wait_for_admin(
        &self,
        path: &str,
        as_expected: impl Fn(&Response) -> bool,
    ) -> Response {
        wait_for(&CLIENT, &self.admin_url(path), as_expected).await
    }

    /// Waits until the metrics contain this text.
    pub(crate) async fn wait_for_sample(&self, sample: &str) {
        self.wait_for_admin("/metrics", |page| page.body.contains(sample)).await;
    }

    /// Stops the service and returns the result of its run.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        drop(self.stop);
        self.task.await.unwrap()
    }
}

/// Serves `app` on a free loopback port.
pub(crate) async fn serve(app: Router) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }))
}

/// Polls `condition` until it is true. `what` describes the condition in the panic message.
pub(crate) async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition().await {
        assert!(Instant::now() < deadline, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Repeats a GET request to `url` until the response satisfies `as_expected`.
pub(crate) async fn wait_for(
    client: &Client,
    url: &str,
    as_expected: impl Fn(&Response) -> bool,
) -> Response {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let response = Response::read(client.get(url).send().await.unwrap()).await;
        if as_expected(&response) {
            return response;
        }
        assert!(Instant::now() < deadline, "{url} stays at {response:#?}");
        // The pause leaves the processor to the service and the nodes.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Compares status, code and detail of the problem that each request gets with a snapshot. A request is a path, or a method
/// and a path.
pub(crate) async fn assert_problems(
    address: SocketAddr,
    snapshot: &str,
    requests: &[impl AsRef<str>],
) {
    let mut problems = String::new();
    for request in requests.iter().map(AsRef::as_ref) {
        let (method, path) = request.split_once(' ').unwrap_or(("GET", request));
        let url = format!("http://{address}{path}");
        let sent = CLIENT.request(method.parse().unwrap(), url).send().await.unwrap();
        let response = Response::read(sent).await;
        let problem = response.json();
        let [code, detail] = ["code", "detail"].map(|name| problem[name].as_str().unwrap());
        response.assert_problem(response.status, code);
        writeln!(problems, "{request}\n  {} {code}: {detail}", response.status).unwrap();
    }
    fixtures::assert_snapshot(snapshot, &problems);
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: String,
}

impl Response {
    pub(crate) async fn read(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.text().await.unwrap() }
    }

    /// Returns a header's value, or an empty string.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the block that the response is from.
    pub(crate) fn newest_block(&self) -> u64 {
        self.header("x-newest-block").parse().unwrap()
    }

    /// Returns the status, the headers and a line per member of the body, with `…` for the values of headers and members
    /// that vary.
    pub(crate) fn text(&self, varying: &[&str]) -> String {
        let varying = [&["date", "x-request-id"], varying].concat();
        let show = |name: &str, value: &str| {
            if varying.contains(&name) { format!("{name}: …") } else { value.to_owned() }
        };
        let mut headers: Vec<_> = self.headers.iter().collect();
        headers.sort_by_key(|(name, _)| name.as_str());
        let headers = headers.into_iter().map(|(name, value)| {
            show(name.as_str(), &format!("{name}: {}", value.to_str().unwrap()))
        });
        let body = self.body.replace(",\"", ",\n\"");
        let members = body.lines().map(|line| {
            let name = line.rsplit_once("\":").map_or("", |(name, _)| name);
            show(name.rsplit('"').next().unwrap(), line)
        });
        let lines = [self.status.to_string()].into_iter().chain(headers).chain(members);
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Checks that the response is a problem document with this status and code.
    pub(crate) fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:#?}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:#?}");
        let problem = self.json();
        assert_eq!((&problem["code"], &problem["status"]), (&code.into(), &status.into()));
        assert_eq!(problem["request_id"], self.header("x-request-id"), "{self:#?}");
    }

    /// Checks that the response refuses a request because of this parameter.
    pub(crate) fn assert_refuses(&self, parameter: &str) {
        self.assert_problem(400, "invalid_parameter");
        let problem = self.json();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("`{parameter}`")), "{parameter}: {detail}");
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}
