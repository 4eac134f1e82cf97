//! Anvil, a stand-in for the service that can send anything, and the warnings of this crate.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Level, Metadata, Subscriber, span};

pub(crate) const GWEI: u128 = 1_000_000_000;

/// A node of chain 2020 whose base fee is 3 gwei. Killed when dropped.
pub(crate) struct Anvil {
    process: Child,
    pub(crate) url: String,
}

impl Anvil {
    pub(crate) fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let installed = "tests/node/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil";
        let binary = std::env::var_os("ANVIL").map_or_else(|| root.join(installed), Into::into);
        let missing =
            "anvil is missing: run `npm ci --prefix tests/node`, or set ANVIL to its path";
        assert!(binary.exists(), "{missing}");
        let mut command = Command::new(binary);
        command.args(["--chain-id", "2020", "--port", "0", "--base-fee", "3000000000"]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address =
            lines.find_map(|line| line.unwrap().strip_prefix("Listening on ")?.parse().ok());
        let address: std::net::SocketAddr = address.expect("anvil did not start");
        // A full pipe would stop anvil.
        thread::spawn(move || lines.for_each(drop));
        Self { process, url: format!("http://{address}") }
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Parts of a response, by the request's path.
type Reply = Arc<dyn Fn(&str) -> Box<dyn Iterator<Item = Vec<u8>>> + Send + Sync>;

/// Answers each request with the reply, then closes the connection. Stopped when dropped.
pub(crate) struct Service {
    pub(crate) url: String,
    paths: Arc<Mutex<Vec<String>>>,
    sent: Arc<AtomicUsize>,
    reply: Arc<Mutex<Reply>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    pub(crate) fn start(reply: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (paths, sent) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let reply = Arc::new(Mutex::new(whole(reply)));
        let shared = (Arc::clone(&paths), Arc::clone(&sent), Arc::clone(&reply));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let (paths, sent, reply) = shared.clone();
                let Some(path) = path(&stream) else { return };
                paths.lock().unwrap().push(path.clone());
                let reply = Arc::clone(&reply.lock().unwrap());
                thread::spawn(move || send(stream, reply(&path), &sent));
            }
        });
        Self { url, paths, sent, reply, thread: Some(thread) }
    }

    pub(crate) fn reply_with(&self, reply: &[u8]) {
        *self.reply.lock().unwrap() = whole(reply);
    }

    pub(crate) fn reply_by<I: Iterator<Item = Vec<u8>> + 'static>(
        &self,
        reply: impl Fn(&str) -> I + Send + Sync + 'static,
    ) {
        *self.reply.lock().unwrap() = Arc::new(move |path| Box::new(reply(path)));
    }

    /// Returns the paths of requests since the last call.
    pub(crate) fn take_paths(&self) -> Vec<String> {
        std::mem::take(&mut self.paths.lock().unwrap())
    }

    pub(crate) fn sent_bytes(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Closes the port.
    pub(crate) fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A connection without a request ends the thread.
            _ = TcpStream::connect(self.url.trim_start_matches("http://"));
            thread.join().unwrap();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

fn whole(reply: &[u8]) -> Reply {
    let reply = reply.to_vec();
    Arc::new(move |_| Box::new(std::iter::once(reply.clone())))
}

/// Returns the path of a request after reading its head; `None` if the client closes the connection before.
fn path(stream: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    lines.find(|line| line.as_ref().is_ok_and(String::is_empty))?.ok()?;
    Some(first.split(' ').nth(1)?.to_owned())
}

fn send(mut stream: TcpStream, parts: impl Iterator<Item = Vec<u8>>, sent: &AtomicUsize) {
    for part in parts {
        // A client that has enough closes the connection.
        if stream.write_all(&part).is_err() {
            return;
        }
        sent.fetch_add(part.len(), Ordering::Relaxed);
    }
}

pub(crate) fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

/// A suggestion with 22 and 20 gwei, of the high tier 26 and 24 gwei.
pub(crate) fn suggestion(headers: &str) -> Vec<u8> {
    body_of("eip-1559", &tier(22, 20), &tier(26, 24), headers)
}

/// A suggestion of a chain without a base fee: 9 gwei.
pub(crate) fn legacy() -> Vec<u8> {
    body_of("legacy", &tier(9, 9), &tier(10, 10), "")
}

pub(crate) fn body_of(kind: &str, medium: &str, high: &str, headers: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"chain_name":"ronin","type":"{kind}","base_fee_per_gas":"0","medium":{medium},"high":{high}}}"#
    );
    response("200 OK", headers, &body)
}

/// A tier with a max fee and a tip in gwei.
pub(crate) fn tier(max_fee: u128, tip: u128) -> String {
    raw_tier(&(max_fee * GWEI).to_string(), &(tip * GWEI).to_string())
}

pub(crate) fn raw_tier(max_fee: &str, tip: &str) -> String {
    format!(r#"{{"max_fee_per_gas":"{max_fee}","max_priority_fee_per_gas":"{tip}"}}"#)
}

/// The warnings of this crate in this thread while it lives.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    pub(crate) fn collect() -> (Self, DefaultGuard) {
        let warnings = Self::default();
        (warnings.clone(), set_default(warnings))
    }

    /// Returns the warnings since the last call, without the words that all have.
    pub(crate) fn take(&self) -> Vec<String> {
        let warnings = std::mem::take(&mut *self.0.lock().unwrap());
        let reason = |warning: String| {
            warning.strip_prefix("no gas suggestion, the node sets the fees: ").unwrap().to_owned()
        };
        warnings.into_iter().map(reason).collect()
    }
}

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        assert_eq!(field.name(), "message");
        self.0.lock().unwrap().push(format!("{value:?}"));
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("gas_suggestion_alloy")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
