//! The least that an HTTP server in this ecosystem does: what `serving.sh` and `reads.sh` compare with.
//!
//! Usage: `empty_hyper [JSON]`. It answers every request with a 200 on a free loopback port, which it
//! prints: with an empty one, or with that JSON after it has read the request's body.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

async fn answer(
    request: Request<Incoming>,
    json: Bytes,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_json = !json.is_empty();
    let mut response = Response::new(Full::new(json));
    if is_json {
        // One that breaks off ends its connection without the service's help.
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
            let answer = service_fn(|request| answer(request, json.clone()));
            // A client that goes away in the middle is no failure of the server.
            let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}
