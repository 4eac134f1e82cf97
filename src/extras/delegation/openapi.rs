//! Descriptions of headers and bodies of look-ups that have no type of their own.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use std::collections::BTreeMap;

use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Response, Schema, Type};
use utoipa::{IntoParams, IntoResponses, OpenApi, PartialSchema, ToSchema};

use super::address::AddressText;
use super::parameters::{Rights, Uint256};
use super::registry::Delegation;
use crate::api::openapi::schema_ref;

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct ApiKeyHeader {
    /// The client's own key for delegate.xyz's API, which is forwarded to it.
    #[param(rename = "X-API-KEY", nullable = false)]
    key: Option<String>,
}

/// True if `to` may act for `from`.
#[derive(IntoResponses)]
#[response(
    status = 200,
    content_type = "application/json",
    headers(("X-Delegation-Source"), ("Cache-Control"), ("Age"), ("Vary")),
    example = json!(true)
)]
pub(crate) struct CheckResponse(bool);

/// The amount of the token for which `to` may act for `from`; the registry contract's amount is a decimal string.
#[derive(IntoResponses)]
#[response(
    status = 200,
    headers(("X-Delegation-Source"), ("Cache-Control"), ("Age"), ("Vary")),
    example = json!("1000000000000000000")
)]
pub(crate) struct AmountResponse(#[to_schema] Amount);

/// Errors of this service, or of the API.
pub(crate) struct UpstreamErrors;

impl IntoResponses for UpstreamErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let errors = Ref::new("#/components/responses/UpstreamError");
        BTreeMap::from([("default".to_owned(), errors.into())])
    }
}

/// An amount, which the API writes as a number.
pub(crate) struct Amount;

impl ToSchema for Amount {}

impl PartialSchema for Amount {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0));
        AnyOfBuilder::new().item(schema_ref::<Uint256>()).item(number).into()
    }
}

/// A delegation, to which the API may add members.
pub(crate) struct ListedDelegation;

impl ToSchema for ListedDelegation {}

impl PartialSchema for ListedDelegation {
    fn schema() -> RefOr<Schema> {
        let known = schema_ref::<Delegation>();
        AnyOfBuilder::new().item(known).item(ObjectBuilder::new()).into()
    }
}

/// Schemas that the others refer to.
#[derive(OpenApi)]
#[openapi(components(schemas(AddressText, Delegation, Rights, Uint256)))]
pub(crate) struct Schemas;
