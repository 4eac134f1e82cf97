//! Documents the forwarded paths of contract verification.
//!
//! The verification service defines their bodies, so the document describes none.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn, PathItemBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{Content, HttpMethod, PathItem, RefOr, Required, Response, Schema};

use super::upstream_responses;
use crate::api::openapi_components::CommonErrors;
use crate::api::openapi_components::parameters::parameter;
use crate::api::openapi_components::problems::{
    BadGateway, GatewayTimeout, InvalidParameter, NotFound, PayloadTooLarge,
};
use crate::api::openapi_components::schemas::{Address, custom_format, schema_ref, string_schema};
use crate::api::openapi_components::tag;

pub(super) const DESCRIPTION: &str = "Contract verification, forwarded byte for byte to a Sourcify server. \
Its documentation describes the bodies and responses. The response has its status, also for errors. Any further \
path of at most 8 plain segments below `/verification/v2/` and `/verification/files/` is forwarded too.";

/// An operation at a path below `/verification`.
struct DocumentedRoute {
    method: HttpMethod,
    path: &'static str,
    operation_id: &'static str,
    summary: &'static str,
}

const fn get(
    path: &'static str,
    operation_id: &'static str,
    summary: &'static str,
) -> DocumentedRoute {
    DocumentedRoute { method: HttpMethod::Get, path, operation_id, summary }
}

const fn post(
    path: &'static str,
    operation_id: &'static str,
    summary: &'static str,
) -> DocumentedRoute {
    DocumentedRoute { method: HttpMethod::Post, path, operation_id, summary }
}

const ROUTES: [DocumentedRoute; 25] = [
    post("", "verifyContract", "Verify a contract"),
    post("/", "verifyContractAtRoot", "Verify a contract"),
    post("/verify", "verifyContractByFiles", "Verify a contract"),
    post(
        "/verify/solc-json",
        "verifyContractBySolcJson",
        "Verify a contract with the compiler's standard JSON input",
    ),
    post("/verify/create2", "verifyCreate2Contract", "Verify a contract before CREATE2 deploys it"),
    get("/check-by-addresses", "checkVerified", "Check which contracts are fully verified"),
    get(
        "/check-all-by-addresses",
        "checkAllVerified",
        "Check which contracts are fully or partially verified",
    ),
    get("/checkByAddresses", "checkByAddresses", "Check which contracts are fully verified"),
    get(
        "/checkAllByAddresses",
        "checkAllByAddresses",
        "Check which contracts are fully or partially verified",
    ),
    get(
        "/files/{chainId}/{address}",
        "getFullMatchFiles",
        "The sources of a fully verified contract",
    ),
    get("/files/any/{chainId}/{address}", "getFiles", "The sources of a verified contract"),
    get(
        "/files/tree/{chainId}/{address}",
        "getFullMatchFileTree",
        "The source URLs of a fully verified contract",
    ),
    get(
        "/files/tree/any/{chainId}/{address}",
        "getFileTree",
        "The source URLs of a verified contract",
    ),
    get(
        "/files/contracts/{chainId}",
        "getVerifiedAddresses",
        "The addresses of a chain's verified contracts",
    ),
    get("/chains", "getVerifierChains", "The chains whose contracts can be verified"),
    get("/health", "getVerifierHealth", "Health of the verification service"),
    get("/version", "getVerifierVersion", "The version of the verification service"),
    post(
        "/v2/verify/{chainId}/{address}",
        "startVerification",
        "Start a verification with standard JSON input",
    ),
    post(
        "/v2/verify/metadata/{chainId}/{address}",
        "startVerificationByMetadata",
        "Start a verification with the contract's metadata",
    ),
    post(
        "/v2/verify/etherscan/{chainId}/{address}",
        "startVerificationByEtherscan",
        "Start a verification with the source from Etherscan",
    ),
    post(
        "/v2/verify/similarity/{chainId}/{address}",
        "startVerificationBySimilarity",
        "Start a verification by similarity to a verified contract",
    ),
    get("/v2/verify/{verificationId}", "getVerification", "The status of a verification job"),
    get("/v2/contract/{chainId}/{address}", "getVerifiedContract", "A verified contract"),
    get(
        "/v2/contract/all-chains/{address}",
        "getVerifiedContractOfAllChains",
        "The verified contracts at an address on all chains",
    ),
    get("/v2/contracts/{chainId}", "getVerifiedContracts", "The verified contracts of a chain"),
];

/// Returns the documented paths.
pub(super) fn paths() -> impl Iterator<Item = (String, PathItem)> {
    ROUTES.iter().map(|route| {
        let path = format!("/verification{}", route.path);
        let item = PathItemBuilder::new().operation(route.method.clone(), operation(route));
        (path, item.build())
    })
}

fn operation(
    DocumentedRoute { method, path, operation_id, summary }: &DocumentedRoute,
) -> OperationBuilder {
    let operation = OperationBuilder::new()
        .tag(tag::VERIFICATION)
        .operation_id(Some(*operation_id))
        .summary(Some(*summary))
        .responses(utoipa::openapi::Responses::from_iter(responses(method)));
    let names = path.split('/').filter_map(|name| name.strip_prefix('{')?.strip_suffix('}'));
    let operation =
        names.fold(operation, |operation, name| operation.parameter(path_parameter(name)));
    if *method != HttpMethod::Post {
        return operation;
    }
    let body = RequestBodyBuilder::new()
        .description(Some("The request body for the verification service; any body is forwarded."))
        .content("application/json", Content::default())
        .content("multipart/form-data", Content::default());
    operation.request_body(Some(body.build()))
}

/// Builds a path parameter of the verification service, which must be a plain path segment.
fn path_parameter(name: &str) -> ParameterBuilder {
    let (description, schema): (_, RefOr<Schema>) = match name {
        "address" => ("The address to look up.", schema_ref::<Address>().into()),
        "chainId" => {
            ("The chain's id.", string_schema().pattern(Some("^[1-9][0-9]{0,15}$")).into())
        }
        _ => (
            "The id of the verification.",
            string_schema().format(Some(custom_format("uuid"))).into(),
        ),
    };
    parameter(ParameterIn::Path, name, Required::True, description, schema)
}

/// Returns the responses of a route: any of the verification service, and the errors of this service.
fn responses(method: &HttpMethod) -> BTreeMap<String, RefOr<Response>> {
    let mut own = CommonErrors::responses();
    own.extend(InvalidParameter::responses());
    own.extend(NotFound::responses());
    own.extend(BadGateway::responses());
    own.extend(GatewayTimeout::responses());
    if *method == HttpMethod::Post {
        own.extend(PayloadTooLarge::responses());
    }
    upstream_responses::or_upstream(own, &["200", "2XX", "3XX", "4XX", "5XX"])
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;
    use crate::api::verification;

    #[test]
    fn documented_routes_are_exactly_the_forwarded_ones() {
        for (path, item) in paths() {
            let path = path.replace(['{', '}'], "");
            for (method, operation) in [(Method::GET, item.get), (Method::POST, item.post)] {
                let is_forwarded = verification::is_forwarded(&method, &path);
                // Below `v2/` both methods are forwarded at every path, also where only one is documented.
                if operation.is_some() || !path.starts_with("/verification/v2/") {
                    assert_eq!(is_forwarded, operation.is_some(), "{method} {path}");
                }
            }
        }
    }
}
