//! The parameters of operations, each described once.

use serde_json::json;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, RefOr, Required, Schema, Type};

use super::schemas::{Address, DELEGATE, Rights, Uint256, VAULT, of, text};
use crate::api::extract::{BlockCount, OfChain};

/// Names the parameters that an operation takes.
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
    IfNoneMatch { Header "If-None-Match" False text(), "Entity tags of what the client has."; }
    LastEventId { Header "Last-Event-ID" False text(), "The id of the last event that the client was told: it is not told the same again."; }
    ApiKey { Header "X-API-KEY" False text(), "The client's own key for delegate.xyz's API, which is sent on to it."; }
    DelegationAddress { Path "address" True of::<Address>(), "The address that is asked about."; }
    /// Of every look-up; which chains there are is filled in later.
    LookUp {
        Query "chainId" False ObjectBuilder::new().schema_type(Type::Integer), "The chain, by its id. The lowest that is configured where there is none.";
        Query "block" False one_of(&["latest", "pending"]), "The state that is asked for: `pending` reads pre-confirmed delegations, from the chain.";
    }
    OfCheck {
        Query "from" True of::<Address>(), "The vault.", VAULT;
        Query "to" True of::<Address>(), "The hot wallet.", DELEGATE;
        Query "rights" False of::<Rights>(), "The rights that are asked for; a delegation of all rights has them too.";
    }
    OfContract { Query "contract" True of::<Address>(), "The contract that is asked for.", VAULT; }
    OfToken { Query "tokenId" True of::<Uint256>(), "The token that is asked for.", "1"; }
    DelegationDirection { Query "direction" False one_of(&["incoming", "outgoing"]), "Those to the address, or those from it; both where there is none."; }
    RequestId { Header "X-Request-Id" False text(), "An id for this request of at most 64 letters, digits, `-`, `.`, `_` and `:`. Any other is replaced."; }
}

impl IntoParams for OfChain {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let what = "The chain, by its key in the configuration or by its id.";
        vec![parameter(ParameterIn::Path, "chain", Required::True, what, text()).build()]
    }
}

impl IntoParams for BlockCount {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let what = "How many blocks, at most the chain's `history_blocks`.";
        let schema = ObjectBuilder::new().schema_type(Type::Integer).default(Some(json!(20)));
        let schema = schema.minimum(Some(1_u8));
        vec![parameter(ParameterIn::Query, "blocks", Required::False, what, schema).build()]
    }
}

pub(in crate::api) fn parameter(
    within: ParameterIn,
    name: &str,
    required: Required,
    what: &str,
    schema: impl Into<RefOr<Schema>>,
) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(within)
        .required(required)
        .description(Some(what))
        .schema(Some(schema))
}

pub(in crate::api) fn one_of(values: &[&str]) -> ObjectBuilder {
    text().enum_values(Some(values.iter().copied()))
}
