//! An HTTP client that notices when a kept connection is dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_ok;
use reqwest::header::HeaderMap;
use reqwest::{ClientBuilder, Response, Url};
use serde::Serialize;
use tower::Service;
use tower::layer::layer_fn;

use crate::config::Upstream;
use crate::observe::http_client;

tokio::task_local! {
    /// True once a connection was opened for the request of this task.
    static IS_NEW: Arc<AtomicBool>;
}

/// A client with a pool of connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct PooledClient {
    http: reqwest::Client,
    /// Client that keeps no connection.
    fresh: reqwest::Client,
}

/// How a request that changes nothing is sent once more.
#[derive(Clone, Copy)]
pub(crate) struct Repeat<'a> {
    /// Time without a byte of response after which a kept connection may be dead.
    pub(crate) after: Duration,
    /// Returns false if the request must not be sent once more.
    pub(crate) try_take: &'a (dyn Fn() -> bool + Sync),
    /// True if a kept connection has last answered later than that: the server is slow, and is not asked twice.
    pub(crate) is_slow: &'a AtomicBool,
}

impl Repeat<'_> {
    /// Returns the time after which a kept connection may be dead, for a call with this deadline.
    pub(crate) fn patience(deadline: Duration) -> Duration {
        (deadline / 4).min(Duration::from_secs(1))
    }
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
        let layer = layer_fn(MarkingConnector);
        let http = set_pool(http_client::builder(upstream)?).connector_layer(layer).build()?;
        Ok(Self { http, fresh: http_client::builder(upstream)?.pool_max_idle_per_host(0).build()? })
    }

    /// Posts a body as JSON, with `headers` besides the usual ones. If it went over a kept connection that ended without a
    /// byte of response, it is sent once more over a new one, and if that ends so too, over another: routers and load balancers
    /// forget idle connections, which says nothing about the node. If that connection is silent, both are waited for, and the
    /// first response counts.
    /// Without a `repeat` it is never sent twice, and goes over a new connection.
    ///
    /// # Errors
    ///
    /// Fails if there is no response.
    pub(super) async fn post(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: &(impl Serialize + ?Sized),
        repeat: Option<Repeat<'_>>,
    ) -> Result<Response, reqwest::Error> {
        let request =
            |http: &reqwest::Client| http.post(url.clone()).headers(headers.clone()).json(body);
        let Some(repeat) = repeat else {
            return request(&self.fresh).send().await;
        };
        let is_new = Arc::new(AtomicBool::new(false));
        let mut kept = IS_NEW.scope(Arc::clone(&is_new), request(&self.http).send()).boxed();
        let was_slow = repeat.is_slow.load(Ordering::Relaxed);
        let outcome = tokio::time::timeout(repeat.after, &mut kept).await;
        let is_final = match &outcome {
            Ok(Ok(_)) => true,
            Ok(Err(_)) => is_new.load(Ordering::Relaxed),
            Err(_) => is_new.load(Ordering::Relaxed) || was_slow,
        };
        // A router that forgets connections may take the new one for that which it has just reset, once.
        let fresh = (!is_final && (repeat.try_take)()).then(|| {
            let first = request(&self.fresh);
            let second = first.try_clone();
            async move {
                match (first.send().await, second) {
                    (Err(error), Some(second)) if error.is_request() && !error.is_connect() => {
                        second.send().await
                    }
                    (outcome, _) => outcome,
                }
            }
        });
        let late = kept.inspect(|outcome| {
            let is_slow = outcome.is_ok() && !is_new.load(Ordering::Relaxed);
            repeat.is_slow.store(is_slow, Ordering::Relaxed);
        });
        match (outcome, fresh) {
            (Err(_), Some(fresh)) => {
                select_ok([late.boxed(), fresh.boxed()]).await.map(|(first, _)| first)
            }
            (Err(_), None) => late.await,
            (Ok(Err(_)), Some(fresh)) => fresh.await,
            (Ok(outcome), _) => outcome,
        }
    }
}

/// Marks the request of the task that asks `connector` for a connection.
#[derive(Debug, Clone)]
struct MarkingConnector<S>(S);

impl<S: Service<R>, R> Service<R> for MarkingConnector<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, destination: R) -> S::Future {
        // The library may connect for later requests too.
        let _ = IS_NEW.try_with(|is_new| is_new.store(true, Ordering::Relaxed));
        self.0.call(destination)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;

    use parking_lot::Mutex;

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

    /// Reaction of a node to the first request of a connection that it does not answer.
    #[derive(Clone, Copy, PartialEq)]
    enum Last {
        /// It ends the connection.
        End,
        /// It never answers.
        Silence,
        /// It answers once it has read a request on the next connection.
        LateAnswer,
    }

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

    /// Starts a node that answers this many requests on each connection, and reads a further one. Returns its URL and the
    /// number of answers of each connection that had a further one.
    fn node(answers: &'static [usize], last: Last) -> (Url, mpsc::Receiver<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let (sender, ended) = mpsc::channel();
        let silent = Arc::new(Mutex::new(Vec::new()));
        std::thread::spawn(move || {
            for answers in answers {
                let (connection, _) = listener.accept().unwrap();
                let (sender, silent) = (sender.clone(), Arc::clone(&silent));
                std::thread::spawn(move || {
                    let Some(connection) = serve(connection, *answers) else { return };
                    sender.send(*answers).unwrap();
                    let mut silent = silent.lock();
                    if last == Last::LateAnswer {
                        silent
                            .drain(..)
                            .for_each(|mut it: TcpStream| it.write_all(ANSWER).unwrap());
                    }
                    if last != Last::End {
                        silent.push(connection);
                    }
                });
            }
        });
        (url, ended)
    }

    /// Answers this many requests. Returns the connection after a further one.
    fn serve(mut connection: TcpStream, answers: usize) -> Option<TcpStream> {
        for _ in 0..answers {
            if !read_request(&mut connection) {
                return None;
            }
            connection.write_all(ANSWER).unwrap();
        }
        read_request(&mut connection).then_some(connection)
    }

    /// Returns the answers of the next connection that ends.
    fn next(ended: &mpsc::Receiver<usize>) -> usize {
        ended.recv_timeout(Duration::from_secs(20)).expect("a connection ends")
    }

    async fn post(client: &PooledClient, url: &Url) -> Result<String, reqwest::Error> {
        post_with(client, url, Duration::from_secs(20), &AtomicBool::default()).await
    }

    async fn post_with(
        client: &PooledClient,
        url: &Url,
        after: Duration,
        is_slow: &AtomicBool,
    ) -> Result<String, reqwest::Error> {
        let repeat = Some(Repeat { after, try_take: &|| true, is_slow });
        let (headers, body) = (HeaderMap::new(), serde_json::json!({}));
        let response = client.post(url, &headers, &body, repeat);
        let response = tokio::time::timeout(Duration::from_secs(20), response).await;
        response.expect("a response or an error")?.text().await
    }

    #[tokio::test]
    async fn a_kept_connection_that_was_dead_costs_no_request() {
        let (url, ended) = node(&[1, 1, 1], Last::End);
        let client = PooledClient::new(&Upstream::default(), |builder| builder).unwrap();
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        assert_eq!(next(&ended), 1);
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        assert!(ended.try_recv().is_err(), "the second connection was not kept");
    }

    #[tokio::test]
    async fn a_new_connection_that_ends_is_a_failure() {
        let (url, ended) = node(&[0, 0], Last::End);
        let client = PooledClient::new(&Upstream::default(), |builder| builder).unwrap();
        assert!(post(&client, &url).await.is_err());
        assert_eq!(next(&ended), 0);
        assert!(ended.try_recv().is_err(), "the request was sent again");
    }

    #[tokio::test]
    async fn a_request_is_repeated_twice_at_most() {
        let (url, ended) = node(&[1, 0, 0, 0], Last::End);
        let client = PooledClient::new(&Upstream::default(), |builder| builder).unwrap();
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        assert!(post(&client, &url).await.is_err());
        assert_eq!([next(&ended), next(&ended), next(&ended)], [1, 0, 0]);
        assert!(ended.try_recv().is_err(), "the request was sent a fourth time");
    }

    const SOON: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_silent_kept_connection_is_not_waited_for() {
        let (url, ended) = node(&[1, 1], Last::Silence);
        let client = PooledClient::new(&Upstream::default(), |builder| builder).unwrap();
        let is_slow = AtomicBool::default();
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        assert_eq!(post_with(&client, &url, SOON, &is_slow).await.unwrap(), "{}");
        assert_eq!((next(&ended), is_slow.into_inner()), (1, false));
    }

    #[tokio::test]
    async fn a_slow_server_is_asked_twice_once() {
        let (url, ended) = node(&[1, 0], Last::LateAnswer);
        let client = PooledClient::new(&Upstream::default(), |builder| builder).unwrap();
        let is_slow = AtomicBool::default();
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        assert_eq!(post_with(&client, &url, SOON, &is_slow).await.unwrap(), "{}");
        assert_eq!([next(&ended), next(&ended)], [1, 0]);
        assert!(is_slow.load(Ordering::Relaxed));
        let (url, ended) = node(&[1, 0], Last::Silence);
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        let slow = post_with(&client, &url, SOON, &is_slow);
        assert!(tokio::time::timeout(10 * SOON, slow).await.is_err());
        assert_eq!(next(&ended), 1);
        assert!(ended.try_recv().is_err(), "the request was sent again");
    }

    #[tokio::test]
    async fn a_request_that_changes_something_is_sent_once_over_a_new_connection() {
        let (url, ended) = node(&[2, 0, 0], Last::End);
        let client = PooledClient::new(&Upstream::default(), |builder| builder).unwrap();
        assert_eq!(post(&client, &url).await.unwrap(), "{}");
        let body = serde_json::json!({});
        assert!(client.post(&url, &HeaderMap::new(), &body, None).await.is_err());
        assert_eq!(next(&ended), 0);
        assert!(ended.try_recv().is_err(), "the request was sent again");
    }
}
