//! The query of a foreign format: names may be written in any case, and with underscores; others are ignored.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::http::problem::Problem;
use crate::http::query::QueryReader;

/// The parameters, a struct. Every error names the parameter.
#[derive(Debug)]
pub(crate) struct LenientQuery<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for LenientQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut query = QueryReader::new(parts.uri.query())?;
        for (name, _) in &mut query.pairs {
            *name = name.replace('_', "").to_ascii_lowercase();
        }
        query.read().map(Self)
    }
}
