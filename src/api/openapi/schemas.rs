//! Schemas that have no type in the code of the routes, for the same reason as the components.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use serde_json::{Value, json};
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, SchemaType};
use utoipa::openapi::{
    KnownFormat, Object, ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema, SchemaFormat, Type,
};
use utoipa::{PartialSchema, ToSchema};

use crate::api::stream::StateChange;
use crate::api::wire::SuggestionBody;

/// The first two accounts of Hardhat's and Anvil's test networks.
pub(crate) const VAULT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
pub(crate) const DELEGATE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// An address. Mixed case must be a valid checksum (EIP-55).
#[derive(ToSchema)]
#[schema(pattern = "^0x[0-9a-fA-F]{40}$", format = "address", examples(json!(VAULT)))]
pub(crate) struct Address(String);

/// The rights: 32 bytes in hex, or a string of at most 31 bytes. Empty: all rights.
#[derive(ToSchema)]
#[schema(
    pattern = "^(0x[0-9a-fA-F]{64}|(?!0x)[^\\u0000-\\u001f\\u007f-\\u009f]{0,31})$",
    format = "rights",
    examples("claim")
)]
pub(crate) struct Rights(String);

/// A number from 0 to 2^256 - 1, as a decimal string.
#[derive(ToSchema)]
#[schema(pattern = "^[0-9]+$", format = "uint256", examples("1000000000000000000"))]
pub(crate) struct Uint256(String);

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum DirectionName {
    Incoming,
    Outgoing,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum LookupBlock {
    Latest,
    Pending,
}

#[derive(ToSchema)]
pub(crate) enum TrendPeriod {
    #[schema(rename = "1h")]
    Hour,
    #[schema(rename = "24h")]
    Day,
    #[schema(rename = "7d")]
    Week,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum ResponseSource {
    Api,
    Chain,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum EtherscanModule {
    Gastracker,
    Proxy,
}

#[derive(ToSchema)]
pub(crate) enum EtherscanAction {
    #[schema(rename = "gasoracle")]
    GasOracle,
    #[schema(rename = "eth_gasPrice")]
    GasPrice,
    #[schema(rename = "eth_getBlockByNumber")]
    Block,
}

#[derive(ToSchema)]
pub(crate) enum OnlyTrue {
    #[schema(rename = "true")]
    True,
}

#[derive(ToSchema)]
pub(crate) enum OnlyNo {
    #[schema(rename = "no")]
    No,
}

#[derive(ToSchema)]
enum JsonRpcVersion {
    #[schema(rename = "2.0")]
    V2,
}

#[derive(ToSchema)]
enum SuggestionEventName {
    #[schema(rename = "gas-suggestion")]
    GasSuggestion,
}

#[derive(ToSchema)]
enum StatusEventName {
    #[schema(rename = "status")]
    Status,
}

#[derive(ToSchema)]
pub(crate) struct HealthBody {
    #[schema(inline)]
    status: HealthStatus,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum HealthStatus {
    Live,
    Ready,
}

/// A server-sent event.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum StreamEvent {
    Suggestion(SuggestionEvent),
    Status(StatusEvent),
}

/// An event with a suggestion: it has a new newest block, or a new price.
#[derive(ToSchema)]
pub(crate) struct SuggestionEvent {
    #[schema(inline)]
    event: SuggestionEventName,
    /// The newest block, a dash and the entity tag; in the stream of all chains the chain id and a dash before that.
    #[schema(pattern = "^([0-9]+-)?[0-9]+-[0-9a-f]{16}$")]
    id: String,
    #[schema(schema_with = suggestion_data)]
    data: String,
}

/// An event without an id: the status of a chain has changed, or is not `fresh` when the stream begins.
#[derive(ToSchema)]
pub(crate) struct StatusEvent {
    #[schema(inline)]
    event: StatusEventName,
    #[schema(schema_with = status_data)]
    data: String,
}

fn suggestion_data() -> Object {
    json_text(schema_ref::<SuggestionBody>())
}

fn status_data() -> Object {
    json_text(StateChange::schema())
}

/// Describes a string with a JSON text of this schema.
fn json_text(schema: impl Into<RefOr<Schema>>) -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.content_media_type("application/json").content_schema(Some(schema.into())).build()
}

/// An `RpcCall` or a list of them. Any other body gets status 200 with a JSON-RPC error, so this schema allows it.
#[derive(ToSchema)]
pub(crate) struct RpcRequest(Value);

/// A JSON-RPC 2.0 call. Without `id` it is a notification, which is ignored.
#[derive(ToSchema)]
pub(crate) struct RpcCall {
    #[schema(inline)]
    jsonrpc: JsonRpcVersion,
    #[schema(schema_with = rpc_id, required = false)]
    id: Value,
    method: String,
    #[schema(schema_with = rpc_params, required = false)]
    params: Value,
}

/// A response for a call, or a list of them for a batch.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum RpcResponseBody {
    Single(RpcOutcome),
    Batch(Vec<RpcOutcome>),
}

/// The outcome of a call: `result` or `error`.
#[derive(ToSchema)]
pub(crate) struct RpcOutcome {
    #[schema(inline)]
    jsonrpc: JsonRpcVersion,
    #[schema(schema_with = rpc_id)]
    id: Value,
    #[schema(required = false)]
    result: Value,
    #[schema(inline, nullable = false)]
    error: Option<RpcError>,
}

#[derive(ToSchema)]
struct RpcError {
    code: i64,
    message: String,
    #[schema(required = false)]
    data: Value,
}

fn rpc_id() -> Object {
    let types = SchemaType::from_iter([Type::String, Type::Number, Type::Null]);
    ObjectBuilder::new().schema_type(types).description(Some("The id of the call.")).build()
}

fn rpc_params() -> Schema {
    let types = SchemaType::from_iter([Type::Array, Type::Object, Type::Null]);
    ArrayBuilder::new()
        .schema_type(types)
        .items(ObjectBuilder::new().schema_type(SchemaType::AnyValue))
        .into()
}

pub(crate) fn schema_ref<T: ToSchema>() -> Ref {
    Ref::from_schema_name(T::name())
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
        .property("from", schema_ref::<Address>())
        .property("to", schema_ref::<Address>())
        .property("action", string().enum_values(Some([action])))
        .property("rights", schema_ref::<Rights>());
    if members.contains(&"contract") {
        schema = schema.property("contract", schema_ref::<Address>());
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
