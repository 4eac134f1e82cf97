//! Forwards a request to one configured upstream and gives what it answers, as it comes or whole.
//!
//! Where a request ends up is decided by the configuration and by path segments that the caller has
//! checked, never by a path. Only the headers named here pass, either way. Every request has one
//! deadline from its start to the last byte of its answer, and a connection of its own: nothing is
//! ever sent twice, and none is lost to a connection that the upstream was just closing.

mod answer;
mod outcomes;
mod request_body;

use std::error::Error;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{Method, Response, StatusCode};
use bytes::Bytes;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use answer::{Answer, Cut};
use outcomes::Outcomes;
pub(crate) use request_body::NoBody;
use request_body::RequestBody;

use crate::clients::{self, Lasting, Purse};
use crate::config::{UpstreamUrl, Verification};
use crate::metrics::Metrics;
use crate::outbound;
use crate::traces::Span;

/// The way to one upstream. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    http: reqwest::Client,
    url: UpstreamUrl,
    timeout: Duration,
    places: Arc<Semaphore>,
    /// A quarter of them, so that one client leaves room for others.
    places_per_client: usize,
    outcomes: Outcomes,
}

/// What requests to one upstream may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// From a request's start to the last byte of its answer.
    pub(crate) timeout: Duration,
    /// Requests under way at one time.
    pub(crate) max_in_flight: NonZeroUsize,
}

/// What is asked of the upstream, its body aside.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    pub(crate) method: Method,
    /// What is asked for, below the configured URL; empty: that URL with a slash at its end. Each is
    /// made of characters that need no escape in a path, and is neither `.` nor `..`.
    pub(crate) segments: &'a [&'a str],
    /// As it stands behind the `?`.
    pub(crate) query: Option<&'a str>,
    /// The client's headers, of which those in [`PASSED_ON`] go on.
    pub(crate) headers: &'a HeaderMap,
    /// Headers that go on, too.
    pub(crate) credentials: &'a [HeaderName],
    /// Whose request it is.
    pub(crate) client: Purse,
}

/// The headers of a request that every upstream gets.
const PASSED_ON: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::ACCEPT, header::ACCEPT_ENCODING];

/// The headers of an answer that the client gets. Its length follows from the body.
const PASSED_BACK: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    HeaderName::from_static("deprecation"),
    header::WARNING,
    header::RETRY_AFTER,
    header::CACHE_CONTROL,
    header::ETAG,
];

/// What a request takes until its answer is delivered, or given up.
#[derive(Debug)]
struct Exchange {
    _place: OwnedSemaphorePermit,
    _place_of_client: clients::Place,
    /// Ends the request's body, however much of it is still to come.
    _is_over: DropGuard,
}

/// Why there is no answer. None of them says anything of the upstream's that a client may not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// As many requests as may be are under way.
    #[error("too many requests under way")]
    Overloaded,
    /// The client has as many of them as one may have.
    #[error("too many requests of this client under way")]
    TooManyOfClient,
    /// The query has a character that it cannot be sent with unchanged.
    #[error("the query cannot be passed on as it is")]
    Query,
    /// The request would leave the configured URL, which its maker has to see to.
    #[error("the request would lead elsewhere")]
    Astray,
    /// No connection could be made.
    #[error("cannot connect")]
    Unreachable,
    /// The connection ended before the beginning of an answer, or all of a short one, was there.
    #[error("the connection failed")]
    Broken,
    /// The request's body broke off, for a reason that its owner knows.
    #[error(transparent)]
    Interrupted(Interrupted),
    /// No answer came before the deadline.
    #[error("no answer within the deadline")]
    Timeout,
    /// An answer that is none.
    #[error("the answer has a status that ends no request")]
    Invalid,
}

/// The end of a request's body before its end. Its owner knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request's body broke off")]
pub(crate) struct Interrupted;

impl Failure {
    /// The kind, from a closed list.
    fn reason(self) -> &'static str {
        match self {
            Self::Overloaded => "overloaded",
            Self::TooManyOfClient => "too_many_of_client",
            Self::Query => "query",
            Self::Astray => "astray",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::Interrupted(_) => "interrupted",
            Self::Timeout => "timeout",
            Self::Invalid => "invalid",
        }
    }
}

impl Proxy {
    /// An upstream that does not accept a connection for this long will not.
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// The way to the upstream at `url`, which is called `name` where it is logged and counted.
    ///
    /// # Errors
    ///
    /// When the TLS backend cannot start.
    pub(crate) fn new(
        name: &'static str,
        url: UpstreamUrl,
        limits: Limits,
        metrics: &Metrics,
    ) -> Result<Self, reqwest::Error> {
        let Limits { timeout, max_in_flight } = limits;
        let connect_timeout = Self::CONNECT_TIMEOUT.min(timeout);
        // No connection is kept: requests are rare, and one that is sent when the upstream just gives
        // its idle connection up could not be sent again.
        let http =
            outbound::http().connect_timeout(connect_timeout).pool_max_idle_per_host(0).build()?;
        let outcomes = Outcomes::new(name, metrics);
        let places = Arc::new(Semaphore::new(max_in_flight.get()));
        let places_per_client = (max_in_flight.get() / 4).max(1);
        let shared = Shared { http, url, timeout, places, places_per_client, outcomes };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The way to the verification service; `None` when none is configured.
    ///
    /// # Errors
    ///
    /// When the TLS backend cannot start.
    pub fn to_verification(
        config: &Verification,
        metrics: &Metrics,
    ) -> Result<Option<Self>, reqwest::Error> {
        let limits = Limits { timeout: config.timeout, max_in_flight: config.max_in_flight };
        let to = |url: &UpstreamUrl| Self::new("verification", url.clone(), limits, metrics);
        config.url.as_ref().map(to).transpose()
    }

    /// Sends one request, with `body` where it has one, and gives the upstream's answer as soon as
    /// its status, headers and first bytes are there; the rest of it comes as it comes, until the
    /// deadline. Dropping the future or the answer ends the request.
    ///
    /// # Errors
    ///
    /// When nothing came that could be the answer.
    pub(crate) async fn forward<B>(
        &self,
        errand: &Errand<'_>,
        body: Option<B>,
    ) -> Result<Response<Answer>, Failure>
    where
        B: Body<Data = Bytes, Error = Interrupted> + Send + Sync + 'static,
    {
        let is_over = CancellationToken::new();
        let body = body.map(|body| RequestBody::new(body, is_over.clone()));
        let body = body.map(reqwest::Body::wrap);
        // A client that leaves takes this future with it.
        let undecided = self.shared.outcomes.begin();
        let mut span = Span::of_errand(&errand.method, self.shared.outcomes.upstream());
        let outcome = self.try_forward(errand, body, is_over.drop_guard()).await;
        match &outcome {
            Ok(answer) => span.got(answer.status()),
            Err(failure) => span.failed(failure.reason()),
        }
        undecided.decide(&outcome);
        outcome
    }

    async fn try_forward(
        &self,
        errand: &Errand<'_>,
        body: Option<reqwest::Body>,
        is_over: DropGuard,
    ) -> Result<Response<Answer>, Failure> {
        let shared = &*self.shared;
        let url = target(&shared.url, errand)?;
        let place = Arc::clone(&shared.places).try_acquire_owned();
        let place = place.map_err(|_| Failure::Overloaded)?;
        let place_of_client = errand.client.take_place(Lasting::Request, shared.places_per_client);
        let exchange = Exchange {
            _place: place,
            _place_of_client: place_of_client.map_err(|_| Failure::TooManyOfClient)?,
            _is_over: is_over,
        };
        let allowed = PASSED_ON.iter().chain(errand.credentials);
        let request = shared.http.request(errand.method.clone(), url);
        let mut request = request.headers(passing(errand.headers, allowed));
        if let Some(body) = body {
            if body.size_hint().exact() == Some(0) {
                // The client library says nothing of a body that is none, and there are servers that
                // do not take a POST so (RFC 9110, section 8.6).
                request = request.header(header::CONTENT_LENGTH, 0);
            }
            request = request.body(body);
        }
        let until = Instant::now() + shared.timeout;
        let mut response = self.within(until, request.send()).await?;
        let status = response.status();
        if status.is_informational() {
            shared.outcomes.failed(Failure::Invalid, None);
            return Err(Failure::Invalid);
        }
        let mut headers = passing(response.headers(), &PASSED_BACK);
        let mut answer = Answer::new(until, exchange, shared.outcomes.cut());
        if matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            answer.has_no_body();
        } else if errand.method == Method::HEAD {
            // There is no body that it could follow from.
            headers.extend(passing(response.headers(), [&header::CONTENT_LENGTH]));
            answer.has_no_body();
        }
        while answer.is_short() {
            match self.within(until, response.chunk()).await? {
                Some(chunk) => answer.append(chunk),
                None => break,
            }
        }
        if !answer.is_short() {
            answer.continue_with(response);
        }
        let mut response = Response::new(answer);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// What `step` comes to before the deadline.
    async fn within<T>(
        &self,
        until: Instant,
        step: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, Failure> {
        let outcomes = &self.shared.outcomes;
        let error = match timeout_at(until, step).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => {
                outcomes.failed(Failure::Timeout, None);
                return Err(Failure::Timeout);
            }
        };
        if let Some(interrupted) = source_of(&error) {
            return Err(Failure::Interrupted(interrupted));
        }
        let failure = if error.is_connect() { Failure::Unreachable } else { Failure::Broken };
        outcomes.failed(failure, Some(error));
        Err(failure)
    }
}

/// That the request's own body is what ended it, if it is.
fn source_of(error: &reqwest::Error) -> Option<Interrupted> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(interrupted) = error.downcast_ref() {
            return Some(*interrupted);
        }
        source = error.source();
    }
    None
}

/// The URL for `errand`.
fn target(base: &UpstreamUrl, errand: &Errand<'_>) -> Result<reqwest::Url, Failure> {
    let base = base.expose();
    let mut url = base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty();
        if errand.segments.is_empty() {
            path.push("");
        }
        path.extend(errand.segments);
    }
    url.set_query(errand.query);
    // Segments that were checked cannot lead anywhere else; should one ever be let through that
    // does, nothing is sent.
    let prefix = base.path().strip_suffix('/').unwrap_or(base.path());
    let rest = url.path().strip_prefix(prefix).and_then(|path| path.strip_prefix('/'));
    let is_below = rest == Some(errand.segments.join("/").as_str())
        && url.scheme() == base.scheme()
        && url.host() == base.host()
        && url.port() == base.port()
        && url.username() == base.username()
        && url.password() == base.password();
    if !is_below {
        tracing::error!("a request that was let through would leave its upstream's URL");
        return Err(Failure::Astray);
    }
    if url.query() == errand.query { Ok(url) } else { Err(Failure::Query) }
}

/// Those of `headers` that are `allowed` and that no `Connection` names, which are for the next hop
/// alone (RFC 9110, section 7.6.1).
fn passing<'a>(
    headers: &HeaderMap,
    allowed: impl IntoIterator<Item = &'a HeaderName>,
) -> HeaderMap {
    let mut passing = HeaderMap::new();
    let connection = headers.get_all(header::CONNECTION);
    let is_of_connection = |name: &HeaderName| {
        let mut options =
            connection.iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
    };
    for name in allowed.into_iter().filter(|name| !is_of_connection(name)) {
        for value in headers.get_all(name) {
            passing.append(name, value.clone());
        }
    }
    passing
}

#[cfg(test)]
mod tests;
