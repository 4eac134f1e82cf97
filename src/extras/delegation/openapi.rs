//! Descriptions of headers and bodies of look-ups and transactions that have no type of their own.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use serde_json::json;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{
    KnownFormat, ObjectBuilder, OneOfBuilder, RefOr, Schema, SchemaFormat, Type,
};
use utoipa::{IntoParams, IntoResponses, PartialSchema, ToSchema};

use super::parameters::{Rights, Uint256};
use crate::api::openapi::schemas::schema_ref;
use crate::http::address::AddressText;

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct ApiKeyHeader {
    /// The client's own key for delegate.xyz's API, which is forwarded to it.
    #[param(rename = "X-API-KEY", nullable = false)]
    key: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum ResponseSource {
    Api,
    Chain,
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
pub(crate) struct AmountResponse(Uint256);

/// Response headers of look-ups.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct LookupHeaders {
    /// The source of the response: delegate.xyz's API or the registry contract.
    #[param(rename = "X-Delegation-Source", inline, nullable = false, example = "chain")]
    delegation_source: Option<ResponseSource>,
}

pub(crate) struct TransactionRequest;

impl ToSchema for TransactionRequest {}

impl PartialSchema for TransactionRequest {
    fn schema() -> RefOr<Schema> {
        /// Actions with the members that they require. An action with an amount has three variants: without `enable`,
        /// granting and revoking.
        const VARIANTS: [(&str, &[&str], Option<bool>); 9] = [
            ("delegate_all", &[], None),
            ("delegate_contract", &["contract"], None),
            ("delegate_erc721", &["contract", "token_id"], None),
            ("delegate_erc20", &["contract", "amount"], None),
            ("delegate_erc20", &["contract", "amount", "enable"], Some(true)),
            ("delegate_erc20", &["contract", "enable"], Some(false)),
            ("delegate_erc1155", &["contract", "token_id", "amount"], None),
            ("delegate_erc1155", &["contract", "token_id", "amount", "enable"], Some(true)),
            ("delegate_erc1155", &["contract", "token_id", "enable"], Some(false)),
        ];
        let request = OneOfBuilder::new().description(Some(
            "The rights that `from` delegates to `to` or revokes. Members that do not apply to the action are rejected.",
        ));
        let variants = VARIANTS.into_iter().map(transaction_variant);
        variants.fold(request, OneOfBuilder::item).into()
    }
}

fn transaction_variant((action, members, enable): (&str, &[&str], Option<bool>)) -> ObjectBuilder {
    let string = || ObjectBuilder::new().schema_type(Type::String);
    let flag = ObjectBuilder::new().schema_type(Type::Boolean);
    let number =
        |minimum| OneOfBuilder::new().item(schema_ref::<Uint256>()).item(safe_integer(minimum));
    let mut schema = ObjectBuilder::new()
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
        .property("from", schema_ref::<AddressText>())
        .property("to", schema_ref::<AddressText>())
        .property("action", string().enum_values(Some([action])))
        .property("rights", schema_ref::<Rights>());
    if members.contains(&"contract") {
        schema = schema.property("contract", schema_ref::<AddressText>());
    }
    if members.contains(&"token_id") {
        schema = schema.property("token_id", number(0));
    }
    let takes_amount = matches!(action, "delegate_erc20" | "delegate_erc1155");
    if takes_amount {
        let positive = string()
            .pattern(Some("^0*[1-9][0-9]*$"))
            .format(Some(SchemaFormat::Custom("uint256".into())));
        schema = schema.property(
            "amount",
            match enable {
                Some(true) => OneOfBuilder::new().item(positive).item(safe_integer(1)),
                _ => number(0),
            },
        );
    }
    if enable.is_some() || !takes_amount {
        schema = schema.property("enable", flag.enum_values(enable.map(|value| [json!(value)])));
    }
    ["from", "to", "action"]
        .iter()
        .chain(members)
        .fold(schema, |schema, name| schema.required(*name))
}

/// An integer that no JSON implementation rounds.
fn safe_integer(minimum: u64) -> ObjectBuilder {
    const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(minimum))
        .maximum(Some(MAX_SAFE_INTEGER))
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
}
