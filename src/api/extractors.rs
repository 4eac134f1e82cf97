//! Parameters that several routes have.

use std::convert::Infallible;

use axum::extract::{FromRef, FromRequestParts, Path};
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::client_limits::ClientHandle;
use crate::http::problem::Problem;
use crate::http::query::invalid_parameter;
use crate::store::{ChainStore, StoredChain};

/// The `{chain}` of a path, by key or id.
#[derive(Debug, IntoParams)]
#[into_params(names("chain"), parameter_in = Path)]
pub(crate) struct ChainParam(
    /// The chain, by its key in the configuration, in any case, or by its id, decimal or hex.
    #[param(value_type = String)]
    pub(crate) StoredChain,
);

impl<S: Send + Sync> FromRequestParts<S> for ChainParam
where
    ChainStore: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        let name = name.map_or_else(|_| String::new(), |Path(name)| name);
        let store = ChainStore::from_ref(state);
        find_chain(&store, &name).cloned().map(Self)
    }
}

/// Returns the chain with this key or id.
pub(crate) fn find_chain<'a>(
    store: &'a ChainStore,
    name: &str,
) -> Result<&'a StoredChain, Problem> {
    store.chain(name).ok_or_else(|| {
        let keys = store.chains().iter().map(|chain| chain.config().key.as_str());
        Problem::unknown_chain(name, keys)
    })
}

impl<S: Send + Sync> FromRequestParts<S> for ClientHandle {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// Charges `client` for a list of so many items: a further request for each `items_per_request`.
pub(crate) fn charge_for_list(
    client: &ClientHandle,
    items: usize,
    items_per_request: usize,
) -> Result<(), Problem> {
    let cost = 1 + items / items_per_request;
    client.charge_request(cost).map_err(Problem::rate_limited)
}

/// How many blocks a client wants.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BlocksQuery {
    /// Number of blocks, at most the chain's `history_blocks`.
    #[param(minimum = 1, default = 20)]
    blocks: Option<u64>,
}

impl BlocksQuery {
    /// Returns the count, from 1 to `max`, and charges `client` a further request for each 32 blocks, which take as long as a
    /// suggestion if they are compressed. Default: 20, or `max` if that is less.
    pub(crate) fn validate_and_charge(
        &self,
        max: usize,
        client: &ClientHandle,
    ) -> Result<usize, Problem> {
        const DEFAULT_BLOCKS: usize = 20;
        const BLOCKS_PER_REQUEST: usize = 32;
        let count = match self.blocks {
            None => DEFAULT_BLOCKS.min(max),
            Some(count) => {
                usize::try_from(count).ok().filter(|count| (1..=max).contains(count)).ok_or_else(
                    || invalid_parameter("blocks", format_args!("must be from 1 to {max}")),
                )?
            }
        };
        charge_for_list(client, count, BLOCKS_PER_REQUEST)?;
        Ok(count)
    }
}
