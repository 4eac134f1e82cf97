//! Error responses, each described once.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::{Content, Ref, RefOr, Response};
use utoipa::{IntoResponses, ToSchema};

use super::headers;
use crate::api::problem::{Problem, ProblemBody, ProblemCode};
use crate::proxy::ProxyError;
use crate::store::{StoredChain, Unavailable};

pub(in crate::api) const CONTENT_TYPE: &str = "application/problem+json";

/// Declares error responses: status, description, codes, and headers beside those of every problem.
macro_rules! problems {
    ($($name:ident $status:literal $about:literal [$($code:ident),*] [$($header:literal),*];)*) => {
        $(
            #[doc = $about]
            pub(in crate::api) struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    let reference = Ref::from_response_name(stringify!($name));
                    BTreeMap::from([($status.to_owned(), reference.into())])
                }
            }
        )*

        /// Returns all error responses by name.
        pub(in crate::api) fn all() -> BTreeMap<String, RefOr<Response>> {
            BTreeMap::from([$((
                stringify!($name).to_owned(),
                response($about, &[$(ProblemCode::$code),*], &["Cache-Control", $($header),*]).into(),
            )),*])
        }
    };
}

problems! {
    BadRequest "400" "Malformed request." [BadRequest] [];
    InvalidParameter "400" "A parameter or a body member is invalid; `detail` names it." [InvalidParameter, BadRequest] [];
    NotFound "404" "No such route." [NotFound] [];
    UnknownChain "404" "Unknown chain." [UnknownChain] [];
    MethodNotAllowed "405" "The route does not support the method." [MethodNotAllowed] ["Allow"];
    RequestTimeout "408" "The request or its response timed out." [RequestTimeout] [];
    PayloadTooLarge "413" "The body is too large." [PayloadTooLarge] [];
    UriTooLong "414" "Path and query are too long." [UriTooLong] [];
    UnsupportedMediaType "415" "The body has a Content-Encoding." [UnsupportedMediaType] [];
    RateLimited "429" "Too many requests." [RateLimited] ["Retry-After"];
    HeadersTooLarge "431" "The headers are too large." [HeadersTooLarge] [];
    InternalError "500" "Internal error." [InternalError] [];
    BadGateway "502" "The upstream did not return a usable response." [UpstreamUnreachable, UpstreamInvalid, RegistryAbsent] [];
    Overloaded "503" "The service is overloaded." [Overloaded] ["Retry-After"];
    FeesUnavailable "503" "No data for the chain, or only data that is too old to serve; or the service is overloaded." [NoData, StaleData, Overloaded] ["Retry-After"];
    NotReady "503" "Not ready for traffic." [NotReady, Overloaded] ["Retry-After"];
    GatewayTimeout "504" "The upstream did not respond in time." [UpstreamTimeout] [];
}

fn response(description: &str, codes: &[ProblemCode], headers: &[&str]) -> Response {
    let examples = codes.iter().map(|code| {
        let name = code_name(*code);
        let reference = RefOr::Ref(Ref::new(format!("#/components/examples/{name}")));
        (name, reference)
    });
    let mut content = Content::new(Some(Ref::from_schema_name(ProblemBody::name())));
    content.examples = examples.collect();
    let mut response = Response::new(description);
    response.headers = headers::references(headers);
    response.content.insert(CONTENT_TYPE.to_owned(), content.into());
    response
}

/// Returns an example per code, as the service sends it.
pub(in crate::api) fn examples(chain: &StoredChain) -> BTreeMap<String, RefOr<Example>> {
    const REQUEST_ID: &str = "3f0c7a52b1d94e68-17";
    let upstream_problem = |failure| Problem::from_upstream(failure, "verification service");
    let problems = [
        Problem::from_status(StatusCode::BAD_REQUEST),
        Problem::new(ProblemCode::InvalidParameter, "`from` is required"),
        Problem::from_status(StatusCode::NOT_FOUND),
        Problem::unknown_chain(),
        Problem::from_status(StatusCode::METHOD_NOT_ALLOWED),
        Problem::from_status(StatusCode::REQUEST_TIMEOUT),
        Problem::from_status(StatusCode::PAYLOAD_TOO_LARGE),
        Problem::from_status(StatusCode::URI_TOO_LONG),
        Problem::unsupported_encoding(),
        Problem::from_status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Problem::from_status(StatusCode::INTERNAL_SERVER_ERROR),
        Problem::rate_limited(Duration::from_secs(1)),
        Problem::unavailable(chain, Unavailable::NoData),
        Problem::unavailable(chain, Unavailable::Expired),
        Problem::overloaded(),
        Problem::new(ProblemCode::NotReady, "no chain has been read yet"),
        upstream_problem(ProxyError::Unreachable),
        upstream_problem(ProxyError::InvalidResponse),
        crate::delegation::LookupError::RegistryAbsent.into(),
        upstream_problem(ProxyError::Timeout),
    ];
    let example = |problem: &Problem| {
        let body = serde_json::from_slice(&problem.body(REQUEST_ID, None)).expect("a body is JSON");
        (code_name(problem.code()), ExampleBuilder::new().value(Some(body)).into())
    };
    problems.iter().map(example).collect()
}

fn code_name(code: ProblemCode) -> String {
    let json = serde_json::to_value(code).expect("a code serialises");
    json.as_str().expect("a code is a text").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::store::ChainStore;

    #[test]
    fn every_problem_code_has_an_example() {
        let toml = "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:1\"]";
        let (store, _) = ChainStore::new(&Config::from_toml(toml).unwrap().chains);
        let examples = examples(&store.chains()[0]);
        let RefOr::T(utoipa::openapi::Schema::Object(codes)) =
            <ProblemCode as utoipa::PartialSchema>::schema()
        else {
            panic!("the codes are a list of values");
        };
        let mut codes: Vec<_> = codes.enum_values.unwrap();
        codes.sort_by_key(ToString::to_string);
        assert_eq!(examples.keys().map(|name| serde_json::json!(name)).collect::<Vec<_>>(), codes);
    }
}
