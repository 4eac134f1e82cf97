//! Descriptions of the events of a stream.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use utoipa::openapi::{Object, ObjectBuilder, RefOr, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::StateChange;
use crate::api::openapi::schema_ref;
use crate::store::wire::SuggestionBody;

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct LastEventId {
    /// The id of the last event that the client received: it is not sent again.
    #[param(rename = "Last-Event-ID", nullable = false)]
    id: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LastEventIdQuery {
    /// The same for readers that cannot set the header, which wins. Other parameters are ignored.
    #[param(rename = "lastEventId", nullable = false)]
    id: Option<String>,
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
