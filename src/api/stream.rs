//! `GET /v1/{chain}/gas-suggestion/stream` and `GET /v1/gas-suggestions/stream`: suggestions as server-sent events.
//!
//! A subscriber receives the current value, then every change. Nothing is queued for a slow client: when it reads
//! again, it receives the newest value. The id of an event is the newest block and the entity tag, so a client that
//! reconnects with it does not receive the same value again. An event without an id follows each change of the chain's
//! status, also of one that comes with time.
//!
//! Widely used readers take each empty line for the end of an event, with or without data. So the stream has none
//! besides those of events: the reconnect delay belongs to the first event, and a comment is one line.

mod event;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{self, Stream, StreamExt};
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;
use tokio::sync::watch;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::freshness::{Freshness, rfc3339};
use crate::api::extractors::{ChainParam, charge_for_list};
use crate::config::Limits;
use crate::http::client_limits::{ClientHandle, Slot, SlotKind};
use crate::http::problem::Problem;
use crate::http::query::QueryReader;
use crate::observe::memory_budget::{MemoryBudget, Reservation};
use crate::observe::metrics::{Counter, Metrics};
use crate::store::{ChainState, ChainStore, LatestState, Snapshot, StoredChain};
use event::{LastEventId, LastEventIdQuery, StreamEvent};

/// A stream of this many chains costs a further request: each begins with an event of its own.
const CHAINS_PER_REQUEST: usize = 8;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Names of the query parameter that stands for the header: a browser sends the header itself alone.
const LAST_EVENT_ID_PARAMETERS: [&str; 2] = ["lastEventId", "Last-Event-ID"];

/// Interval of keep-alive comments on an idle stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A comment. An empty line behind it would be an event for some readers.
const COMMENT: &str = ":\n";

/// Upper bound of event ids: two 64-bit numbers, a tag of 16 digits, and dashes. A longer id is not from this service.
const MAX_EVENT_ID_BYTES: usize = 64;

/// Limits and shutdown signal of streams. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SuggestionStreams {
    permits: Arc<Semaphore>,
    /// Streams per client: as many as it may have connections, which are unknown for clients behind a proxy.
    max_per_client: usize,
    opened_total: Arc<AtomicU64>,
    /// Budget that open streams are charged to.
    memory: MemoryBudget,
    /// The streams end when this is cancelled.
    pub(crate) shutdown: CancellationToken,
    open_gauge: Gauge,
    rejected: Counter,
    events: Counter,
}

/// Permit of one subscriber. Dropping it releases its slots and decrements the gauge of open streams.
pub(crate) struct StreamPermit {
    open_gauge: Gauge,
    _permits: (Option<Slot>, OwnedSemaphorePermit),
    _reservation: Reservation,
}

impl SuggestionStreams {
    pub(crate) fn new(
        limits: &Limits,
        memory: &MemoryBudget,
        shutdown: CancellationToken,
        metrics: &Metrics,
    ) -> Self {
        // 0 stands for no limit.
        let or_unlimited = |limit: usize, unlimited| if limit == 0 { unlimited } else { limit };
        let max_streams = or_unlimited(limits.max_streams, Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(max_streams.min(Semaphore::MAX_PERMITS))),
            max_per_client: or_unlimited(limits.max_connections_per_client, usize::MAX),
            opened_total: Arc::default(),
            memory: memory.clone(),
            shutdown,
            open_gauge: metrics.streams.clone(),
            rejected: metrics.streams_refused_total.clone(),
            events: metrics.stream_events_total.clone(),
        }
    }

    /// Counts a stream of this many chains.
    pub(crate) fn acquire(
        &self,
        client: &ClientHandle,
        chains: usize,
    ) -> Result<StreamPermit, Problem> {
        self.try_acquire(client, chains).inspect_err(|_| self.rejected.increment())
    }

    fn try_acquire(&self, client: &ClientHandle, chains: usize) -> Result<StreamPermit, Problem> {
        /// A stream holds 0.35 KiB per chain (measured).
        const BYTES_PER_CHAIN: usize = 512;
        let client_permit = client
            .acquire(SlotKind::Stream, self.max_per_client)
            .map_err(|_| Problem::too_many_concurrent())?;
        let stream_permit =
            Arc::clone(&self.permits).try_acquire_owned().map_err(|_| Problem::overloaded())?;
        let reservation = self.memory.try_charge(chains.saturating_mul(BYTES_PER_CHAIN))?;
        self.open_gauge.inc();
        Ok(StreamPermit {
            open_gauge: self.open_gauge.clone(),
            _permits: (client_permit, stream_permit),
            _reservation: reservation,
        })
    }

    /// Builds the response to `client` from `events` of this many chains, which end at shutdown.
    fn stream_response(
        &self,
        client: &ClientHandle,
        chains: usize,
        events: impl Stream<Item = String> + Send + Unpin + 'static,
    ) -> Result<Response, Problem> {
        let event_count = self.events.clone();
        let stream = EventStream {
            events: events.inspect(move |_| event_count.increment()),
            beginning: Some(format!("retry: {}\n", self.retry_delay().as_millis())),
            shutdown: self.shutdown.clone(),
            _permit: self.acquire(client, chains)?,
        };
        let chunks = stream::unfold(stream, |mut stream| async move {
            let chunk = stream.next_chunk().await?;
            Some((Ok::<_, Infallible>(Bytes::from(chunk)), stream))
        });
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            // An intermediary that compresses would hold events back.
            (header::CACHE_CONTROL, "no-store, no-transform"),
            // Otherwise nginx buffers events.
            (HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
        Ok((headers, Body::from_stream(chunks)).into_response())
    }

    /// Returns the reconnect delay of a subscriber: 2 to 5 s, a millisecond more for each new stream, so that the
    /// subscribers of a stopped instance do not all reconnect at once.
    fn retry_delay(&self) -> Duration {
        const MIN_RETRY_MS: u64 = 2000;
        const RETRY_SPREAD_MS: u64 = 3000;
        let sequence = self.opened_total.fetch_add(1, Ordering::Relaxed);
        Duration::from_millis(MIN_RETRY_MS + sequence % RETRY_SPREAD_MS)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.open_gauge.dec();
    }
}

/// Bytes of one response: the events, and comments between them.
struct EventStream<S> {
    events: S,
    /// The line before the first event. `None`: it was sent.
    beginning: Option<String>,
    shutdown: CancellationToken,
    _permit: StreamPermit,
}

impl<S: Stream<Item = String> + Unpin> EventStream<S> {
    /// Returns the next bytes: an event or a comment. `None` at shutdown.
    async fn next_chunk(&mut self) -> Option<String> {
        if let Some(mut beginning) = self.beginning.take() {
            // The block that this line begins stays open until there is an event.
            let event = self.events.next().now_or_never().flatten();
            beginning.push_str(&event.unwrap_or_default());
            return Some(beginning);
        }
        tokio::select! {
            biased;
            event = self.events.next() => event,
            () = self.shutdown.cancelled() => None,
            () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => Some(COMMENT.to_owned()),
        }
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
    extensions(("x-mcp" = json!(false))),
    params(ChainParam, LastEventId, LastEventIdQuery),
    responses(
        (status = 200,
            description = "An endless stream of server-sent events. `retry` is in the first one, and a comment line follows 15 s without an event. The schema describes one event.",
            content_type = "text/event-stream", body = StreamEvent,
            headers(("Cache-Control"), ("X-Stale"), ("X-Accel-Buffering"))),
    )
)]
pub(crate) async fn stream_suggestion(
    State(streams): State<SuggestionStreams>,
    ChainParam(chain): ChainParam,
    request: Request,
) -> Result<Response, Problem> {
    let subscription = Subscription::new(&chain, String::new(), last_event_id(&request));
    let client = ClientHandle::from_request(&request);
    let mut response = streams.stream_response(&client, 1, subscription.events().boxed())?;
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
    extensions(("x-mcp" = json!(false))),
    params(LastEventId, LastEventIdQuery),
    responses(
        (status = 200,
            description = "An endless stream of server-sent events. `retry` is in the first one, and a comment line follows 15 s without an event. The schema describes one event.",
            content_type = "text/event-stream", body = StreamEvent,
            headers(("Cache-Control"), ("X-Stale"), ("X-Accel-Buffering"))),
    )
)]
pub(crate) async fn stream_all_suggestions(
    State(store): State<ChainStore>,
    State(streams): State<SuggestionStreams>,
    request: Request,
) -> Result<Response, Problem> {
    let last_id = last_event_id(&request);
    let chain_events = |chain: &StoredChain| {
        let prefix = format!("{}-", chain.config().chain_id);
        Subscription::new(chain, prefix, last_id.clone()).events().boxed()
    };
    let chains = store.chains();
    let client = ClientHandle::from_request(&request);
    charge_for_list(&client, chains.len(), CHAINS_PER_REQUEST)?;
    let events = stream::select_all(chains.iter().map(chain_events));
    streams.stream_response(&client, chains.len(), events)
}

/// Returns the id of the last event that the client received, from the header, else from the query.
fn last_event_id(request: &Request) -> Option<String> {
    let id = if let Some(id) = request.headers().get(LAST_EVENT_ID) {
        id.to_str().ok()?.to_owned()
    } else {
        let mut pairs = QueryReader::new(request.uri().query()).ok()?.pairs.into_iter();
        pairs.rfind(|(name, _)| LAST_EVENT_ID_PARAMETERS.contains(&name.as_str()))?.1?
    };
    (1..=MAX_EVENT_ID_BYTES).contains(&id.len()).then_some(id)
}

/// Subscription of one client to one chain.
struct Subscription {
    chain: StoredChain,
    changes: watch::Receiver<LatestState>,
    /// Prefix of the ids of this chain's events.
    id_prefix: String,
    /// Id of the value that the subscriber has.
    last_id: Option<String>,
    /// State of the chain that the subscriber knows of.
    known_state: ChainState,
}

/// Data of an event for a changed status, with the members of `/v1/chains`.
#[derive(Serialize, ToSchema)]
pub(crate) struct StateChange<'a> {
    /// The key of the chain.
    chain: &'a str,
    status: &'static str,
    #[schema(required)]
    reason: Option<&'static str>,
    /// Time of the newest reply that was accepted.
    #[schema(required, format = DateTime)]
    observed_at: Option<String>,
}

impl Subscription {
    /// Creates a subscription of a subscriber that has the value with the id `last_id`.
    fn new(chain: &StoredChain, id_prefix: String, last_id: Option<String>) -> Self {
        let changes = chain.subscribe();
        let known_state = match chain.state() {
            // The subscriber of a chain without data waits for the first value.
            ChainState::NoData if last_id.is_none() => ChainState::NoData,
            _ => ChainState::Fresh,
        };
        Self { chain: chain.clone(), changes, id_prefix, last_id, known_state }
    }

    /// Returns the events from the current value on. They never end.
    fn events(self) -> impl Stream<Item = String> + Send + 'static {
        stream::unfold(self, |mut subscription| async move {
            loop {
                if let Some(event) = subscription.unsent_event() {
                    return Some((event, subscription));
                }
                subscription.changes.changed().await.ok()?;
            }
        })
    }

    /// Returns an event with what the subscriber does not have: the current value, or else the status.
    fn unsent_event(&mut self) -> Option<String> {
        let current = self.chain.servable_snapshot();
        let suggestion =
            current.as_ref().ok().and_then(|current| self.unsent_suggestion(&current.snapshot));
        suggestion.or_else(|| self.unsent_status(ChainState::new(&current)))
    }

    fn unsent_suggestion(&mut self, snapshot: &Snapshot) -> Option<String> {
        let tag = snapshot.etag.to_str().unwrap_or_default().trim_matches('"');
        let id = format!("{}{}-{tag}", self.id_prefix, snapshot.newest_block);
        if self.last_id.as_ref() == Some(&id) {
            return None;
        }
        let data = str::from_utf8(&snapshot.body).expect("JSON is UTF-8");
        let event = ["event: gas-suggestion\nid: ", &id, "\ndata: ", data, "\n\n"].concat();
        self.last_id = Some(id);
        Some(event)
    }

    fn unsent_status(&mut self, state: ChainState) -> Option<String> {
        if self.known_state == state {
            return None;
        }
        self.known_state = state;
        let newest = self.chain.newest_snapshot();
        let observed_at = newest.map(|newest| rfc3339(newest.observed_time));
        let change = StateChange {
            chain: &self.chain.config().key,
            status: state.status(),
            reason: state.reason(),
            observed_at,
        };
        let data = serde_json::to_string(&change).expect("a struct of strings serialises");
        Some(["event: status\ndata: ", &data, "\n\n"].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_events_has_a_comment_every_15_s() {
        let memory = MemoryBudget::new(1024 * 1024);
        let shutdown = CancellationToken::new();
        let (limits, metrics) = (Limits::default(), Metrics::new());
        let streams = SuggestionStreams::new(&limits, &memory, shutdown.clone(), &metrics);
        let permit = streams.acquire(&ClientHandle::default(), 1).unwrap();
        let events = stream::pending();
        let mut stream = EventStream { events, beginning: None, shutdown, _permit: permit };
        for _ in 0..2 {
            let began = tokio::time::Instant::now();
            // An empty line behind it would be an event.
            assert_eq!(stream.next_chunk().await.as_deref(), Some(":\n"));
            assert_eq!(began.elapsed(), Duration::from_secs(15));
        }
    }
}
