//! Contract verification as far as the service knows it: which paths it passes on.
//!
//! What is behind them is the verification service's own, so their bodies are anything.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn, PathItemBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{Content, HttpMethod, PathItem, RefOr, Required, Response, Schema};

use super::upstreams;
use crate::api::described::OfEveryRoute;
use crate::api::described::parameters::parameter;
use crate::api::described::problems::{
    BadGateway, GatewayTimeout, InvalidParameter, NotFound, PayloadTooLarge,
};
use crate::api::described::schemas::{Address, custom, of, text};
use crate::api::described::tag;

pub(super) const ABOUT: &str = "Contract verification, passed on byte for byte to a Sourcify server, whose documentation \
says what bodies and answers are. Its status is the answer's, errors included. Behind `/verification/v2/` and \
`/verification/files/` any further path of at most 8 plain segments is passed on too.";

/// A path below `/verification` with what it answers to, an id and what that does.
struct Route {
    method: HttpMethod,
    path: &'static str,
    id: &'static str,
    about: &'static str,
}

const fn get(path: &'static str, id: &'static str, about: &'static str) -> Route {
    Route { method: HttpMethod::Get, path, id, about }
}

const fn post(path: &'static str, id: &'static str, about: &'static str) -> Route {
    Route { method: HttpMethod::Post, path, id, about }
}

const ROUTES: [Route; 25] = [
    post("", "verifyContract", "Verify a contract"),
    post("/", "verifyContractAtRoot", "Verify a contract"),
    post("/verify", "verifyContractByFiles", "Verify a contract"),
    post(
        "/verify/solc-json",
        "verifyContractBySolcJson",
        "Verify a contract by the compiler's standard JSON input",
    ),
    post("/verify/create2", "verifyCreate2Contract", "Verify a contract that CREATE2 is to create"),
    get("/check-by-addresses", "checkVerified", "Which contracts are verified in full"),
    get(
        "/check-all-by-addresses",
        "checkAllVerified",
        "Which contracts are verified, in full or in part",
    ),
    get("/checkByAddresses", "checkByAddresses", "Which contracts are verified in full"),
    get(
        "/checkAllByAddresses",
        "checkAllByAddresses",
        "Which contracts are verified, in full or in part",
    ),
    get(
        "/files/{chainId}/{address}",
        "getFullMatchFiles",
        "The sources of a contract that is verified in full",
    ),
    get("/files/any/{chainId}/{address}", "getFiles", "The sources of a verified contract"),
    get(
        "/files/tree/{chainId}/{address}",
        "getFullMatchFileTree",
        "Where the sources are of a contract that is verified in full",
    ),
    get(
        "/files/tree/any/{chainId}/{address}",
        "getFileTree",
        "Where the sources of a verified contract are",
    ),
    get(
        "/files/contracts/{chainId}",
        "getVerifiedAddresses",
        "The addresses of a chain's verified contracts",
    ),
    get("/chains", "getVerifierChains", "The chains whose contracts can be verified"),
    get("/health", "getVerifierHealth", "Whether the verification service is up"),
    get("/version", "getVerifierVersion", "The version of the verification service"),
    post(
        "/v2/verify/{chainId}/{address}",
        "startVerification",
        "Begin to verify a contract by standard JSON input",
    ),
    post(
        "/v2/verify/metadata/{chainId}/{address}",
        "startVerificationByMetadata",
        "Begin to verify a contract by its metadata",
    ),
    post(
        "/v2/verify/etherscan/{chainId}/{address}",
        "startVerificationByEtherscan",
        "Begin to verify a contract by what Etherscan has of it",
    ),
    post(
        "/v2/verify/similarity/{chainId}/{address}",
        "startVerificationBySimilarity",
        "Begin to verify a contract by one that is alike",
    ),
    get("/v2/verify/{verificationId}", "getVerification", "What has become of a verification"),
    get("/v2/contract/{chainId}/{address}", "getVerifiedContract", "A verified contract"),
    get(
        "/v2/contract/all-chains/{address}",
        "getVerifiedContractOfAllChains",
        "The verified contracts with one address",
    ),
    get("/v2/contracts/{chainId}", "getVerifiedContracts", "The verified contracts of a chain"),
];

/// The paths with what they answer.
pub(super) fn paths() -> impl Iterator<Item = (String, PathItem)> {
    ROUTES.iter().map(|route| {
        let path = format!("/verification{}", route.path);
        let item = PathItemBuilder::new().operation(route.method.clone(), operation(route));
        (path, item.build())
    })
}

fn operation(Route { method, path, id, about }: &Route) -> OperationBuilder {
    let operation = OperationBuilder::new()
        .tag(tag::VERIFICATION)
        .operation_id(Some(*id))
        .summary(Some(*about))
        .responses(utoipa::openapi::Responses::from_iter(responses(method)));
    let names = path.split('/').filter_map(|name| name.strip_prefix('{')?.strip_suffix('}'));
    let operation = names.fold(operation, |operation, name| operation.parameter(segment(name)));
    if *method != HttpMethod::Post {
        return operation;
    }
    let body = RequestBodyBuilder::new()
        .description(Some("What the verification service wants; it is passed on whatever it is."))
        .content("application/json", Content::default())
        .content("multipart/form-data", Content::default());
    operation.request_body(Some(body.build()))
}

/// What the verification service wants of it; the service wants a plain segment of a path.
fn segment(name: &str) -> ParameterBuilder {
    let (what, schema): (_, RefOr<Schema>) = match name {
        "address" => ("The address that is asked about.", of::<Address>().into()),
        "chainId" => ("The chain's id.", text().pattern(Some("^[1-9][0-9]{0,15}$")).into()),
        _ => ("The id of the verification.", text().format(Some(custom("uuid"))).into()),
    };
    parameter(ParameterIn::Path, name, Required::True, what, schema)
}

/// Whatever the verification service says, and the service's own errors.
fn responses(method: &HttpMethod) -> BTreeMap<String, RefOr<Response>> {
    let mut own = OfEveryRoute::responses();
    own.extend(InvalidParameter::responses());
    own.extend(NotFound::responses());
    own.extend(BadGateway::responses());
    own.extend(GatewayTimeout::responses());
    if *method == HttpMethod::Post {
        own.extend(PayloadTooLarge::responses());
    }
    upstreams::or_theirs(own, &["200", "2XX", "3XX", "4XX", "5XX"])
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;
    use crate::api::verification;

    #[test]
    fn what_is_documented_is_what_is_passed_on() {
        for (path, item) in paths() {
            let path = path.replace(['{', '}'], "");
            for (method, operation) in [(Method::GET, item.get), (Method::POST, item.post)] {
                let is_passed_on = verification::passes_on(&method, &path);
                // A GET is passed on behind all of `v2/`, and there is none for these.
                if operation.is_some() || !path.starts_with("/verification/v2/") {
                    assert_eq!(is_passed_on, operation.is_some(), "{method} {path}");
                }
            }
        }
    }
}
