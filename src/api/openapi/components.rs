//! Parameters, headers, responses and schemas that have no type in the code of the routes, because requests are parsed
//! leniently and upstream responses are forwarded unchanged.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use serde_json::{Value, json};
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, SchemaType};
use utoipa::openapi::{
    KnownFormat, Object, ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema, SchemaFormat, Type,
};
use utoipa::{IntoParams, IntoResponses, PartialSchema, ToSchema};

use crate::api::problem::ProblemBody;
use crate::wire::SuggestionBody;

/// The first two accounts of Hardhat's and Anvil's test networks.
pub(super) const VAULT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
pub(super) const DELEGATE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// Response headers. Those of type `Option` are not in every response that lists them.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct ResponseHeaders {
    /// The request's own id if it is valid, else a generated unique id.
    #[param(
        rename = "X-Request-Id",
        pattern = "^[A-Za-z0-9._:-]{1,64}$",
        example = "3f0c7a52b1d94e68-17"
    )]
    request_id: String,
    /// How long the response may be cached.
    #[param(
        rename = "Cache-Control",
        example = "public, max-age=1, stale-while-revalidate=28, stale-if-error=28"
    )]
    cache_control: String,
    /// Changes with the content.
    #[param(rename = "ETag", pattern = "^\"[0-9a-f]{16}\"$", example = "\"5ff6bd9d1a3df1f1\"")]
    etag: String,
    /// The methods that the route supports.
    #[param(rename = "Allow", pattern = "^[A-Z]+(,[A-Z]+)*$", example = "GET,HEAD")]
    allow: String,
    /// Age of the data in whole seconds, since it was read from a node or from the API.
    #[param(rename = "Age", nullable = false, example = 0)]
    age: Option<u64>,
    /// The newest block that the response was computed from.
    #[param(rename = "X-Newest-Block", nullable = false, example = 43_447_700)]
    newest_block: Option<u64>,
    /// Present if the data is older than two block times, or the chain's head has stalled.
    #[param(rename = "X-Stale", inline, nullable = false, example = "true")]
    stale: Option<OnlyTrue>,
    /// The source of the response: delegate.xyz's API or the registry contract.
    #[param(rename = "X-Delegation-Source", inline, nullable = false, example = "chain")]
    delegation_source: Option<ResponseSource>,
    /// Whole seconds to wait before retrying.
    #[param(rename = "Retry-After", nullable = false, minimum = 1, example = 2)]
    retry_after: Option<u64>,
    /// Request headers that the response depends on.
    #[param(rename = "Vary", nullable = false, example = "x-api-key")]
    vary: Option<String>,
    /// Disables nginx's buffering of events.
    #[param(rename = "X-Accel-Buffering", inline, nullable = false, example = "no")]
    accel_buffering: Option<OnlyNo>,
    /// Restricts the page to resources and requests of this service.
    #[param(
        rename = "Content-Security-Policy",
        nullable = false,
        example = "default-src 'none'; script-src 'self'"
    )]
    content_security_policy: Option<String>,
}

/// Parameters of every operation.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct CommonParameters {
    /// An id for this request: at most 64 letters, digits, `-`, `.`, `_` and `:`. Invalid ids are replaced.
    #[param(rename = "X-Request-Id", nullable = false)]
    request_id: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(in crate::api) struct IfNoneMatch {
    /// Entity tags of cached responses.
    #[param(rename = "If-None-Match", nullable = false)]
    etags: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(in crate::api) struct LastEventId {
    /// The id of the last event that the client received: it is not sent again.
    #[param(rename = "Last-Event-ID", nullable = false)]
    id: Option<String>,
}

/// Parameters of every look-up.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct LookupQuery {
    /// The chain id. Default: the lowest configured one.
    #[param(rename = "chainId")]
    chain_id: Option<u64>,
    /// The state to read: `pending` includes pre-confirmed delegations, read from the chain.
    #[param(inline)]
    block: Option<LookupBlock>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(in crate::api) struct ApiKeyHeader {
    /// The client's own key for delegate.xyz's API, which is forwarded to it.
    #[param(rename = "X-API-KEY", nullable = false)]
    key: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct CheckQuery {
    /// The vault.
    #[param(example = json!(VAULT))]
    from: Address,
    /// The hot wallet.
    #[param(example = json!(DELEGATE))]
    to: Address,
    /// The rights to check; a delegation of all rights includes them.
    rights: Option<Rights>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ContractQuery {
    /// The contract to check.
    #[param(example = json!(VAULT))]
    contract: Address,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct TokenQuery {
    /// The token to check.
    #[param(rename = "tokenId", example = "1")]
    token_id: Uint256,
}

/// Path parameters of the verification service, which must be plain path segments.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct VerificationParameters {
    /// The address to look up.
    address: Address,
    /// The chain's id.
    #[param(rename = "chainId", pattern = "^[1-9][0-9]{0,15}$")]
    chain_id: String,
    /// The id of the verification.
    #[param(rename = "verificationId", format = "uuid")]
    verification_id: String,
}

/// Not modified: `If-None-Match` contains the current `ETag`.
#[derive(IntoResponses)]
#[response(status = 304, headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale")))]
pub(in crate::api) struct NotModified;

/// Not modified: `If-None-Match` contains the current `ETag`.
#[derive(IntoResponses)]
#[response(status = 304, headers(("ETag"), ("Cache-Control")))]
pub(in crate::api) struct PageNotModified;

/// True if `to` may act for `from`.
#[derive(IntoResponses)]
#[response(
    status = 200,
    content_type = "application/json",
    headers(("X-Delegation-Source"), ("Cache-Control"), ("Age"), ("Vary")),
    example = json!(true)
)]
pub(in crate::api) struct CheckResponse(bool);

/// The amount of the token for which `to` may act for `from`; the registry contract's amount is a decimal string.
#[derive(IntoResponses)]
#[response(
    status = 200,
    headers(("X-Delegation-Source"), ("Cache-Control"), ("Age"), ("Vary")),
    example = json!("1000000000000000000")
)]
pub(in crate::api) struct AmountResponse(Uint256);

/// Errors that every route can return. The names of examples are the codes; the values are added later.
#[derive(IntoResponses)]
pub(in crate::api) enum CommonErrors {
    /// Malformed request.
    #[response(status = 400, examples(("bad_request" = ())))]
    BadRequest(ProblemBody<'static>),
    /// The route does not support the method.
    #[response(status = 405, headers(("Allow")), examples(("method_not_allowed" = ())))]
    MethodNotAllowed(ProblemBody<'static>),
    /// The request or its response timed out.
    #[response(status = 408, examples(("request_timeout" = ())))]
    RequestTimeout(ProblemBody<'static>),
    /// Path and query are too long.
    #[response(status = 414, examples(("uri_too_long" = ())))]
    UriTooLong(ProblemBody<'static>),
    /// Too many requests.
    #[response(status = 429, headers(("Retry-After")), examples(("rate_limited" = ())))]
    RateLimited(ProblemBody<'static>),
    /// The headers are too large.
    #[response(status = 431, examples(("headers_too_large" = ())))]
    HeadersTooLarge(ProblemBody<'static>),
    /// Internal error.
    #[response(status = 500, examples(("internal_error" = ())))]
    InternalError(ProblemBody<'static>),
    /// The service is overloaded.
    #[response(status = 503, headers(("Retry-After")), examples(("overloaded" = ())))]
    Overloaded(ProblemBody<'static>),
}

/// A parameter or a body member is invalid; `detail` names it.
#[derive(IntoResponses)]
#[response(status = 400, examples(("bad_request" = ()), ("invalid_parameter" = ())))]
pub(in crate::api) struct InvalidParameter(ProblemBody<'static>);

/// No such route.
#[derive(IntoResponses)]
#[response(status = 404, examples(("not_found" = ())))]
pub(super) struct NotFound(ProblemBody<'static>);

/// Unknown chain.
#[derive(IntoResponses)]
#[response(status = 404, examples(("unknown_chain" = ())))]
pub(in crate::api) struct UnknownChain(ProblemBody<'static>);

/// The body is too large.
#[derive(IntoResponses)]
#[response(status = 413, examples(("payload_too_large" = ())))]
pub(in crate::api) struct PayloadTooLarge(ProblemBody<'static>);

/// The body has a Content-Encoding.
#[derive(IntoResponses)]
#[response(status = 415, examples(("unsupported_media_type" = ())))]
pub(in crate::api) struct UnsupportedMediaType(ProblemBody<'static>);

/// No data for the chain, or only data that is too old to serve; or the service is overloaded.
#[derive(IntoResponses)]
#[response(
    status = 503,
    headers(("Retry-After")),
    examples(("no_data" = ()), ("stale_data" = ()), ("overloaded" = ()))
)]
pub(in crate::api) struct FeesUnavailable(ProblemBody<'static>);

/// Not ready for traffic.
#[derive(IntoResponses)]
#[response(status = 503, headers(("Retry-After")), examples(("not_ready" = ()), ("overloaded" = ())))]
pub(in crate::api) struct NotReady(ProblemBody<'static>);

/// Errors of routes that query a node or another service.
#[derive(IntoResponses)]
pub(in crate::api) enum UpstreamErrors {
    /// The upstream did not return a usable response.
    #[response(
        status = 502,
        examples(("upstream_unreachable" = ()), ("upstream_invalid" = ()), ("registry_absent" = ()))
    )]
    BadGateway(ProblemBody<'static>),
    /// The upstream did not respond in time.
    #[response(status = 504, examples(("upstream_timeout" = ())))]
    GatewayTimeout(ProblemBody<'static>),
}

/// An address. Mixed case must be a valid checksum (EIP-55).
#[derive(ToSchema)]
#[schema(pattern = "^0x[0-9a-fA-F]{40}$", format = "address", examples(json!(VAULT)))]
pub(in crate::api) struct Address(String);

/// The rights: 32 bytes in hex, or a string of at most 31 bytes. Empty: all rights.
#[derive(ToSchema)]
#[schema(
    pattern = "^(0x[0-9a-fA-F]{64}|(?!0x)[^\\u0000-\\u001f\\u007f-\\u009f]{0,31})$",
    format = "rights",
    examples("claim")
)]
pub(super) struct Rights(String);

/// A number from 0 to 2^256 - 1, as a decimal string.
#[derive(ToSchema)]
#[schema(pattern = "^[0-9]+$", format = "uint256", examples("1000000000000000000"))]
pub(super) struct Uint256(String);

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(in crate::api) enum DirectionName {
    Incoming,
    Outgoing,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum LookupBlock {
    Latest,
    Pending,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum ResponseSource {
    Api,
    Chain,
}

#[derive(ToSchema)]
enum OnlyTrue {
    #[schema(rename = "true")]
    True,
}

#[derive(ToSchema)]
enum OnlyNo {
    #[schema(rename = "no")]
    No,
}

#[derive(ToSchema)]
enum JsonRpcVersion {
    #[schema(rename = "2.0")]
    V2,
}

#[derive(ToSchema)]
enum EventName {
    #[schema(rename = "gas-suggestion")]
    GasSuggestion,
}

#[derive(ToSchema)]
pub(in crate::api) struct HealthBody {
    #[schema(inline)]
    status: HealthStatus,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum HealthStatus {
    Live,
    Ready,
}

/// A server-sent event: a suggestion with a new newest block, or a new price.
#[derive(ToSchema)]
pub(in crate::api) struct SuggestionEvent {
    #[schema(inline)]
    event: EventName,
    /// The newest block, a dash and the entity tag; in the stream of all chains the chain id and a dash before that.
    #[schema(pattern = "^([0-9]+-)?[0-9]+-[0-9a-f]{16}$")]
    id: String,
    #[schema(schema_with = event_data)]
    data: String,
}

fn event_data() -> Object {
    let schema = ObjectBuilder::new().schema_type(Type::String);
    schema
        .content_media_type("application/json")
        .content_schema(Some(schema_ref::<SuggestionBody>()))
        .build()
}

/// An `RpcCall` or a list of them. Any other body gets status 200 with a JSON-RPC error, so this schema allows it.
#[derive(ToSchema)]
pub(in crate::api) struct RpcRequest(Value);

/// A JSON-RPC 2.0 call. Without `id` it is a notification, which is ignored.
#[derive(ToSchema)]
pub(in crate::api) struct RpcCall {
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
pub(in crate::api) enum RpcResponseBody {
    Single(RpcOutcome),
    Batch(Vec<RpcOutcome>),
}

/// The outcome of a call: `result` or `error`.
#[derive(ToSchema)]
pub(in crate::api) struct RpcOutcome {
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

pub(super) fn schema_ref<T: ToSchema>() -> Ref {
    Ref::from_schema_name(T::name())
}

pub(in crate::api) struct TransactionRequest;

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
