//! The routes, for requests that miss one: `GET /v1` lists them, and a path with a trailing slash redirects to its route.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::{OriginalUri, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::freshness::revalidated_json;
use super::routes::Hint;
use crate::http::problem::Problem;

/// The routes of a listener. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RouteTable {
    routes: Arc<[Route]>,
    paths: Arc<matchit::Router<()>>,
    /// Hints for paths that are no route's.
    hints: Arc<[Hint]>,
}

/// A route.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Route {
    pub(super) method: String,
    /// The path with the base path. A name in braces stands for a value: `{chain}` for a key or an id of `/v1/chains`.
    pub(super) path: String,
    pub(super) summary: String,
}

/// The routes that this configuration enables.
#[derive(Serialize, ToSchema)]
#[schema(as = Routes)]
pub(crate) struct RoutesBody<'a> {
    routes: &'a [Route],
}

impl RouteTable {
    pub(crate) fn new(routes: Vec<Route>, hints: Vec<Hint>) -> Self {
        let mut paths = matchit::Router::new();
        for route in &routes {
            // Fails for the second method of a path.
            let _ = paths.insert(&route.path, ());
        }
        Self { routes: routes.into(), paths: Arc::new(paths), hints: hints.into() }
    }

    /// Returns the last segment of a path that is a route's but for a slash at its end.
    pub(crate) fn redirect<'a>(&self, path: &'a str) -> Option<&'a str> {
        let path = path.strip_suffix('/')?;
        let (_, name) = path.rsplit_once('/')?;
        // The router takes an empty segment for a value.
        let has_empty = path.contains("//") || name.is_empty();
        (self.paths.at(path).is_ok() && !has_empty).then_some(name)
    }
}

/// Rejects a request with an unknown path. A route's path with a slash at its end redirects to the route. The redirect
/// is relative, because a proxy may serve this path under another name.
pub(crate) async fn not_found(
    State(table): State<RouteTable>,
    OriginalUri(original): OriginalUri,
    uri: Uri,
) -> Response {
    let Some(name) = table.redirect(original.path()) else {
        let hint = table.hints.iter().find_map(|hint| hint(&uri));
        let problem = hint.unwrap_or_else(|| Problem::from_status(StatusCode::NOT_FOUND));
        return problem.into_response();
    };
    let query = original.query().map_or(Cow::Borrowed(""), |query| format!("?{query}").into());
    Redirect::permanent(&format!("../{name}{query}")).into_response()
}

/// List of routes
///
/// It omits disabled routes.
#[utoipa::path(
    get,
    path = "/v1",
    operation_id = "getRoutes",
    tag = "Operation",
    responses(
        (status = 200, description = "The routes.", body = RoutesBody,
            headers(("ETag"), ("Cache-Control"))),
    )
)]
pub(crate) async fn list_routes(State(table): State<RouteTable>) -> Response {
    revalidated_json(&RoutesBody { routes: &table.routes })
}
