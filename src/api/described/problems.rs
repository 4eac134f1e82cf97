//! What operations answer when they cannot do what is asked, each described once.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::{Content, Ref, RefOr, Response};
use utoipa::{IntoResponses, ToSchema};

use super::headers;
use crate::api::problem::{Body, Code, Problem};
use crate::book::{Chain, Unavailable};
use crate::proxy::Failure;

pub(in crate::api) const CONTENT_TYPE: &str = "application/problem+json";

/// Names answers with their status, what they say, their codes, and their headers beside those of every
/// problem.
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

        /// All of them by their names.
        pub(in crate::api) fn all() -> BTreeMap<String, RefOr<Response>> {
            BTreeMap::from([$((
                stringify!($name).to_owned(),
                response($about, &[$(Code::$code),*], &["Cache-Control", $($header),*]).into(),
            )),*])
        }
    };
}

problems! {
    BadRequest "400" "The request cannot be understood." [BadRequest] [];
    InvalidParameter "400" "A parameter, or a part of the body, cannot be right; its name is in `detail`." [InvalidParameter, BadRequest] [];
    NotFound "404" "There is nothing at this path." [NotFound] [];
    UnknownChain "404" "There is no such chain here." [UnknownChain] [];
    MethodNotAllowed "405" "The path does not answer this method." [MethodNotAllowed] ["Allow"];
    RequestTimeout "408" "The request, or its answer, took too long." [RequestTimeout] [];
    PayloadTooLarge "413" "The body is larger than it may be." [PayloadTooLarge] [];
    UriTooLong "414" "Path and query are longer than they may be." [UriTooLong] [];
    UnsupportedMediaType "415" "The body has a Content-Encoding." [UnsupportedMediaType] [];
    RateLimited "429" "More than one client, or all together, may ask for at a time." [RateLimited] ["Retry-After"];
    HeadersTooLarge "431" "The headers are larger than they may be." [HeadersTooLarge] [];
    InternalError "500" "The service failed." [InternalError] [];
    BadGateway "502" "What was asked upstream gave no usable answer." [UpstreamUnreachable, UpstreamInvalid, RegistryAbsent] [];
    Overloaded "503" "There is no room at the moment." [Overloaded] ["Retry-After"];
    NoFees "503" "There is no data of the chain that is young enough to be served, or no room at the moment." [NoData, StaleData, Overloaded] ["Retry-After"];
    NotReady "503" "No traffic should come here now." [NotReady, Overloaded] ["Retry-After"];
    GatewayTimeout "504" "What was asked upstream gave no answer in time." [UpstreamTimeout] [];
}

fn response(about: &str, codes: &[Code], headers: &[&str]) -> Response {
    let examples = codes.iter().map(|code| {
        let name = name(*code);
        let reference = RefOr::Ref(Ref::new(format!("#/components/examples/{name}")));
        (name, reference)
    });
    let mut content = Content::new(Some(Ref::from_schema_name(Body::name())));
    content.examples = examples.collect();
    let mut response = Response::new(about);
    response.headers = headers::named(headers);
    response.content.insert(CONTENT_TYPE.to_owned(), content.into());
    response
}

/// An example for each code, as the service says it, of `chain` where it is about one.
pub(in crate::api) fn examples(chain: &Chain) -> BTreeMap<String, RefOr<Example>> {
    const REQUEST_ID: &str = "3f0c7a52b1d94e68-17";
    let upstream = |failure| Problem::of_upstream(failure, "verification service");
    let problems = [
        Problem::of_framework(StatusCode::BAD_REQUEST),
        Problem::new(Code::InvalidParameter, "`from` is required"),
        Problem::of_framework(StatusCode::NOT_FOUND),
        Problem::unknown_chain(),
        Problem::of_framework(StatusCode::METHOD_NOT_ALLOWED),
        Problem::of_framework(StatusCode::REQUEST_TIMEOUT),
        Problem::of_framework(StatusCode::PAYLOAD_TOO_LARGE),
        Problem::of_framework(StatusCode::URI_TOO_LONG),
        Problem::encoded_body(),
        Problem::of_framework(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Problem::of_framework(StatusCode::INTERNAL_SERVER_ERROR),
        Problem::rate_limited(Duration::from_secs(1)),
        Problem::unavailable(chain, Unavailable::NoData),
        Problem::unavailable(chain, Unavailable::Expired),
        Problem::overloaded(),
        Problem::new(Code::NotReady, "no chain was read yet"),
        upstream(Failure::Unreachable),
        upstream(Failure::Invalid),
        crate::delegation::Failure::RegistryAbsent.into(),
        upstream(Failure::Timeout),
    ];
    let example = |problem: &Problem| {
        let body = serde_json::from_slice(&problem.body(REQUEST_ID, None)).expect("a body is JSON");
        (name(problem.code()), ExampleBuilder::new().value(Some(body)).into())
    };
    problems.iter().map(example).collect()
}

fn name(code: Code) -> String {
    let json = serde_json::to_value(code).expect("a code serialises");
    json.as_str().expect("a code is a text").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Book;
    use crate::config::Config;

    #[test]
    fn every_code_has_an_example_of_its_own() {
        let toml = "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:1\"]";
        let (book, _) = Book::new(&Config::from_toml(toml).unwrap().chains);
        let examples = examples(&book.chains()[0]);
        let RefOr::T(utoipa::openapi::Schema::Object(codes)) =
            <Code as utoipa::PartialSchema>::schema()
        else {
            panic!("the codes are a list of values");
        };
        let mut codes: Vec<_> = codes.enum_values.unwrap();
        codes.sort_by_key(ToString::to_string);
        assert_eq!(examples.keys().map(|name| serde_json::json!(name)).collect::<Vec<_>>(), codes);
    }
}
