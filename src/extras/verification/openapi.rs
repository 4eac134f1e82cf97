//! Documents the forwarded paths of contract verification.
//!
//! The verification service defines their bodies, so the document describes none.

use utoipa::IntoParams;
use utoipa::openapi::path::{OperationBuilder, Parameter, PathItemBuilder};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{
    Content, HttpMethod, ObjectBuilder, PathItem, ResponseBuilder, ResponsesBuilder,
};

use crate::http::address::AddressText;
use HttpMethod::{Get, Post};

pub(crate) const TAG: &str = "Verification";
pub(crate) const DESCRIPTION: &str = "Contract verification, forwarded byte for byte to a Sourcify server. \
Its documentation describes the bodies and responses. The response has its status, also for errors. Any further \
path of at most 8 plain segments below `/verification/v2/` and `/verification/files/` is forwarded too.";

/// Path parameters of the verification service, which must be plain path segments.
#[derive(IntoParams)]
#[expect(dead_code, reason = "only the derived description is used")]
#[into_params(parameter_in = Path)]
struct VerificationParameters {
    /// The address to look up.
    address: AddressText,
    /// The chain's id.
    #[param(rename = "chainId", pattern = "^[1-9][0-9]{0,15}$")]
    chain_id: String,
    /// The id of the verification.
    #[param(rename = "verificationId", format = "uuid")]
    verification_id: String,
}

/// The documented routes: method, path, operation id and summary of each.
const ROUTES: &str = "\
POST /verification verifyContract Verify a contract
POST /verification/verify verifyContractByFiles Verify a contract
POST /verification/verify/solc-json verifyContractBySolcJson Verify a contract with the compiler's standard JSON input
POST /verification/verify/create2 verifyCreate2Contract Verify a contract before CREATE2 deploys it
GET /verification/check-by-addresses checkVerified Check which contracts are fully verified
GET /verification/check-all-by-addresses checkAllVerified Check which contracts are fully or partially verified
GET /verification/checkByAddresses checkByAddresses Check which contracts are fully verified
GET /verification/checkAllByAddresses checkAllByAddresses Check which contracts are fully or partially verified
GET /verification/files/{chainId}/{address} getFullMatchFiles The sources of a fully verified contract
GET /verification/files/any/{chainId}/{address} getFiles The sources of a verified contract
GET /verification/files/tree/{chainId}/{address} getFullMatchFileTree The source URLs of a fully verified contract
GET /verification/files/tree/any/{chainId}/{address} getFileTree The source URLs of a verified contract
GET /verification/files/contracts/{chainId} getVerifiedAddresses The addresses of a chain's verified contracts
GET /verification/chains getVerifierChains The chains whose contracts can be verified
GET /verification/health getVerifierHealth Health of the verification service
GET /verification/version getVerifierVersion The version of the verification service
POST /verification/v2/verify/{chainId}/{address} startVerification Start a verification with standard JSON input
POST /verification/v2/verify/metadata/{chainId}/{address} startVerificationByMetadata Start a verification with the contract's metadata
POST /verification/v2/verify/etherscan/{chainId}/{address} startVerificationByEtherscan Start a verification with the source from Etherscan
POST /verification/v2/verify/similarity/{chainId}/{address} startVerificationBySimilarity Start a verification by similarity to a verified contract
GET /verification/v2/verify/{verificationId} getVerification The status of a verification job
GET /verification/v2/contract/{chainId}/{address} getVerifiedContract A verified contract
GET /verification/v2/contract/all-chains/{address} getVerifiedContractOfAllChains The verified contracts at an address on all chains
GET /verification/v2/contracts/{chainId} getVerifiedContracts The verified contracts of a chain";

/// Returns the documented paths.
pub(crate) fn paths() -> impl Iterator<Item = (String, PathItem)> {
    ROUTES.lines().filter_map(|route| {
        let mut columns = route.splitn(4, ' ');
        let method = if columns.next()? == "POST" { Post } else { Get };
        let path = columns.next()?;
        let operation = OperationBuilder::new()
            .tag(TAG)
            .operation_id(columns.next())
            .summary(columns.next())
            .parameters(Some(path_parameters(path)))
            .responses(responses());
        let operation =
            if method == Post { operation.request_body(Some(any_body())) } else { operation };
        Some((path.to_owned(), PathItemBuilder::new().operation(method, operation).build()))
    })
}

fn path_parameters(path: &str) -> impl Iterator<Item = Parameter> {
    let parameters = VerificationParameters::into_params(|| None).into_iter();
    parameters.filter(|parameter| path.contains(&format!("{{{}}}", parameter.name)))
}

fn any_body() -> RequestBody {
    let any = || Content::new(Some(ObjectBuilder::new().schema_type(SchemaType::AnyValue)));
    RequestBodyBuilder::new()
        .description(Some("The request body for the verification service; any body is forwarded."))
        .content("application/json", any())
        .content("multipart/form-data", any())
        .build()
}

/// Returns the response of the verification service. Errors are added later.
fn responses() -> ResponsesBuilder {
    let response = ResponseBuilder::new().description("The upstream's response.");
    ResponsesBuilder::new().response("200", response.content("*/*", Content::default()))
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;
    use crate::extras::verification::{find_route, segments};

    #[test]
    fn documented_routes_are_exactly_the_forwarded_ones() {
        assert_eq!(paths().count(), ROUTES.lines().count());
        for (path, item) in paths() {
            let path = path.replace(['{', '}'], "");
            for (method, operation) in [(Method::GET, item.get), (Method::POST, item.post)] {
                let route = find_route(&segments(&path));
                let is_forwarded = route.is_some_and(|route| route.allows(&method));
                // Below `v2/` both methods are forwarded at every path, also where only one is documented.
                if operation.is_some() || !path.starts_with("/verification/v2/") {
                    assert_eq!(is_forwarded, operation.is_some(), "{method} {path}");
                }
            }
        }
    }
}
