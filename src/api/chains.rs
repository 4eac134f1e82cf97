//! `GET /v1/chains`.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::book::{Book, Chain};

#[derive(Serialize)]
struct Entry<'a> {
    chain: &'a str,
    chain_name: &'a str,
    chain_id: u64,
    block_time_ms: u128,
    status: Status,
    /// `None` when there is nothing young enough to be believed.
    newest_block: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Fresh,
    Stale,
    Unavailable,
}

/// The configured chains and how they are.
pub(super) async fn list(State(book): State<Book>) -> Response {
    let entries: Vec<Entry> = book.chains().iter().map(Entry::of).collect();
    ([(header::CACHE_CONTROL, "no-cache")], Json(entries)).into_response()
}

impl<'a> Entry<'a> {
    fn of(chain: &'a Chain) -> Self {
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
