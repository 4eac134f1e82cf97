//! `GET /v1/{chain}/gas-suggestion/stream` and `GET /v1/gas-suggestions/stream`: suggestions as server-sent events.
//!
//! A subscriber receives the current value, then every change. Nothing is queued for a slow client: when it reads
//! again, it receives the newest value. The id of an event is the newest block and the entity tag, so a client that
//! reconnects with it does not receive the same value again.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{FromRef, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::extractors::ChainParam;
use super::freshness::Freshness;
use super::openapi::components::{CommonErrors, LastEventId, UnknownChain};
use super::openapi::schemas::SuggestionEvent;
use super::problem::Problem;
use crate::client_limits::{self, ClientHandle, LongRequestKind};
use crate::config::Limits;
use crate::memory_budget::{MemoryBudget, Reservation};
use crate::metrics::{Counter, Metrics};
use crate::store::{ChainStore, LatestState, StoredChain};

/// A stream of this many chains costs a further request: each begins with an event of its own.
const CHAINS_PER_REQUEST: usize = 8;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Interval of keep-alive comments on an idle stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Upper bound of event ids: two 64-bit numbers, a tag of 16 digits, and dashes. A longer id is not from this service.
const MAX_EVENT_ID_BYTES: usize = 64;

/// Permits and shutdown signal of streams. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct SuggestionStreams {
    store: ChainStore,
    inner: Arc<Inner>,
    /// Budget that open streams are charged to.
    memory: MemoryBudget,
    /// The streams end when this is cancelled.
    shutdown: CancellationToken,
}

#[derive(Debug)]
struct Inner {
    /// `None`: no limit besides the number of connections.
    permits: Option<Arc<Semaphore>>,
    /// Streams per client: as many as it may have connections, which are unknown for clients behind a proxy.
    max_per_client: usize,
    opened_total: AtomicU64,
    open_gauge: Gauge,
    rejected: Counter,
    events: Counter,
}

/// Permit of one subscriber. Dropping it releases its slots and decrements the gauge of open streams.
struct StreamPermit {
    inner: Arc<Inner>,
    _permits: (client_limits::ConcurrencyPermit, Option<OwnedSemaphorePermit>),
    _reservation: Reservation,
}

impl FromRef<SuggestionStreams> for ChainStore {
    fn from_ref(streams: &SuggestionStreams) -> Self {
        streams.store.clone()
    }
}

impl SuggestionStreams {
    pub(super) fn new(
        store: &ChainStore,
        limits: &Limits,
        memory: &MemoryBudget,
        shutdown: CancellationToken,
        metrics: &Metrics,
    ) -> Self {
        let max_streams = limits.max_streams;
        let semaphore = || Arc::new(Semaphore::new(max_streams.min(Semaphore::MAX_PERMITS)));
        let inner = Inner {
            permits: (max_streams > 0).then(semaphore),
            max_per_client: match limits.max_connections_per_client {
                0 => usize::MAX,
                most => most,
            },
            opened_total: AtomicU64::new(0),
            open_gauge: metrics.streams.clone(),
            rejected: metrics.streams_refused_total.clone(),
            events: metrics.stream_events_total.clone(),
        };
        Self { store: store.clone(), inner: Arc::new(inner), memory: memory.clone(), shutdown }
    }

    fn acquire(&self, client: &ClientHandle, chains: usize) -> Result<StreamPermit, Problem> {
        /// A stream holds 0.43 KiB per chain (measured).
        const BYTES_PER_CHAIN: usize = 512;
        let max_per_client = self.inner.max_per_client;
        let client_permit = client.acquire(LongRequestKind::Stream, max_per_client);
        let client_permit = client_permit.map_err(|_| Problem::too_many_concurrent());
        let stream_permit =
            self.inner.permits.as_ref().map(|permits| Arc::clone(permits).try_acquire_owned());
        let stream_permit = stream_permit.transpose().map_err(|_| Problem::overloaded());
        let bytes = chains.saturating_mul(BYTES_PER_CHAIN);
        let reservation = self.memory.try_charge(bytes).map_err(|_| Problem::overloaded());
        let (permits, reservation) = client_permit
            .and_then(|of_client| Ok(((of_client, stream_permit?), reservation?)))
            .inspect_err(|_| self.inner.rejected.increment())?;
        self.inner.open_gauge.inc();
        let inner = Arc::clone(&self.inner);
        Ok(StreamPermit { inner, _permits: permits, _reservation: reservation })
    }

    /// Builds the response to `client` from `events` of this many chains, which end at shutdown.
    fn stream_response(
        &self,
        client: &ClientHandle,
        chains: usize,
        events: impl Stream<Item = Event> + Send + 'static,
    ) -> Result<Response, Problem> {
        let permit = self.acquire(client, chains)?;
        let retry_event = Event::default().retry(self.retry_delay());
        let count = self.inner.events.clone();
        let events = events.inspect(move |_| count.increment());
        let events = stream::once(async { retry_event }).chain(events).map(move |event| {
            let _permit = &permit;
            Ok::<_, Infallible>(event)
        });
        let mut response = Sse::new(events)
            .keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL))
            .into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Otherwise nginx buffers events.
        headers
            .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        Ok(response)
    }

    /// Returns the reconnect delay of a subscriber: 2 to 5 s, a millisecond more for each new stream, so that the
    /// subscribers of a stopped instance do not all reconnect at once.
    fn retry_delay(&self) -> Duration {
        const MIN_RETRY_MS: u64 = 2000;
        const RETRY_SPREAD_MS: u64 = 3000;
        let sequence = self.inner.opened_total.fetch_add(1, Ordering::Relaxed);
        Duration::from_millis(MIN_RETRY_MS + sequence % RETRY_SPREAD_MS)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.inner.open_gauge.dec();
    }
}

/// Stream of the suggestion of one chain
///
/// An event's id is its newest block, a dash and the entity tag.
#[utoipa::path(
    get,
    path = "/v1/{chain}/gas-suggestion/stream",
    operation_id = "streamGasSuggestion",
    tag = "Gas",
    params(ChainParam, LastEventId),
    responses(
        CommonErrors, UnknownChain,
        (status = 200,
            description = "An endless stream of server-sent events. `retry` is sent once, and a comment line after 15 s without an event. The schema describes one event.",
            content_type = "text/event-stream", body = SuggestionEvent,
            headers(("Cache-Control"), ("X-Stale"), ("X-Accel-Buffering"))),
    )
)]
pub(super) async fn stream_suggestion(
    State(streams): State<SuggestionStreams>,
    ChainParam(chain): ChainParam,
    request: Request,
) -> Result<Response, Problem> {
    let subscription = Subscription::new(&streams, &chain, String::new(), request.headers());
    let mut response =
        streams.stream_response(&ClientHandle::from_request(&request), 1, subscription.events())?;
    if let Ok(current) = chain.servable_snapshot() {
        Freshness::from_snapshot(&chain, &current).write_stale_header(response.headers_mut());
    }
    Ok(response)
}

/// Stream of the suggestions of all chains
///
/// An event's id is that of the chain's own stream, with the chain id and a dash before it.
#[utoipa::path(
    get,
    path = "/v1/gas-suggestions/stream",
    operation_id = "streamGasSuggestions",
    tag = "Gas",
    params(LastEventId),
    responses(
        CommonErrors,
        (status = 200,
            description = "An endless stream of server-sent events. `retry` is sent once, and a comment line after 15 s without an event. The schema describes one event.",
            content_type = "text/event-stream", body = SuggestionEvent,
            headers(("Cache-Control"), ("X-Stale"), ("X-Accel-Buffering"))),
    )
)]
pub(super) async fn stream_all_suggestions(
    State(streams): State<SuggestionStreams>,
    request: Request,
) -> Result<Response, Problem> {
    let chain_events = |chain: &StoredChain| {
        let prefix = format!("{}-", chain.config().chain_id);
        Subscription::new(&streams, chain, prefix, request.headers()).events().boxed()
    };
    let chains = streams.store.chains();
    let client = ClientHandle::from_request(&request);
    client.check_rate(chains.len() / CHAINS_PER_REQUEST).map_err(Problem::rate_limited)?;
    let events = stream::select_all(chains.iter().map(chain_events));
    streams.stream_response(&client, chains.len(), events)
}

/// Subscription of one client to one chain.
struct Subscription {
    chain: StoredChain,
    changes: watch::Receiver<LatestState>,
    shutdown: CancellationToken,
    /// Prefix of the ids of this chain's events.
    id_prefix: String,
    /// Id of the value that the subscriber has.
    last_id: Option<String>,
}

impl Subscription {
    /// Creates a subscription; the `Last-Event-ID` of `request` is the subscriber's last event.
    fn new(
        streams: &SuggestionStreams,
        chain: &StoredChain,
        id_prefix: String,
        headers: &HeaderMap,
    ) -> Self {
        let last_id = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
        let last_id = last_id.filter(|id| id.len() <= MAX_EVENT_ID_BYTES).map(str::to_owned);
        let shutdown = streams.shutdown.clone();
        Self { chain: chain.clone(), changes: chain.subscribe(), shutdown, id_prefix, last_id }
    }

    fn events(self) -> impl Stream<Item = Event> + Send + 'static {
        stream::unfold(self, |mut subscription| async move {
            let event = subscription.next_event().await?;
            Some((event, subscription))
        })
    }

    /// Returns the next event. `None` at shutdown.
    async fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.unsent_event() {
                return Some(event);
            }
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                () = self.shutdown.cancelled() => return None,
            }
        }
    }

    /// Returns the current value as an event, or `None` if the subscriber has it.
    fn unsent_event(&mut self) -> Option<Event> {
        let snapshot = self.chain.servable_snapshot().ok()?.snapshot;
        let tag = snapshot.etag.to_str().unwrap_or_default().trim_matches('"');
        let id = format!("{}{}-{tag}", self.id_prefix, snapshot.newest_block);
        if self.last_id.as_ref() == Some(&id) {
            return None;
        }
        let data = str::from_utf8(&snapshot.body).expect("JSON is UTF-8");
        let event = Event::default().event("gas-suggestion").id(&id).data(data);
        self.last_id = Some(id);
        Some(event)
    }
}
