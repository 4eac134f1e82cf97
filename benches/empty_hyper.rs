//! Minimal hyper server, the baseline of `serving.sh` and `reads.sh`.
//!
//! Usage: `empty_hyper [JSON]`. It prints the free loopback address on which it listens, and responds to every
//! request with an empty 200, or with JSON after reading the request's body.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

async fn respond(
    request: Request<Incoming>,
    json: Bytes,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_json = !json.is_empty();
    let mut response = Response::new(Full::new(json));
    if is_json {
        // hyper closes the connection if the body ends early.
        let _ = request.into_body().collect().await;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
    }
    Ok(response)
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    // cargo adds `--bench`.
    let json = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let json = Bytes::from(json.unwrap_or_default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let json = json.clone();
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            let service = service_fn(|request| respond(request, json.clone()));
            // A client may disconnect at any time.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
