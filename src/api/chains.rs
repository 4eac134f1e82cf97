//! `GET /v1/chains`.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::described::{ListedChains, OfEveryRoute, tag};
use crate::book::{Book, Chain};

/// A configured chain.
#[derive(Serialize, ToSchema)]
#[schema(as = Chain)]
pub(super) struct Entry<'a> {
    /// The key, which is the `{chain}` of the routes.
    chain: &'a str,
    /// The name for people.
    chain_name: &'a str,
    chain_id: u64,
    #[schema(value_type = u64)]
    block_time_ms: u128,
    status: Status,
    /// `null` when there is nothing young enough to be believed.
    #[schema(required)]
    newest_block: Option<u64>,
}

/// Whether there is data of the chain, and how old it is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ChainStatus)]
enum Status {
    Fresh,
    Stale,
    Unavailable,
}

/// The configured chains and how they are
#[utoipa::path(
    get,
    path = "/v1/chains",
    operation_id = "getChains",
    tag = tag::GAS,
    responses(OfEveryRoute, ListedChains)
)]
pub(super) async fn list(State(book): State<Book>) -> Response {
    let entries: Vec<Entry> = book.chains().iter().map(Entry::of).collect();
    ([(header::CACHE_CONTROL, "no-cache")], Json(entries)).into_response()
}

impl<'a> Entry<'a> {
    pub(super) fn of(chain: &'a Chain) -> Self {
        let config = chain.config();
        let reading = chain.read().ok();
        Self {
            chain: &config.key,
            chain_name: config.name(),
            chain_id: config.chain_id,
            block_time_ms: config.block_time.as_millis(),
            status: match &reading {
                Some(reading) if reading.is_stale => Status::Stale,
                Some(_) => Status::Fresh,
                None => Status::Unavailable,
            },
            newest_block: reading.map(|reading| reading.observation.quote.newest_block()),
        }
    }
}
