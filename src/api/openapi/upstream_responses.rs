//! Responses that are forwarded from another service.

use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content, Ref, RefOr, Response as ResponseObject, Schema};

use super::{PROBLEM, as_object};

/// Adds the upstream's responses to those of this service, whose status the upstream may also return: any with one of
/// these `statuses`. `relax` returns the schema of what the upstream sends instead of a body of this service.
pub(crate) fn add(
    operation: &mut Operation,
    statuses: &[&str],
    relax: impl Fn(RefOr<Schema>) -> RefOr<Schema>,
) {
    let any_content = || ("*/*".to_owned(), RefOr::T(Content::default()));
    let responses = &mut operation.responses.responses;
    for response in responses.values_mut().filter_map(as_object) {
        if response.content.contains_key(PROBLEM) {
            response.description += " Or the upstream's response with this status.";
            response.headers.retain(|name, _| name == "X-Request-Id");
            response.content.extend([any_content()]);
        } else {
            for content in response.content.values_mut().filter_map(as_object) {
                content.schema = content.schema.take().map(&relax);
            }
        }
    }
    let mut response = ResponseObject::new("The upstream's response.");
    response.headers.insert(
        "X-Request-Id".to_owned(),
        RefOr::Ref(Ref::new("#/components/headers/X-Request-Id")),
    );
    response.content.extend([any_content()]);
    for status in statuses {
        responses.insert((*status).to_owned(), response.clone().into());
    }
}
