//! Responses that are forwarded from another service.

use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content, RefOr, Schema};

use super::as_object;

/// Adds the upstream's errors to those of this service. `relax` returns the schema of what the upstream sends instead of a
/// body of this service.
pub(crate) fn add(operation: &mut Operation, relax: impl Fn(RefOr<Schema>) -> RefOr<Schema>) {
    for (status, response) in &mut operation.responses.responses {
        let Some(response) = as_object(response) else { continue };
        if status == "default" {
            response.description += " Or the upstream's response.";
            response.headers.retain(|name, _| name == "X-Request-Id");
            response.content.insert("*/*".to_owned(), Content::default().into());
        } else {
            for content in response.content.values_mut().filter_map(as_object) {
                content.schema = content.schema.take().map(&relax);
            }
        }
    }
}
