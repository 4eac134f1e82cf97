//! hyper with the service's response: the baseline of `serving.sh` for what the service itself costs.
//!
//! Usage: `bare_hyper FILE`. FILE is a response as `curl --include` prints it. The program prints the free loopback address on
//! which it listens, and answers every request with the same headers and body. As in the service, each processor has a
//! single-threaded runtime, a connection stays on one, and waits for its next request with a deadline.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};

/// Deadline for the headers of the next request; the service's default.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);

/// Limit of hyper's buffers; that of the service.
const BUFFER_BYTES: usize = 32 * 1024;

/// Headers and body of each response.
#[derive(Clone)]
struct Answer {
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    /// Reads a response. hyper adds the headers that depend on the time and the connection.
    fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(path).expect("FILE is readable");
        let (head, body) = text.split_once("\r\n\r\n").expect("FILE has a head and a body");
        let mut headers = HeaderMap::new();
        for line in head.lines().skip(1) {
            let (name, value) = line.split_once(": ").expect("each line is a header");
            let name: HeaderName = name.parse().expect("names are valid");
            if ![CONTENT_LENGTH, DATE, TRANSFER_ENCODING].contains(&name) {
                let value = HeaderValue::from_maybe_shared(Bytes::from(value.to_owned()));
                headers.append(name, value.expect("values are valid"));
            }
        }
        Self { headers, body: Bytes::from(body.to_owned()) }
    }

    fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body.clone()));
        *response.headers_mut() = self.headers.clone();
        response
    }
}

/// Starts a thread with a runtime that serves connections.
fn start_thread() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    Ok(handle)
}

async fn serve(stream: std::net::TcpStream, answer: Answer) {
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let service = |_: Request<Incoming>| {
        let response = answer.response();
        async move { Ok::<_, Infallible>(response) }
    };
    // A client may disconnect at any time.
    let _ = http1::Builder::new()
        .writev(false)
        .max_buf_size(BUFFER_BYTES)
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service_fn(service))
        .await;
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).expect("usage: bare_hyper FILE");
    let answer = Answer::read(&path);
    let count = std::thread::available_parallelism()?.get();
    let threads = (0..count).map(|_| start_thread()).collect::<std::io::Result<Vec<_>>>()?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    for thread in threads.iter().cycle() {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        thread.spawn(serve(stream, answer.clone()));
    }
    Ok(())
}
