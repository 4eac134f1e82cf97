//! Schemas of what has no type of its own in the code, because it is read leniently or passed on as it is.

use serde_json::json;
use utoipa::openapi::schema::{AdditionalProperties, SchemaType};
use utoipa::openapi::{
    KnownFormat, ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema, SchemaFormat, Type,
};
use utoipa::{PartialSchema, ToSchema};

use crate::wire::SuggestionBody;

/// Names schemas.
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
    Address = text()
        .pattern(Some("^0x[0-9a-fA-F]{40}$"))
        .format(Some(custom("address")))
        .description(Some("An address. Upper and lower case together are its checksum (EIP-55)."))
        .examples([json!(VAULT)]);
    Rights = text()
        .pattern(Some("^(0x[0-9a-fA-F]{64}|(?!0x)[^\\u0000-\\u001f\\u007f-\\u009f]{0,31})$"))
        .format(Some(custom("rights")))
        .description(Some(
            "The rights: 32 bytes in hex, or a string of at most 31 bytes. All rights where it is empty.",
        ))
        .examples([json!("claim")]);
    Uint256 = text()
        .pattern(Some("^[0-9]+$"))
        .format(Some(custom("uint256")))
        .description(Some("A number from 0 to 2^256 - 1, as a decimal string."))
        .examples([json!("1000000000000000000")]);
    SuggestionEvent = ObjectBuilder::new()
        .description(Some("A server-sent event: a suggestion with a new newest block, or a new price."))
        .property("event", text().enum_values(Some(["gas-suggestion"])))
        .required("event")
        .property("id", text().pattern(Some("^([0-9]+-)?[0-9]+-[0-9a-f]{16}$")).description(Some(
            "The newest block, a dash and the entity tag; in the stream of all chains the chain id and a \
             dash before that.",
        )))
        .required("id")
        .property("data", text().content_media_type("application/json").content_schema(Some(of::<SuggestionBody>())))
        .required("data");
    RpcCall = ObjectBuilder::new()
        .description(Some("A JSON-RPC 2.0 call; without `id` a notification, for which nothing is done."))
        .property("jsonrpc", text().enum_values(Some(["2.0"])))
        .required("jsonrpc")
        .property("id", id())
        .property("method", text())
        .required("method")
        .property("params", ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::Array, Type::Object, Type::Null])));
    RpcRequest = ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(
        "An `RpcCall`, or a list of them. Anything else is answered with status 200 and a JSON-RPC error, so \
         that it is not forbidden here.",
    ));
    RpcOutcome = ObjectBuilder::new()
        .description(Some("What a call came to: `result`, or `error`."))
        .property("jsonrpc", text().enum_values(Some(["2.0"])))
        .required("jsonrpc")
        .property("id", id())
        .required("id")
        .property("result", ObjectBuilder::new().schema_type(SchemaType::AnyValue))
        .property("error", rpc_error());
    TransactionRequest = transaction_request();
}

/// Two accounts that everybody knows from test networks.
pub(in crate::api) const VAULT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
pub(in crate::api) const DELEGATE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

pub(in crate::api) fn of<T: ToSchema>() -> Ref {
    Ref::from_schema_name(T::name())
}

pub(in crate::api) fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

pub(in crate::api) fn custom(format: &str) -> SchemaFormat {
    SchemaFormat::Custom(format.to_owned())
}

fn id() -> ObjectBuilder {
    let types = SchemaType::from_iter([Type::String, Type::Number, Type::Null]);
    ObjectBuilder::new().schema_type(types).description(Some("As the call has it."))
}

fn rpc_error() -> ObjectBuilder {
    ObjectBuilder::new()
        .property("code", ObjectBuilder::new().schema_type(Type::Integer))
        .required("code")
        .property("message", text())
        .required("message")
        .property("data", ObjectBuilder::new().schema_type(SchemaType::AnyValue))
}

/// One shape for each action, and where an amount is taken back, or given, another.
fn transaction_request() -> OneOfBuilder {
    let flag = |value: Option<bool>| {
        let values = value.map(|value| [json!(value)]);
        ObjectBuilder::new().schema_type(Type::Boolean).enum_values(values)
    };
    let shape = |action: &str, required: &[&str]| {
        let mut shape = ObjectBuilder::new()
            .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
            .property("from", of::<Address>())
            .property("to", of::<Address>())
            .property("action", text().enum_values(Some([action])))
            .property("rights", of::<Rights>());
        for name in ["from", "to", "action"].iter().chain(required) {
            shape = match *name {
                "contract" => shape.property("contract", of::<Address>()),
                "token_id" => shape.property("token_id", number()),
                _ => shape,
            };
            shape = shape.required(*name);
        }
        shape
    };
    let mut request = OneOfBuilder::new().description(Some(
        "What `from` gives `to`, or takes back. A member that the action has no use for is refused.",
    ));
    for (action, required) in [
        ("delegate_all", &[][..]),
        ("delegate_contract", &["contract"]),
        ("delegate_erc721", &["contract", "token_id"]),
    ] {
        request = request.item(shape(action, required).property("enable", flag(None)));
    }
    for (action, required) in
        [("delegate_erc20", &["contract"][..]), ("delegate_erc1155", &["contract", "token_id"])]
    {
        let shape = || shape(action, required);
        request = request
            .item(shape().property("amount", number()).required("amount"))
            .item(
                shape()
                    .property("amount", positive())
                    .required("amount")
                    .property("enable", flag(Some(true)))
                    .required("enable"),
            )
            .item(
                shape()
                    .property("amount", number())
                    .property("enable", flag(Some(false)))
                    .required("enable"),
            );
    }
    request
}

/// A number as a string, or as an integer that no reader or writer of JSON rounds.
fn number() -> OneOfBuilder {
    OneOfBuilder::new().item(of::<Uint256>()).item(integer(0))
}

fn positive() -> OneOfBuilder {
    let digits = text().pattern(Some("^0*[1-9][0-9]*$")).format(Some(custom("uint256")));
    OneOfBuilder::new().item(digits).item(integer(1))
}

fn integer(least: u64) -> ObjectBuilder {
    const MOST_OF_JSON: u64 = (1 << 53) - 1;
    let integer = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least));
    integer.maximum(Some(MOST_OF_JSON)).format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
}
