//! `GET /v1/{chain}/gas-suggestion/stream` and `GET /v1/gas-suggestions/stream`: suggestions as
//! server-sent events.
//!
//! A subscriber is told the value there is and then of every change. Nothing is kept for one that is slow:
//! when it takes something again, it is told the newest value. The id of an event is the newest block and the
//! entity tag, so who comes back with it is not told the same again.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{FromRef, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use metrics::{Counter, Gauge};
use tokio::sync::watch;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::Endless;
use super::described::{LastEventId, OfEveryRoute, SuggestionStream, UnknownChain, tag};
use super::extract::OfChain;
use super::freshness::Freshness;
use super::problem::Problem;
use crate::book::{Book, Chain, Quote};
use crate::clients::{self, Lasting, Purse};
use crate::config::Limits;
use crate::metrics::Metrics;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Without an event for this long, a comment shows that the stream lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Two numbers of 64 bits, a tag of 16 digits, and dashes. What is longer was never an id of ours.
const LONGEST_ID: usize = 64;

/// Who may be told, and until when. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    book: Book,
    shared: Arc<Shared>,
    /// When this is cancelled the streams end.
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    /// `None`: as many as there are connections.
    places: Option<Arc<Semaphore>>,
    /// Behind a proxy a client's connections are not known, and a stream stands for one of them.
    most_of_client: usize,
    opened: AtomicU64,
    open: Gauge,
    refused: Counter,
    events: Counter,
}

/// One subscriber; to drop it is to be gone.
struct Place {
    shared: Arc<Shared>,
    _held: (clients::Place, Option<OwnedSemaphorePermit>),
}

impl FromRef<Streams> for Book {
    fn from_ref(streams: &Streams) -> Self {
        streams.book.clone()
    }
}

impl Streams {
    pub(super) fn new(
        book: &Book,
        limits: &Limits,
        stop: CancellationToken,
        metrics: &Metrics,
    ) -> Self {
        let most = limits.max_streams;
        let semaphore = || Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        let shared = Shared {
            places: (most > 0).then(semaphore),
            most_of_client: match limits.max_connections_per_client {
                0 => usize::MAX,
                most => most,
            },
            opened: AtomicU64::new(0),
            open: metrics.streams(),
            refused: metrics.streams_refused(),
            events: metrics.stream_events(),
        };
        Self { book: book.clone(), shared: Arc::new(shared), stop }
    }

    fn take_place(&self, client: &Purse) -> Result<Place, Problem> {
        let most_of_client = self.shared.most_of_client;
        let of_client = client.take_place(Lasting::Stream, most_of_client);
        let of_client = of_client.map_err(|_| Problem::too_many_at_a_time());
        let permit =
            self.shared.places.as_ref().map(|places| Arc::clone(places).try_acquire_owned());
        let permit = permit.transpose().map_err(|_| Problem::overloaded());
        let held = of_client
            .and_then(|of_client| Ok((of_client, permit?)))
            .inspect_err(|_| self.shared.refused.increment(1))?;
        self.shared.open.increment(1);
        Ok(Place { shared: Arc::clone(&self.shared), _held: held })
    }

    /// The answer to `client` that goes on with `events`, which are empty once the service stops.
    fn answer(
        &self,
        client: &Purse,
        events: impl Stream<Item = Event> + Send + 'static,
    ) -> Result<Response, Problem> {
        let place = self.take_place(client)?;
        let beginning = Event::default().retry(self.retry());
        let count = self.shared.events.clone();
        let events = events.inspect(move |_| count.increment(1));
        let events = stream::once(async { beginning }).chain(events).map(move |event| {
            let _held = &place;
            Ok::<_, Infallible>(event)
        });
        let mut response =
            Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // nginx would keep events back until it has a buffer of them.
        headers
            .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response.extensions_mut().insert(Endless);
        Ok(response)
    }

    /// When a subscriber is to come back. Each gets another time, so that those of an instance that
    /// stopped do not come all at once.
    fn retry(&self) -> Duration {
        const FIRST_MS: u64 = 2000;
        const SPREAD_MS: u64 = 3000;
        let turn = self.shared.opened.fetch_add(1, Ordering::Relaxed);
        Duration::from_millis(FIRST_MS + turn % SPREAD_MS)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.open.decrement(1);
    }
}

/// The changes of what to pay for gas on one chain
///
/// An event's id is its newest block, a dash and the entity tag.
#[utoipa::path(
    get,
    path = "/v1/{chain}/gas-suggestion/stream",
    operation_id = "streamGasSuggestion",
    tag = tag::GAS,
    params(OfChain, LastEventId),
    responses(OfEveryRoute, SuggestionStream, UnknownChain)
)]
pub(super) async fn of_chain(
    State(streams): State<Streams>,
    OfChain(chain): OfChain,
    request: Request,
) -> Result<Response, Problem> {
    let subscription = Subscription::new(&streams, &chain, String::new(), request.headers());
    let mut response = streams.answer(&Purse::of(&request), subscription.events())?;
    if let Ok(reading) = chain.read() {
        Freshness::of(&chain, &reading).write_label(response.headers_mut());
    }
    Ok(response)
}

/// The changes of what to pay for gas on all chains
///
/// An event's id has the chain id and a dash before that of one chain.
#[utoipa::path(
    get,
    path = "/v1/gas-suggestions/stream",
    operation_id = "streamGasSuggestions",
    tag = tag::GAS,
    params(LastEventId),
    responses(OfEveryRoute, SuggestionStream)
)]
pub(super) async fn of_all(
    State(streams): State<Streams>,
    request: Request,
) -> Result<Response, Problem> {
    let of_chain = |chain: &Chain| {
        let prefix = format!("{}-", chain.config().chain_id);
        Subscription::new(&streams, chain, prefix, request.headers()).events().boxed()
    };
    let events = stream::select_all(streams.book.chains().iter().map(of_chain));
    streams.answer(&Purse::of(&request), events)
}

/// One chain for one subscriber.
struct Subscription {
    chain: Chain,
    changes: watch::Receiver<Option<Arc<Quote>>>,
    stop: CancellationToken,
    /// What the ids of this chain's events begin with.
    prefix: String,
    /// What the subscriber has.
    last_id: Option<String>,
}

impl Subscription {
    /// As `last_id`, `request` has that of the last event that the subscriber was told.
    fn new(streams: &Streams, chain: &Chain, prefix: String, request: &HeaderMap) -> Self {
        let last_id = request.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
        let last_id = last_id.filter(|id| id.len() <= LONGEST_ID).map(str::to_owned);
        let stop = streams.stop.clone();
        Self { chain: chain.clone(), changes: chain.subscribe(), stop, prefix, last_id }
    }

    fn events(self) -> impl Stream<Item = Event> + Send + 'static {
        stream::unfold(self, |mut subscription| async move {
            let event = subscription.next().await?;
            Some((event, subscription))
        })
    }

    /// The next event; `None` when the service stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.news() {
                return Some(event);
            }
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                () = self.stop.cancelled() => return None,
            }
        }
    }

    /// What may be served now, unless the subscriber has it.
    fn news(&mut self) -> Option<Event> {
        let quote = Arc::clone(&self.chain.read().ok()?.observation.quote);
        let tag = quote.etag().to_str().unwrap_or_default().trim_matches('"');
        let id = format!("{}{}-{tag}", self.prefix, quote.newest_block());
        if self.last_id.as_ref() == Some(&id) {
            return None;
        }
        let data = str::from_utf8(quote.body()).expect("JSON is UTF-8");
        let event = Event::default().event("gas-suggestion").id(&id).data(data);
        self.last_id = Some(id);
        Some(event)
    }
}
