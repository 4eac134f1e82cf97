//! Extractors for path and query parameters.

use std::convert::Infallible;

use axum::extract::{FromRef, FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::client_limits::ClientHandle;
use crate::http::problem::{Problem, ProblemCode};
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

/// The `blocks` query parameter.
#[derive(Debug, IntoParams)]
#[into_params(names("blocks"), parameter_in = Query)]
pub(crate) struct BlockCount(
    /// Number of blocks, at most the chain's `history_blocks`.
    #[param(value_type = Option<u64>, minimum = 1, default = 20)]
    Option<String>,
);

impl BlockCount {
    /// Returns the count, from 1 to `max`. Default: 20, or `max` if that is less.
    fn validate(self, max: usize) -> Result<usize, Problem> {
        const DEFAULT_BLOCKS: usize = 20;
        let Some(text) = self.0 else {
            return Ok(DEFAULT_BLOCKS.min(max));
        };
        // `parse` would accept a sign.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let count = text.parse().ok().filter(|count| is_number && (1..=max).contains(count));
        count.ok_or_else(|| {
            let detail = format!("`blocks` must be one whole number from 1 to {max}");
            Problem::new(ProblemCode::InvalidParameter, detail)
        })
    }

    /// Like [`validate`](Self::validate), and charges `client` a further request for each 32 blocks, which take as long as
    /// a suggestion if they are compressed.
    pub(crate) fn validate_and_charge(
        self,
        max: usize,
        client: &ClientHandle,
    ) -> Result<usize, Problem> {
        const BLOCKS_PER_REQUEST: usize = 32;
        let count = self.validate(max)?;
        client.check_rate(count / BLOCKS_PER_REQUEST).map_err(Problem::rate_limited)?;
        Ok(count)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for BlockCount {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        #[derive(Deserialize)]
        struct BlockCountQuery {
            blocks: Option<String>,
        }
        // An unreadable query, for example with two counts, becomes an empty count, which is invalid.
        let query = Query::<BlockCountQuery>::from_request_parts(parts, state).await;
        Ok(Self(query.map_or_else(|_| Some(String::new()), |Query(parameters)| parameters.blocks)))
    }
}
