//! The query of a look-up: a name that the route does not have is an error.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::config::nearest::nearest;
use crate::http::problem::Problem;
use crate::http::query::{QueryReader, unknown_name};

/// The parameters: a struct, or a tuple of structs. Every error names the parameter.
#[derive(Debug)]
pub(crate) struct StrictQuery<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for StrictQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = QueryReader::new(parts.uri.query())?;
        let parameters = query.read()?;
        let known = query.known.borrow();
        let Some(name) = query.unknown_names(&known).next() else { return Ok(Self(parameters)) };
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it has `{}`", known.join("`, `")),
        };
        Err(unknown_name(name, &hint))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Block {
        block: u64,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Name {
        name: Option<String>,
    }

    #[tokio::test]
    async fn a_strict_query_has_no_other_names() {
        let parse = async |query: &str| {
            let request = axum::http::Request::builder().uri(format!("/?{query}")).body(());
            let (mut parts, ()) = request.unwrap().into_parts();
            let parsed = StrictQuery::<(Block, Name)>::from_request_parts(&mut parts, &()).await;
            parsed.map(|StrictQuery(both)| both).map_err(|problem| problem.detail)
        };
        let both = (Block { block: 5 }, Name { name: Some("x".to_owned()) });
        assert_eq!(parse("block=5&name=x").await.unwrap(), both);
        let not = "is not a query parameter of this route;";
        let error = parse("block=5&nam=x").await.unwrap_err();
        assert_eq!(error, format!("`nam` {not} did you mean `name`?"));
        let known = "it has `block`, `name`";
        assert_eq!(parse("block=7&_=5").await.unwrap_err(), format!("`_` {not} {known}"));
        let long = parse(&("block=7&".to_owned() + &"%C3%A4".repeat(1000))).await.unwrap_err();
        assert_eq!(long, format!("`{}` {not} {known}", "\u{e4}".repeat(40)));
    }
}
