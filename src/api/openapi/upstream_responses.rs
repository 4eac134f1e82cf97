//! Responses that an upstream gives and the service forwards unchanged.

use std::collections::BTreeMap;

use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, SchemaType};
use utoipa::openapi::{Content, ObjectBuilder, Ref, RefOr, Response, Schema, Type};

use crate::api::openapi_components::headers;
use crate::api::openapi_components::problems;
use crate::api::openapi_components::schemas::{Uint256, schema_ref};
use crate::wire::Delegation;

type Responses = BTreeMap<String, RefOr<Response>>;

const UPSTREAM_RESPONSE: &str = "UpstreamResponse";
/// Name suffix of error responses whose status an upstream may also return.
const OR_UPSTREAM_SUFFIX: &str = "OrUpstream";

/// Returns the responses of a proxied route: `own` errors of this service, whose status an upstream may also return,
/// and `statuses` of the upstream. They refer to [`components`].
pub(super) fn or_upstream(own: Responses, statuses: &[&str]) -> Responses {
    let own_or_upstream = own.into_iter().map(|(status, response)| match response {
        RefOr::Ref(reference) => {
            (status, Ref::new(reference.ref_location + OR_UPSTREAM_SUFFIX).into())
        }
        RefOr::T(response) => (status, response.into()),
    });
    let upstream_response = || Ref::from_response_name(UPSTREAM_RESPONSE).into();
    let upstream_responses =
        statuses.iter().map(|status| ((*status).to_owned(), upstream_response()));
    own_or_upstream.chain(upstream_responses).collect()
}

/// Returns the components that the responses of proxied routes may refer to, by name.
pub(super) fn components() -> impl Iterator<Item = (String, RefOr<Response>)> {
    let any_content = || RefOr::T(Content::default());
    let mut upstream_response = Response::new("The upstream's response.");
    upstream_response.headers = headers::references(&[]);
    upstream_response.content.insert("*/*".to_owned(), any_content());
    let problem_or_upstream = problems::all().into_iter().filter_map(move |(name, response)| {
        let RefOr::T(mut response) = response else { return None };
        response.description += " Or the upstream's response with this status.";
        response.headers = headers::references(&[]);
        response.content.insert("*/*".to_owned(), any_content());
        Some((name + OR_UPSTREAM_SUFFIX, response.into()))
    });
    problem_or_upstream.chain([(UPSTREAM_RESPONSE.to_owned(), upstream_response.into())])
}

/// Extends the responses of a look-up by those of delegate.xyz's API: its own errors, further members, and amounts as
/// numbers.
pub(super) fn allow_upstream_responses(operation: &mut Operation) {
    let own = std::mem::take(&mut operation.responses.responses);
    let mut responses = or_upstream(own, &["4XX", "5XX"]);
    if let Some(RefOr::T(response)) = responses.get_mut("200") {
        for content in response.content.values_mut() {
            let RefOr::T(content) = content else { continue };
            content.schema = content.schema.take().map(relaxed_schema);
        }
    }
    operation.responses.responses = responses;
}

fn relaxed_schema(schema: RefOr<Schema>) -> RefOr<Schema> {
    let number = RefOr::from(schema_ref::<Uint256>());
    if schema == number {
        let any_number =
            ObjectBuilder::new().schema_type(SchemaType::Type(Type::Number)).minimum(Some(0));
        return AnyOfBuilder::new().item(number).item(any_number).into();
    }
    if matches!(schema, RefOr::T(Schema::Array(_))) {
        let known = schema_ref::<Delegation>();
        let items = AnyOfBuilder::new().item(known).item(ObjectBuilder::new());
        return ArrayBuilder::new().items(items).into();
    }
    schema
}
