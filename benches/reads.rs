//! Latency that the service adds to an uncached read.
//!
//! `reads compare NODE SERVICE ROUNDS PAIRS` (addresses with a path) sends reads alternately to the node and to the
//! service in front of it. It fails unless the median difference is under 1 ms. `reads node` is a node that responds
//! at once; it prints the free loopback address on which it listens.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

/// Limit of the added latency, in microseconds.
const MAX_ADDED: f64 = 1000.0;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let outcome = match *arguments.as_slice() {
        ["node"] => serve().map(|()| true),
        ["compare", node, service, rounds, pairs] => match (rounds.parse(), pairs.parse()) {
            (Ok(rounds @ 1..), Ok(pairs @ 1..)) => compare(node, service, rounds, pairs),
            _ => return usage(),
        },
        _ => return usage(),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("reads: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: reads compare NODE SERVICE ROUNDS PAIRS; benches/reads.sh starts both for it"
    );
    ExitCode::from(2)
}

/// Returns true if the added latency is within the limit.
fn compare(node: &str, service: &str, rounds: usize, pairs: usize) -> io::Result<bool> {
    let (mut node, mut service) = (Client::connect(node)?, Client::connect(service)?);
    // Each read has a new address, so nothing is cached.
    let mut addresses = 0x1_0000_0000_u64..;
    let mut pair = || {
        let mut next = || addresses.next().unwrap_or_default();
        Ok((node.read_balance(next())?, service.read_balance(next())?))
    };
    // Warm-up.
    for _ in 0..pairs {
        pair()?;
    }
    println!("round  node: p50     p99  service: p50     p99  added: p50 (µs)");
    let mut medians = Vec::new();
    for round in 1..=rounds {
        let measured = (0..pairs).map(|_| pair()).collect::<io::Result<Vec<_>>>()?;
        let node_times = sorted(measured.iter().map(|(node, _)| *node));
        let service_times = sorted(measured.iter().map(|(_, service)| *service));
        let added = sorted(measured.iter().map(|(node, service)| service - node));
        println!(
            "{round:5}  {:9.0} {:7.0} {:13.0} {:7.0} {:11.0}",
            percentile(&node_times, 50),
            percentile(&node_times, 99),
            percentile(&service_times, 50),
            percentile(&service_times, 99),
            percentile(&added, 50),
        );
        medians.push(percentile(&added, 50));
    }
    let medians = sorted(medians.into_iter());
    let median = percentile(&medians, 50);
    let is_met = median < MAX_ADDED;
    println!(
        "median added {median:.0} µs (from {:.0} to {:.0}); under {MAX_ADDED} µs: {}",
        percentile(&medians, 0),
        percentile(&medians, 100),
        if is_met { "met" } else { "NOT met" }
    );
    Ok(is_met)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns a percentile of values in ascending order.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let index = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// A blocking client with one connection, which adds little latency of its own.
struct Client {
    stream: TcpStream,
    address: String,
    path: String,
    response: Vec<u8>,
}

impl Client {
    const TIMEOUT: Duration = Duration::from_secs(5);

    /// Connects to an address with a path.
    fn connect(target: &str) -> io::Result<Self> {
        let (address, path) = target.split_once('/').unwrap_or((target, ""));
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Self::TIMEOUT))?;
        Ok(Self {
            stream,
            address: address.to_owned(),
            path: format!("/{path}"),
            response: Vec::new(),
        })
    }

    /// Reads the balance of `account` and returns the latency in microseconds.
    fn read_balance(&mut self, account: u64) -> io::Result<f64> {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["{account:#042x}","latest"]}}"#
        );
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            body.len()
        );
        self.response.clear();
        let mut piece = [0; 4096];
        let started = Instant::now();
        self.stream.write_all(request.as_bytes())?;
        while !is_complete(&self.response) {
            match self.stream.read(&mut piece)? {
                0 => return Err(self.unexpected()),
                count => self.response.extend(piece.iter().take(count)),
            }
        }
        let elapsed = started.elapsed();
        let has_result = text(&self.response).is_some_and(|response| {
            response.starts_with("HTTP/1.1 200 ") && response.contains("\"result\":\"0x")
        });
        if !has_result {
            return Err(self.unexpected());
        }
        Ok(elapsed.as_secs_f64() * 1e6)
    }

    fn unexpected(&self) -> io::Error {
        let response = String::from_utf8_lossy(&self.response);
        io::Error::other(format!("{} responded {response:?}", self.address))
    }
}

/// Returns true if a response with a `Content-Length` is complete.
fn is_complete(response: &[u8]) -> bool {
    let Some((head, body)) = text(response).and_then(|response| response.split_once("\r\n\r\n"))
    else {
        return false;
    };
    let mut headers = head.lines().filter_map(|line| line.split_once(": "));
    let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    length.and_then(|(_, length)| length.parse().ok()) == Some(body.len())
}

fn text(response: &[u8]) -> Option<&str> {
    std::str::from_utf8(response).ok()
}

#[tokio::main]
async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let started = Instant::now();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            let service = service_fn(|request| respond(request, started));
            // A client may disconnect at any time.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    started: Instant,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await;
    let Some(reply) = body.ok().and_then(|body| reply(&body.to_bytes(), started)) else {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let mut response = Response::new(Full::from(reply));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

/// Returns the reply of a node of chain 2020 with a block every 2 s, on which every account has the same balance.
/// `None` if the body is not a call.
fn reply(body: &[u8], started: Instant) -> Option<String> {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
        method: Cow<'a, str>,
    }
    let Call { id, method } = serde_json::from_slice(body).ok()?;
    let result = match &*method {
        "eth_chainId" => r#""0x7e4""#.to_owned(),
        "eth_feeHistory" => {
            let block = 1000 + started.elapsed().as_secs() / 2;
            format!(
                r#"{{"oldestBlock":"{block:#x}","baseFeePerGas":["0x3b9aca00","0x3b9aca00"],"gasUsedRatio":[0.5],"reward":[["0x4a817c800"]]}}"#
            )
        }
        _ => r#""0x8ac7230489e80000""#.to_owned(),
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}
