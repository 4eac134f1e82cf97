//! What the service adds to the latency of a read that it has to ask a node for.
//!
//! Usage: `reads compare NODE SERVICE ROUNDS PAIRS`, both addresses with a path, asks the node and the
//! service in front of it by turns; it fails unless the median of the differences is under 1 ms.
//! `reads node` is a node that answers at once, on a free loopback port, which it prints.

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

/// What may be added, in microseconds.
const MOST_ADDED: f64 = 1000.0;

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

/// Whether the service adds as little as it should.
fn compare(node: &str, service: &str, rounds: usize, pairs: usize) -> io::Result<bool> {
    let (mut node, mut service) = (Asker::connect(node)?, Asker::connect(service)?);
    // No address is asked for twice, of either of them.
    let mut addresses = 0x1_0000_0000_u64..;
    let mut pair = || {
        let mut next = || addresses.next().unwrap_or_default();
        Ok((node.ask(next())?, service.ask(next())?))
    };
    // The first round finds the connections and caches cold.
    for _ in 0..pairs {
        pair()?;
    }
    println!("round  node: p50     p99  service: p50     p99  added: p50 (µs)");
    let mut medians = Vec::new();
    for round in 1..=rounds {
        let asked = (0..pairs).map(|_| pair()).collect::<io::Result<Vec<_>>>()?;
        let of_node = sorted(asked.iter().map(|(node, _)| *node));
        let of_service = sorted(asked.iter().map(|(_, service)| *service));
        let added = sorted(asked.iter().map(|(node, service)| service - node));
        println!(
            "{round:5}  {:9.0} {:7.0} {:13.0} {:7.0} {:11.0}",
            percentile(&of_node, 50),
            percentile(&of_node, 99),
            percentile(&of_service, 50),
            percentile(&of_service, 99),
            percentile(&added, 50),
        );
        medians.push(percentile(&added, 50));
    }
    let medians = sorted(medians.into_iter());
    let median = percentile(&medians, 50);
    let is_met = median < MOST_ADDED;
    println!(
        "median added {median:.0} µs (from {:.0} to {:.0}); under {MOST_ADDED} µs: {}",
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

/// Of values in ascending order.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let place = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

/// A client with one connection. It does nothing beside waiting, so that little of what it measures is
/// its own.
struct Asker {
    stream: TcpStream,
    address: String,
    path: String,
    answer: Vec<u8>,
}

impl Asker {
    const PATIENCE: Duration = Duration::from_secs(5);

    /// To an address with a path.
    fn connect(target: &str) -> io::Result<Self> {
        let (address, path) = target.split_once('/').unwrap_or((target, ""));
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Self::PATIENCE))?;
        Ok(Self {
            stream,
            address: address.to_owned(),
            path: format!("/{path}"),
            answer: Vec::new(),
        })
    }

    /// How many microseconds it takes until the balance of `account` is there.
    fn ask(&mut self, account: u64) -> io::Result<f64> {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["{account:#042x}","latest"]}}"#
        );
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            body.len()
        );
        self.answer.clear();
        let mut piece = [0; 4096];
        let started = Instant::now();
        self.stream.write_all(request.as_bytes())?;
        while !is_whole(&self.answer) {
            match self.stream.read(&mut piece)? {
                0 => return Err(self.unexpected()),
                count => self.answer.extend(piece.iter().take(count)),
            }
        }
        let elapsed = started.elapsed();
        let has_result = text(&self.answer).is_some_and(|answer| {
            answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"result\":\"0x")
        });
        if !has_result {
            return Err(self.unexpected());
        }
        Ok(elapsed.as_secs_f64() * 1e6)
    }

    fn unexpected(&self) -> io::Error {
        let answer = String::from_utf8_lossy(&self.answer);
        io::Error::other(format!("{} answered {answer:?}", self.address))
    }
}

/// Whether a response with a `Content-Length` has come to its end.
fn is_whole(answer: &[u8]) -> bool {
    let Some((head, body)) = text(answer).and_then(|answer| answer.split_once("\r\n\r\n")) else {
        return false;
    };
    let mut headers = head.lines().filter_map(|line| line.split_once(": "));
    let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    length.and_then(|(_, length)| length.parse().ok()) == Some(body.len())
}

fn text(answer: &[u8]) -> Option<&str> {
    std::str::from_utf8(answer).ok()
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
            let answer = service_fn(|request| answer(request, started));
            // A client that goes away in the middle is no failure of the node.
            let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(
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

/// What a node of chain 2020 with a block every two seconds says; every account has the same balance.
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
