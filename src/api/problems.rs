//! Problems of chains without data.

use crate::http::problem::{Problem, ProblemCode};
use crate::store::{StoredChain, Unavailable};

/// Returns the problem of a chain without data that may be served. `Retry-After` is one block time, within which the
/// next poll comes.
pub(crate) fn unavailable(chain: &StoredChain, reason: Unavailable) -> Problem {
    let (code, detail) = match reason {
        Unavailable::NoData => (ProblemCode::NoData, "no data has been read for this chain yet"),
        Unavailable::Expired => {
            (ProblemCode::StaleData, "the newest data for this chain is too old to serve")
        }
    };
    Problem::new(code, detail).with_retry_after(chain.config().block_time)
}
