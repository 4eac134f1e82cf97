//! Questions of a caller about its own fee: in how many of the newest blocks it was enough, what replaces a pending
//! transaction, and when gas costs at most so much.

mod inclusion;
mod replacement;
mod routes;
mod wait;
mod waiting;

use std::sync::Arc;

use axum::extract::FromRef;
use utoipa_axum::router::OpenApiRouter;

use crate::api::routes::MarketMembers;
use crate::api::routes::routes;
use crate::api::stream::SuggestionStreams;
use crate::assembly::{Assembly, DayPrices, Extra};
use crate::store::{ChainStore, PerChain};
use waiting::WaitingRequests;

/// Comes after the extras that know the prices of the day or members of the fee market.
pub(crate) const EXTRA: Extra = Extra { name: "own_fee", sections: &[], command: None, join };

fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    let own_fee = OwnFee {
        store: assembly.store.clone(),
        streams: assembly.streams.clone(),
        members: assembly.routes.market_members.clone(),
        prices: assembly.day_prices.clone(),
        waiting: PerChain::new(&assembly.store, |_| Arc::default()),
    };
    for chain in assembly.store.chains() {
        let waiting = Arc::clone(own_fee.waiting.get(chain));
        let waking = waiting.wake(chain.clone(), own_fee.prices.clone());
        assembly.tasks.push(Box::pin(async { match waking.await {} }));
    }
    let timed = OpenApiRouter::new()
        .routes(routes!(routes::get_inclusion))
        .routes(routes!(routes::get_replacement));
    assembly.routes.timed.push(timed.with_state(own_fee.clone()));
    let untimed = OpenApiRouter::new().routes(routes!(wait::wait_for_price));
    assembly.routes.untimed.push(untimed.with_state(own_fee));
    Ok(())
}

/// State of the routes. Cheap to clone.
#[derive(Clone, FromRef)]
struct OwnFee {
    store: ChainStore,
    streams: SuggestionStreams,
    members: MarketMembers,
    prices: Option<Arc<dyn DayPrices>>,
    waiting: PerChain<Arc<WaitingRequests>>,
}
