//! An HTTP client that notices when a kept connection was dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use reqwest::header::HeaderMap;
use reqwest::{ClientBuilder, Response, Url};
use serde::Serialize;
use tokio::sync::OnceCell;
use tower::Service;
use tower::layer::layer_fn;

use crate::config::Upstream;
use crate::observe::http_client;

/// A client with a pool of connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct PooledClient {
    http: reqwest::Client,
    /// Number of connections that were opened or are being opened.
    opened: Arc<AtomicU64>,
    upstream: Arc<Upstream>,
    /// Client that keeps no connection. Created when it is first needed, because each client reads the certificates of
    /// the system.
    fresh: Arc<OnceCell<reqwest::Client>>,
}

impl PooledClient {
    /// Creates a client with a pool that `set_pool` describes.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend cannot start.
    pub(super) fn new(
        upstream: &Upstream,
        set_pool: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Self, reqwest::Error> {
        let opened = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&opened);
        let layer =
            layer_fn(move |connector| CountingConnector { connector, opened: Arc::clone(&count) });
        let http = set_pool(http_client::builder(upstream)?).connector_layer(layer).build()?;
        Ok(Self { http, opened, upstream: Arc::new(upstream.clone()), fresh: Arc::default() })
    }

    /// Posts a body as JSON, with `headers` besides the usual ones. If it went over a kept connection that ended without a byte of response, it is sent once
    /// more over a new one: routers and load balancers forget idle connections, which says nothing about the node.
    ///
    /// # Errors
    ///
    /// Fails if there is no response.
    pub(super) async fn post(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: &(impl Serialize + ?Sized),
    ) -> Result<Response, reqwest::Error> {
        let opened = self.opened.load(Ordering::Relaxed);
        let request = |http: &reqwest::Client| http.post(url.clone()).headers(headers.clone());
        let error = match request(&self.http).json(body).send().await {
            Err(error) if self.opened.load(Ordering::Relaxed) == opened => error,
            outcome => return outcome,
        };
        match self.fresh().await {
            Some(fresh) => request(fresh).json(body).send().await,
            None => Err(error),
        }
    }

    async fn fresh(&self) -> Option<&reqwest::Client> {
        let upstream = Arc::clone(&self.upstream);
        let create =
            move || http_client::builder(&upstream).ok()?.pool_max_idle_per_host(0).build().ok();
        let created = async || tokio::task::spawn_blocking(create).await.ok().flatten().ok_or(());
        self.fresh.get_or_try_init(created).await.ok()
    }
}

/// Counts the connections that `connector` is asked for.
#[derive(Debug, Clone)]
struct CountingConnector<S> {
    connector: S,
    opened: Arc<AtomicU64>,
}

impl<S: Service<R>, R> Service<R> for CountingConnector<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, destination: R) -> S::Future {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.connector.call(destination)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Reads one request. Returns false at the end of the connection.
    fn read_request(connection: &mut TcpStream) -> bool {
        let mut request = Vec::new();
        let mut chunk = [0; 1024];
        while !request.ends_with(b"{}") {
            match connection.read(&mut chunk) {
                Ok(0) | Err(_) => return false,
                Ok(length) => request.extend_from_slice(&chunk[..length]),
            }
        }
        true
    }

    /// Starts a node that answers this many requests on each connection, and ends it after reading a further one. Returns
    /// its URL and the number of answers of each connection that ended so.
    fn node(answers: &'static [usize]) -> (Url, mpsc::Receiver<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            for answers in answers {
                let (mut connection, _) = listener.accept().unwrap();
                for _ in 0..*answers {
                    if !read_request(&mut connection) {
                        return;
                    }
                    connection
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
                        .unwrap();
                }
                if read_request(&mut connection) {
                    sender.send(*answers).unwrap();
                }
            }
        });
        (url, ended)
    }

    /// Returns the answers of the next connection that ends.
    fn next(ended: &mpsc::Receiver<usize>) -> usize {
        ended.recv_timeout(Duration::from_secs(20)).expect("a connection ends")
    }

    async fn post(client: &PooledClient, url: &Url) -> Result<String, reqwest::Error> {
        client.post(url, &HeaderMap::new(), &serde_json::json!({})).await?.text().await
    }

    #[tokio::test]
    async fn a_kept_connection_that_was_dead_costs_no_request() {
        let (url, ended) = node(&[1, 1, 1]);
        let client = PooledClient::new(&Upstream::default(), |builder| builder).unwrap();
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        assert_eq!(next(&ended), 1);
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        assert!(ended.try_recv().is_err(), "the second connection was not kept");
    }

    #[tokio::test]
    async fn a_new_connection_that_ends_is_a_failure() {
        let (url, ended) = node(&[0, 0]);
        let client = PooledClient::new(&Upstream::default(), |builder| builder).unwrap();
        assert!(post(&client, &url).await.is_err());
        assert_eq!(next(&ended), 0);
        assert!(ended.try_recv().is_err(), "the request was sent again");
    }

    #[tokio::test]
    async fn a_request_is_repeated_once() {
        let (url, ended) = node(&[1, 0, 0]);
        let client = PooledClient::new(&Upstream::default(), |builder| builder).unwrap();
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        assert!(post(&client, &url).await.is_err());
        assert_eq!([next(&ended), next(&ended)], [1, 0]);
        assert!(ended.try_recv().is_err(), "the request was sent a third time");
    }
}
