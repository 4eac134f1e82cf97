//! Routes whose path names a chain, and whose response is one of its documents.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::get;
use serde::Deserialize;
use utoipa::openapi::path::{OperationBuilder, Paths};
use utoipa::openapi::{
    ContentBuilder, Header, HttpMethod, Ref, RefOr, ResponseBuilder, ResponsesBuilder, Schema,
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::UtoipaMethodRouter;

use super::TAG;
use super::documents::{Document, Documents};
use super::openapi::ApiKeyPath;
use crate::api::openapi::schema_ref;

/// A route, as the OpenAPI document describes it.
#[derive(Debug)]
pub(super) struct ChainRoute {
    /// It has `{chain_id}`, and may have `{key}`.
    pub(super) path: &'static str,
    pub(super) operation_id: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: Option<&'static str>,
    /// Description of the response.
    pub(super) response: &'static str,
    /// The document.
    pub(super) document: &'static Document,
    pub(super) schema: AddSchema,
}

/// Adds the schemas of a body. Returns the reference to its own.
pub(super) type AddSchema = fn(&mut Vec<(String, RefOr<Schema>)>) -> Ref;

/// The [`AddSchema`] of a type.
pub(super) fn schema_of<B: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) -> Ref {
    schemas.push((B::name().into_owned(), B::schema()));
    B::schemas(schemas);
    schema_ref::<B>()
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ChainIdParam {
    /// The chain's id; its key works too.
    pub(super) chain_id: String,
}

/// The segments of the path, unless they are not UTF-8.
pub(super) type ChainIdPath = Result<Path<ChainIdParam>, PathRejection>;

impl ChainRoute {
    /// Returns the handler and its description.
    pub(super) fn described(&self) -> UtoipaMethodRouter<Documents> {
        let document = self.document;
        let handler = get(async move |State(documents): State<Documents>, path: ChainIdPath| {
            documents.respond_to_path(path, document)
        });
        let mut schemas = Vec::new();
        let content = ContentBuilder::new().schema(Some((self.schema)(&mut schemas))).build();
        let response =
            ResponseBuilder::new().description(self.response).content("application/json", content);
        let headers = ["ETag", "Cache-Control", "Age", "X-Newest-Block", "X-Stale"];
        let response = headers
            .into_iter()
            .fold(response, |response, name| response.header(name, Header::default()));
        let mut parameters = ChainIdParam::into_params(|| None);
        if self.path.contains("{key}") {
            parameters.splice(0..0, ApiKeyPath::into_params(|| None));
        }
        let operation = OperationBuilder::new()
            .tag(TAG)
            .operation_id(Some(self.operation_id))
            .summary(Some(self.summary))
            .description(self.description)
            .parameters(Some(parameters))
            .responses(ResponsesBuilder::new().response("200", response));
        let mut paths = Paths::new();
        paths.add_path_operation(self.path, vec![HttpMethod::Get], operation.build());
        (schemas, paths, handler)
    }
}
