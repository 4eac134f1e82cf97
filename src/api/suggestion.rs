//! `GET /v1/{chain}/gas-suggestion` and `GET /v1/gas-suggestions`.

use axum::body::Body;
use axum::extract::{FromRef, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use metrics::Counter;

use super::described::{
    AllSuggestions, IfNoneMatch, NoFees, NotModified, OfEveryRoute, OneSuggestion, UnknownChain,
    tag,
};
use super::extract::OfChain;
use super::freshness::{Freshness, X_NEWEST_BLOCK};
use super::problem::Problem;
use crate::book::{Book, Chain, Quote, Reading, Unavailable};
use crate::etag;
use crate::metrics::Metrics;

/// How many headers a suggestion has at most, those of the layers included.
const HEADERS: usize = 12;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The chains and the counts of what was said of them. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Suggestions {
    book: Book,
    metrics: Metrics,
}

impl Suggestions {
    pub(super) fn new(book: &Book, metrics: &Metrics) -> Self {
        Self { book: book.clone(), metrics: metrics.clone() }
    }
}

impl FromRef<Suggestions> for Book {
    fn from_ref(suggestions: &Suggestions) -> Self {
        suggestions.book.clone()
    }
}

/// The counts of one chain's answers by how fresh they were.
#[derive(Debug)]
pub(super) struct Answers {
    fresh: Counter,
    stalled: Counter,
    old: Counter,
    unavailable: Counter,
}

impl Answers {
    pub(super) fn of(chain: &Chain, metrics: &Metrics) -> Self {
        let of = |freshness| metrics.answers(&chain.config().key, freshness);
        let (fresh, stalled) = (of("fresh"), of("stalled"));
        Self { fresh, stalled, old: of("old"), unavailable: of("unavailable") }
    }

    pub(super) fn count(&self, chain: &Chain, reading: &Result<Reading, Unavailable>) {
        let count = match reading {
            Err(_) => &self.unavailable,
            Ok(reading) if !reading.is_stale => &self.fresh,
            Ok(reading) if reading.age > chain.config().stale_after() => &self.old,
            Ok(_) => &self.stalled,
        };
        count.increment(1);
    }
}

/// What to pay for gas on one chain
///
/// The answer is 304 when the client has it.
#[utoipa::path(
    get,
    path = "/v1/{chain}/gas-suggestion",
    operation_id = "getGasSuggestion",
    tag = tag::GAS,
    params(OfChain, IfNoneMatch),
    responses(OfEveryRoute, OneSuggestion, NotModified, UnknownChain, NoFees)
)]
pub(super) async fn of_chain(
    State(Suggestions { metrics, .. }): State<Suggestions>,
    OfChain(chain): OfChain,
    request: HeaderMap,
) -> Result<Response, Problem> {
    let reading = chain.read();
    Answers::of(&chain, &metrics).count(&chain, &reading);
    let reading = reading.map_err(|why| Problem::unavailable(&chain, why))?;
    let quote = &reading.observation.quote;
    Ok(answer(quote, headers(quote, Freshness::of(&chain, &reading)), &request))
}

/// The headers that belong to `quote` while it is as fresh as that.
pub(super) fn headers(quote: &Quote, freshness: Freshness) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::ETAG, quote.etag().clone());
    headers.insert(X_NEWEST_BLOCK, quote.newest_block().into());
    freshness.write_headers(&mut headers);
    headers
}

/// The answer with these headers, which is 304 where `request` names the quote.
pub(super) fn answer(quote: &Quote, mut headers: HeaderMap, request: &HeaderMap) -> Response {
    let is_known = etag::is_named(quote.etag(), request);
    let mut response = Response::new(Body::empty());
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        headers.remove(header::CONTENT_TYPE);
    } else {
        *response.body_mut() = Body::from(quote.body().clone());
    }
    *response.headers_mut() = headers;
    response
}

/// What to pay for gas on all chains
///
/// Chains that have nothing to serve are left out.
#[utoipa::path(
    get,
    path = "/v1/gas-suggestions",
    operation_id = "getGasSuggestions",
    tag = tag::GAS,
    responses(OfEveryRoute, AllSuggestions)
)]
pub(super) async fn all(State(book): State<Book>) -> Response {
    let readings: Vec<_> =
        book.chains().iter().filter_map(|chain| Some((chain, chain.read().ok()?))).collect();
    let mut body = vec![b'['];
    for (position, (_, reading)) in readings.iter().enumerate() {
        if position > 0 {
            body.push(b',');
        }
        body.extend_from_slice(reading.observation.quote.body());
    }
    body.push(b']');

    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    let freshness = readings.iter().map(|(chain, reading)| Freshness::of(chain, reading));
    match freshness.reduce(Freshness::and) {
        Some(freshness) => freshness.write_headers(headers),
        None => {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
    }
    response
}
