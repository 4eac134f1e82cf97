//! Answers that are somebody else's: passed on as they are, whatever they are.

use std::collections::BTreeMap;

use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, SchemaType};
use utoipa::openapi::{Content, ObjectBuilder, Ref, RefOr, Response, Schema, Type};

use crate::api::described::headers;
use crate::api::described::problems;
use crate::api::described::schemas::{Uint256, of};
use crate::registry::Delegation;

type Responses = BTreeMap<String, RefOr<Response>>;

const THEIRS: &str = "OfUpstream";
/// The ends of the names of errors with whose status an upstream may answer too.
const OR_THEIRS: &str = "OrOfUpstream";

/// The answers that refer to others in [`all`]: the service's `own`, which an upstream may give too, and what
/// it may answer beside these.
pub(super) fn or_theirs(own: Responses, statuses: &[&str]) -> Responses {
    let shared = own.into_iter().map(|(status, response)| match response {
        RefOr::Ref(reference) => (status, Ref::new(reference.ref_location + OR_THEIRS).into()),
        RefOr::T(response) => (status, response.into()),
    });
    let theirs = || Ref::from_response_name(THEIRS).into();
    let theirs = statuses.iter().map(|status| ((*status).to_owned(), theirs()));
    shared.chain(theirs).collect()
}

/// All that is referred to, by name.
pub(super) fn all() -> impl Iterator<Item = (String, RefOr<Response>)> {
    let anything = || RefOr::T(Content::default());
    let mut theirs = Response::new("What the service says that was asked upstream.");
    theirs.headers = headers::named(&[]);
    theirs.content.insert("*/*".to_owned(), anything());
    let or_theirs = problems::all().into_iter().filter_map(move |(name, response)| {
        let RefOr::T(mut response) = response else { return None };
        response.description +=
            " Or what the service says with this status that was asked upstream.";
        response.headers = headers::named(&[]);
        response.content.insert("*/*".to_owned(), anything());
        Some((name + OR_THEIRS, response.into()))
    });
    or_theirs.chain([(THEIRS.to_owned(), theirs.into())])
}

/// Admits what delegate.xyz's API may answer to a look-up: its errors as they are, further members, and
/// amounts as numbers.
pub(super) fn admit_api(look_up: &mut Operation) {
    let own = std::mem::take(&mut look_up.responses.responses);
    let mut responses = or_theirs(own, &["4XX", "5XX"]);
    if let Some(RefOr::T(response)) = responses.get_mut("200") {
        for content in response.content.values_mut() {
            let RefOr::T(content) = content else { continue };
            content.schema = content.schema.take().map(widened);
        }
    }
    look_up.responses.responses = responses;
}

fn widened(schema: RefOr<Schema>) -> RefOr<Schema> {
    let number = RefOr::from(of::<Uint256>());
    if schema == number {
        let any = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Number)).minimum(Some(0));
        return AnyOfBuilder::new().item(number).item(any).into();
    }
    if matches!(schema, RefOr::T(Schema::Array(_))) {
        let known = of::<Delegation>();
        let items = AnyOfBuilder::new().item(known).item(ObjectBuilder::new());
        return ArrayBuilder::new().items(items).into();
    }
    schema
}
