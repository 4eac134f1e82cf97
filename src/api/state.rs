//! State that the handlers of this room share.

use std::sync::Arc;

use axum::extract::FromRef;

use super::fee_history::HistorySerializer;
use super::openapi::SerializedDocument;
use super::public_routes::MarketMembers;
use super::route_table::RouteTable;
use super::stream::SuggestionStreams;
use crate::observe::metrics::Metrics;
use crate::store::ChainStore;

/// State of all handlers. Each extracts what it needs. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct AppState(Arc<Parts>);

/// Parts of the state.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) store: ChainStore,
    pub(super) metrics: Metrics,
    pub(super) streams: SuggestionStreams,
    pub(super) history: HistorySerializer,
    pub(super) market_members: MarketMembers,
    pub(super) document: SerializedDocument,
    pub(super) table: RouteTable,
}

impl AppState {
    pub(super) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

/// Lets handlers extract parts of the state.
macro_rules! parts {
    ($($name:ident: $part:ty),+ $(,)?) => {$(
        impl FromRef<AppState> for $part {
            fn from_ref(AppState(parts): &AppState) -> Self {
                parts.$name.clone()
            }
        }
    )+};
}

parts! {
    store: ChainStore,
    metrics: Metrics,
    streams: SuggestionStreams,
    history: HistorySerializer,
    market_members: MarketMembers,
    document: SerializedDocument,
    table: RouteTable,
}
