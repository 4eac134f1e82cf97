//! What handlers take from a request.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::Deserialize;

use super::problem::{Code, Problem};
use crate::book::{Book, Chain};

/// The chain that `{chain}` names, by key or decimal id.
#[derive(Debug)]
pub(super) struct OfChain(pub(super) Chain);

impl FromRequestParts<Book> for OfChain {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, book: &Book) -> Result<Self, Problem> {
        let name = Path::<String>::from_request_parts(parts, book).await;
        let chain = name.ok().and_then(|Path(name)| book.chain(&name).cloned());
        chain.map(Self).ok_or_else(Problem::unknown_chain)
    }
}

/// `?blocks=N`.
#[derive(Debug)]
pub(super) struct BlockCount(Option<String>);

impl BlockCount {
    /// The count, from 1 to `most`; 20, or `most` where that is less, when none is given.
    pub(super) fn up_to(self, most: usize) -> Result<usize, Problem> {
        const DEFAULT: usize = 20;
        let Some(text) = self.0 else {
            return Ok(DEFAULT.min(most));
        };
        // `parse` would take a sign.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let count = text.parse().ok().filter(|count| is_number && (1..=most).contains(count));
        count.ok_or_else(|| Self::refused(&format!(" from 1 to {most}")))
    }

    fn refused(range: &str) -> Problem {
        Problem::new(
            Code::InvalidParameter,
            format!("`blocks` must be given once, as a whole number{range}"),
        )
    }
}

impl<S: Send + Sync> FromRequestParts<S> for BlockCount {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        #[derive(Deserialize)]
        struct Parameters {
            blocks: Option<String>,
        }
        match Query::<Parameters>::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Ok(Self(parameters.blocks)),
            Err(_) => Err(Self::refused("")),
        }
    }
}
