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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Block {
        block: Option<u64>,
    }

    #[tokio::test]
    async fn a_lenient_query_takes_names_in_any_case() {
        let parse = async |query: &str| {
            let request = axum::http::Request::builder().uri(format!("/?{query}")).body(());
            let (mut parts, ()) = request.unwrap().into_parts();
            let parsed = LenientQuery::<Block>::from_request_parts(&mut parts, &()).await;
            parsed.map(|LenientQuery(it)| it.block).map_err(|problem| problem.detail)
        };
        for query in ["block=5", "BLOCK=5", "b_lock=5", "blok=1&block=5&blocks=1"] {
            assert_eq!(parse(query).await.unwrap(), Some(5), "{query}");
        }
        assert_eq!(parse("blok=1").await.unwrap(), None);
        assert_eq!(parse("block=1&Block=1").await.unwrap_err(), "`block` must be given once");
        let many = parse(&"&".repeat(256)).await.unwrap_err();
        assert_eq!(many, "a query may have at most 256 parameters");
    }
}
