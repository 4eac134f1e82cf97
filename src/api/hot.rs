//! `GET` and `HEAD /v1/{chain}/gas-suggestion`, which is what nearly all requests want, ahead of the
//! router: the router and its layers take several times as long as the answer itself.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::{HeaderMap, HeaderValue, Method, Request};
use axum::response::{IntoResponse, Response};

use super::cors::Cors;
use super::freshness::Freshness;
use super::problem::Problem;
use super::request_id::X_REQUEST_ID;
use super::suggestion::{self, Answers};
use crate::book::{Book, Chain, Quote, Reading};
use crate::metrics::Metrics;

/// The shortcut for all chains of a book.
#[derive(Debug)]
pub(super) struct HotPath {
    /// What comes before `{chain}` in the path.
    prefix: String,
    /// By key and by decimal chain id.
    chains: HashMap<String, Arc<HotChain>>,
}

#[derive(Debug)]
struct HotChain {
    chain: Chain,
    answers: Answers,
    /// Within a second nearly all answers have the same headers, and to copy a map takes a fraction
    /// of filling one.
    last: RwLock<Option<Head>>,
}

/// The headers of an answer, those of CORS included, and what they depend on.
#[derive(Debug)]
struct Head {
    quote: Arc<Quote>,
    freshness: Freshness,
    headers: HeaderMap,
}

impl HotPath {
    /// The shortcut for `book` where the routes live below `base_path`.
    pub(super) fn new(base_path: &str, book: &Book, metrics: &Metrics) -> Self {
        let mut chains = HashMap::new();
        for chain in book.chains() {
            let answers = Answers::of(chain, metrics);
            let hot = HotChain { chain: chain.clone(), answers, last: RwLock::new(None) };
            let hot = Arc::new(hot);
            chains.insert(chain.config().key.clone(), Arc::clone(&hot));
            chains.insert(chain.config().chain_id.to_string(), hot);
        }
        Self { prefix: format!("{base_path}/v1/"), chains }
    }

    /// The answer, or `None` for any other request, which is left to the router: it has the same
    /// route and answers the same.
    pub(super) fn answer<B>(&self, request: &Request<B>, cors: &Cors) -> Option<Response> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        let path = request.uri().path().strip_prefix(self.prefix.as_str())?;
        let hot = self.chains.get(path.strip_suffix("/gas-suggestion")?)?;
        let reading = hot.chain.read();
        hot.answers.count(&hot.chain, &reading);
        let mut response = match reading {
            Ok(reading) => {
                let headers = hot.headers(&reading, cors);
                suggestion::answer(&reading.observation.quote, headers, request.headers())
            }
            Err(why) => {
                let mut response = Problem::unavailable(&hot.chain, why).into_response();
                cors.write_constant(response.headers_mut());
                response
            }
        };
        cors.write_origin(request.headers(), response.headers_mut());
        Some(response)
    }
}

impl HotChain {
    fn headers(&self, reading: &Reading, cors: &Cors) -> HeaderMap {
        let quote = &reading.observation.quote;
        let freshness = Freshness::of(&self.chain, reading);
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(head) = last.as_ref().filter(|head| head.is_of(quote, freshness)) {
            return head.headers.clone();
        }
        drop(last);
        let mut headers = suggestion::headers(quote, freshness);
        cors.write_constant(&mut headers);
        // Every answer gets an id of its own; with a place for it the copies need not grow.
        headers.insert(X_REQUEST_ID, HeaderValue::from_static(""));
        let head = Head { quote: Arc::clone(quote), freshness, headers: headers.clone() };
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = Some(head);
        headers
    }
}

impl Head {
    fn is_of(&self, quote: &Arc<Quote>, freshness: Freshness) -> bool {
        Arc::ptr_eq(&self.quote, quote) && self.freshness == freshness
    }
}
