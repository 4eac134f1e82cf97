//! Parameters of operations, each described once.

use serde_json::json;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, RefOr, Required, Schema, Type};

use super::schemas::{Address, DELEGATE, Rights, Uint256, VAULT, schema_ref, string_schema};
use crate::api::extractors::{BlockCount, ChainParam};

/// Declares the parameters of an operation.
macro_rules! parameters {
    ($($(#[$about:meta])* $name:ident { $($in:ident $parameter:literal $required:ident $schema:expr, $what:literal $(, $example:expr)?;)* })*) => {
        $(
            $(#[$about])*
            pub(in crate::api) struct $name;

            impl IntoParams for $name {
                fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                    vec![$({
                        let parameter = parameter(ParameterIn::$in, $parameter, Required::$required, $what, $schema);
                        $(let parameter = parameter.example(Some(json!($example)));)?
                        parameter.build()
                    }),*]
                }
            }
        )*
    };
}

parameters! {
    IfNoneMatch { Header "If-None-Match" False string_schema(), "Entity tags of cached responses."; }
    LastEventId { Header "Last-Event-ID" False string_schema(), "The id of the last event that the client received: it is not sent again."; }
    ApiKeyHeader { Header "X-API-KEY" False string_schema(), "The client's own key for delegate.xyz's API, which is forwarded to it."; }
    DelegationAddress { Path "address" True schema_ref::<Address>(), "The address to look up."; }
    /// Parameters of every look-up. The configured chains are added later.
    LookupQuery {
        Query "chainId" False ObjectBuilder::new().schema_type(Type::Integer), "The chain id. Default: the lowest configured one.";
        Query "block" False string_enum(&["latest", "pending"]), "The state to read: `pending` includes pre-confirmed delegations, read from the chain.";
    }
    CheckQuery {
        Query "from" True schema_ref::<Address>(), "The vault.", VAULT;
        Query "to" True schema_ref::<Address>(), "The hot wallet.", DELEGATE;
        Query "rights" False schema_ref::<Rights>(), "The rights to check; a delegation of all rights includes them.";
    }
    ContractQuery { Query "contract" True schema_ref::<Address>(), "The contract to check.", VAULT; }
    TokenQuery { Query "tokenId" True schema_ref::<Uint256>(), "The token to check.", "1"; }
    DelegationDirection { Query "direction" False string_enum(&["incoming", "outgoing"]), "Delegations to the address (`incoming`) or from it (`outgoing`). Default: both."; }
    RequestId { Header "X-Request-Id" False string_schema(), "An id for this request: at most 64 letters, digits, `-`, `.`, `_` and `:`. Invalid ids are replaced."; }
}

impl IntoParams for ChainParam {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "The chain, by its key in the configuration or by its id.";
        vec![
            parameter(ParameterIn::Path, "chain", Required::True, description, string_schema())
                .build(),
        ]
    }
}

impl IntoParams for BlockCount {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "Number of blocks, at most the chain's `history_blocks`.";
        let schema = ObjectBuilder::new().schema_type(Type::Integer).default(Some(json!(20)));
        let schema = schema.minimum(Some(1_u8));
        vec![parameter(ParameterIn::Query, "blocks", Required::False, description, schema).build()]
    }
}

pub(in crate::api) fn parameter(
    location: ParameterIn,
    name: &str,
    required: Required,
    description: &str,
    schema: impl Into<RefOr<Schema>>,
) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(location)
        .required(required)
        .description(Some(description))
        .schema(Some(schema))
}

pub(in crate::api) fn string_enum(values: &[&str]) -> ObjectBuilder {
    string_schema().enum_values(Some(values.iter().copied()))
}
