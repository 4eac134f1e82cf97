//! Schemas without a type in the code, because the body is parsed leniently or forwarded unchanged.

use serde_json::json;
use utoipa::openapi::schema::{AdditionalProperties, SchemaType};
use utoipa::openapi::{
    KnownFormat, ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema, SchemaFormat, Type,
};
use utoipa::{PartialSchema, ToSchema};

use crate::wire::SuggestionBody;

/// Declares schemas.
macro_rules! schemas {
    ($($name:ident = $schema:expr;)*) => {
        $(
            pub(in crate::api) struct $name;

            impl ToSchema for $name {}

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    $schema.into()
                }
            }
        )*
    };
}

schemas! {
    Address = string_schema()
        .pattern(Some("^0x[0-9a-fA-F]{40}$"))
        .format(Some(custom_format("address")))
        .description(Some("An address. Mixed case must be a valid checksum (EIP-55)."))
        .examples([json!(VAULT)]);
    Rights = string_schema()
        .pattern(Some("^(0x[0-9a-fA-F]{64}|(?!0x)[^\\u0000-\\u001f\\u007f-\\u009f]{0,31})$"))
        .format(Some(custom_format("rights")))
        .description(Some(
            "The rights: 32 bytes in hex, or a string of at most 31 bytes. Empty: all rights.",
        ))
        .examples([json!("claim")]);
    Uint256 = string_schema()
        .pattern(Some("^[0-9]+$"))
        .format(Some(custom_format("uint256")))
        .description(Some("A number from 0 to 2^256 - 1, as a decimal string."))
        .examples([json!("1000000000000000000")]);
    SuggestionEvent = ObjectBuilder::new()
        .description(Some("A server-sent event: a suggestion with a new newest block, or a new price."))
        .property("event", string_schema().enum_values(Some(["gas-suggestion"])))
        .required("event")
        .property("id", string_schema().pattern(Some("^([0-9]+-)?[0-9]+-[0-9a-f]{16}$")).description(Some(
            "The newest block, a dash and the entity tag; in the stream of all chains the chain id and a \
             dash before that.",
        )))
        .required("id")
        .property("data", string_schema().content_media_type("application/json").content_schema(Some(schema_ref::<SuggestionBody>())))
        .required("data");
    RpcCall = ObjectBuilder::new()
        .description(Some("A JSON-RPC 2.0 call. Without `id` it is a notification, which is ignored."))
        .property("jsonrpc", string_schema().enum_values(Some(["2.0"])))
        .required("jsonrpc")
        .property("id", rpc_id())
        .property("method", string_schema())
        .required("method")
        .property("params", ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::Array, Type::Object, Type::Null])));
    RpcRequest = ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(
        "An `RpcCall` or a list of them. Any other body gets status 200 with a JSON-RPC error, so this schema allows it.",
    ));
    RpcOutcome = ObjectBuilder::new()
        .description(Some("The outcome of a call: `result` or `error`."))
        .property("jsonrpc", string_schema().enum_values(Some(["2.0"])))
        .required("jsonrpc")
        .property("id", rpc_id())
        .required("id")
        .property("result", ObjectBuilder::new().schema_type(SchemaType::AnyValue))
        .property("error", rpc_error());
    TransactionRequest = transaction_request();
}

/// The first two accounts of Hardhat's and Anvil's test networks.
pub(in crate::api) const VAULT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
pub(in crate::api) const DELEGATE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

pub(in crate::api) fn schema_ref<T: ToSchema>() -> Ref {
    Ref::from_schema_name(T::name())
}

pub(in crate::api) fn string_schema() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

pub(in crate::api) fn custom_format(format: &str) -> SchemaFormat {
    SchemaFormat::Custom(format.to_owned())
}

fn rpc_id() -> ObjectBuilder {
    let types = SchemaType::from_iter([Type::String, Type::Number, Type::Null]);
    ObjectBuilder::new().schema_type(types).description(Some("The id of the call."))
}

fn rpc_error() -> ObjectBuilder {
    ObjectBuilder::new()
        .property("code", ObjectBuilder::new().schema_type(Type::Integer))
        .required("code")
        .property("message", string_schema())
        .required("message")
        .property("data", ObjectBuilder::new().schema_type(SchemaType::AnyValue))
}

/// Builds the schema, with a variant per action. An action with an amount has three: without `enable`, granting and
/// revoking.
fn transaction_request() -> OneOfBuilder {
    let flag_schema = |value: Option<bool>| {
        let values = value.map(|value| [json!(value)]);
        ObjectBuilder::new().schema_type(Type::Boolean).enum_values(values)
    };
    let action_schema = |action: &str, required: &[&str]| {
        let mut schema = ObjectBuilder::new()
            .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
            .property("from", schema_ref::<Address>())
            .property("to", schema_ref::<Address>())
            .property("action", string_schema().enum_values(Some([action])))
            .property("rights", schema_ref::<Rights>());
        for name in ["from", "to", "action"].iter().chain(required) {
            schema = match *name {
                "contract" => schema.property("contract", schema_ref::<Address>()),
                "token_id" => schema.property("token_id", uint256_or_integer()),
                _ => schema,
            };
            schema = schema.required(*name);
        }
        schema
    };
    let mut request = OneOfBuilder::new().description(Some(
        "The rights that `from` delegates to `to` or revokes. Members that do not apply to the action are rejected.",
    ));
    for (action, required) in [
        ("delegate_all", &[][..]),
        ("delegate_contract", &["contract"]),
        ("delegate_erc721", &["contract", "token_id"]),
    ] {
        request =
            request.item(action_schema(action, required).property("enable", flag_schema(None)));
    }
    for (action, required) in
        [("delegate_erc20", &["contract"][..]), ("delegate_erc1155", &["contract", "token_id"])]
    {
        let shape = || action_schema(action, required);
        request = request
            .item(shape().property("amount", uint256_or_integer()).required("amount"))
            .item(
                shape()
                    .property("amount", positive_uint256_or_integer())
                    .required("amount")
                    .property("enable", flag_schema(Some(true)))
                    .required("enable"),
            )
            .item(
                shape()
                    .property("amount", uint256_or_integer())
                    .property("enable", flag_schema(Some(false)))
                    .required("enable"),
            );
    }
    request
}

/// Builds the schema of a number: a string, or an integer that no JSON implementation rounds.
fn uint256_or_integer() -> OneOfBuilder {
    OneOfBuilder::new().item(schema_ref::<Uint256>()).item(integer_from(0))
}

fn positive_uint256_or_integer() -> OneOfBuilder {
    let digits =
        string_schema().pattern(Some("^0*[1-9][0-9]*$")).format(Some(custom_format("uint256")));
    OneOfBuilder::new().item(digits).item(integer_from(1))
}

fn integer_from(minimum: u64) -> ObjectBuilder {
    const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
    let integer = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(minimum));
    integer
        .maximum(Some(MAX_SAFE_INTEGER))
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
}
