//! Accepts connections and serves HTTP/1.1 on them; TLS and HTTP/2 belong to the edge in front.

use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::App;

/// A pause after a failed accept, so that running out of file descriptors is no busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`; then accepts no more, closes idle connections and returns when the last
/// request under way is answered. Dropping the future cuts all connections.
pub(crate) async fn serve(listener: TcpListener, app: App, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(stream, app.clone(), stop.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = stop.cancelled() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve_connection(stream: TcpStream, app: App, stop: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off Nagle's algorithm");
    }
    let connection = http1::Builder::new()
        // Answers are small: one buffer is cheaper than a list of them.
        .writev(false)
        .serve_connection(TokioIo::new(stream), service_fn(|request| app.answer(request)));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients go away in the middle all the time.
        tracing::debug!(%error, "a connection ended early");
    }
}
