//! Schemas that have no type in the code of the routes, for the same reason as the components.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use utoipa::openapi::{Object, ObjectBuilder, Ref, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::api::stream::StateChange;
use crate::store::wire::SuggestionBody;

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

pub(crate) fn schema_ref<T: ToSchema>() -> Ref {
    Ref::from_schema_name(T::name())
}
