//! The routes as the OpenAPI document describes them, for requests that miss one: `GET /v1` lists them, a query
//! parameter that a route does not have is an error, and a path with a trailing slash redirects to its route.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::{MatchedPath, OriginalUri, Request, State};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};

use super::freshness::revalidated_json;
use super::openapi::components::{CommonErrors, IfNoneMatch, PageNotModified};
use super::public_routes::{Hint, PublicRoutes};
use crate::config::nearest::nearest;
use crate::http::problem::{Problem, ProblemCode};

/// The routes of the public listener. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RouteTable {
    routes: Arc<[Route]>,
    /// Say what may be meant by an unknown path.
    hints: Arc<[Hint]>,
}

/// A route.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct Route {
    method: &'static str,
    /// The path with the base path. A name in braces stands for a value: `{chain}` for a key or an id of `/v1/chains`.
    path: String,
    summary: String,
    /// Names of the query parameters. `None`: the route takes any parameter.
    #[serde(skip)]
    parameters: Option<Vec<String>>,
}

/// The routes that this configuration enables.
#[derive(Serialize, ToSchema)]
#[schema(as = Routes)]
pub(crate) struct RoutesBody<'a> {
    routes: &'a [Route],
}

impl RouteTable {
    /// Creates the table of the routes that `document` describes. They lie below `base_path`.
    pub(crate) fn new(document: &OpenApi, base_path: &str, others: &PublicRoutes) -> Self {
        let mut routes = Vec::new();
        for (path, item) in &document.paths.paths {
            for (method, operation) in [("GET", &item.get), ("POST", &item.post)] {
                let Some(operation) = operation else { continue };
                routes.push(Route {
                    method,
                    path: format!("{base_path}{path}"),
                    summary: operation.summary.clone().unwrap_or_default(),
                    parameters: query_parameters(path, operation, document, others),
                });
            }
        }
        Self { routes: routes.into(), hints: others.hints.clone().into() }
    }

    /// Adds a route that no document describes. It takes any query parameter.
    pub(crate) fn with_route(&self, path: &str, summary: &str) -> Self {
        let route = Route {
            method: "GET",
            path: path.to_owned(),
            summary: summary.to_owned(),
            parameters: None,
        };
        let routes = self.routes.iter().cloned().chain([route]).collect();
        Self { routes, hints: Arc::clone(&self.hints) }
    }

    pub(crate) fn body(&self) -> RoutesBody<'_> {
        RoutesBody { routes: &self.routes }
    }

    /// Rejects a query with a name that no parameter of the route at the path `template` has.
    pub(crate) fn check_query(&self, template: &str, query: &str) -> Result<(), Problem> {
        let route = self.routes.iter().find(|route| route.path == template);
        let Some(known) = route.and_then(|route| route.parameters.as_ref()) else { return Ok(()) };
        let names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
        let unknown =
            names.filter(|name| !name.is_empty()).map(decoded).find(|name| !known.contains(name));
        unknown.map_or(Ok(()), |name| Err(unknown_parameter(&name, known)))
    }

    /// Returns the last segment of a path that is a route's but for a slash at its end.
    pub(crate) fn redirect<'a>(&self, path: &'a str) -> Option<&'a str> {
        let path = path.strip_suffix('/')?;
        let (_, name) = path.rsplit_once('/')?;
        let is_route = self.routes.iter().any(|route| is_match(&route.path, path));
        (is_route && !name.is_empty()).then_some(name)
    }
}

/// Returns the names of the operation's query parameters. `None`: the route takes any, because readers of event streams
/// add parameters of their own, and because of its tag.
fn query_parameters(
    path: &str,
    operation: &Operation,
    document: &OpenApi,
    others: &PublicRoutes,
) -> Option<Vec<String>> {
    const STREAM: &str = "/stream";
    let mut tags = operation.tags.iter().flatten();
    let is_lenient = tags.any(|tag| others.lenient_tags.contains(&tag.as_str()));
    if is_lenient || path.ends_with(STREAM) {
        return None;
    }
    let components = document.components.as_ref();
    let parameters =
        operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
            RefOr::T(parameter) => Some(parameter),
            RefOr::Ref(reference) => {
                let (_, name) = reference.ref_location.rsplit_once('/')?;
                match components?.parameters.get(name)? {
                    RefOr::T(parameter) => Some(parameter),
                    RefOr::Ref(_) => None,
                }
            }
        });
    let in_query = parameters.filter(|parameter| parameter.parameter_in == ParameterIn::Query);
    let names = in_query.map(|parameter| parameter.name.clone());
    let aliases = others.parameter_aliases.iter().filter(|(known, _)| *known == path);
    let aliases = aliases.flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned()));
    Some(names.chain(aliases).collect())
}

/// Decodes a part of a query. A plus sign is a space; what is not UTF-8 is replaced.
pub(crate) fn decoded(text: &str) -> String {
    let with_spaces = text.replace('+', " ");
    percent_decode_str(&with_spaces).decode_utf8_lossy().into_owned()
}

fn unknown_parameter(name: &str, known: &[String]) -> Problem {
    const MAX_NAME_CHARACTERS: usize = 40;
    let shown: String = name.chars().take(MAX_NAME_CHARACTERS).collect();
    let hint = match (nearest(name, known.iter().map(String::as_str)), known) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => "it has none".to_owned(),
        (None, known) => format!("it has `{}`", known.join("`, `")),
    };
    let detail = format!("`{shown}` is not a query parameter of this route; {hint}");
    Problem::new(ProblemCode::InvalidParameter, detail)
}

/// Returns true if the path has the segments of the template; a name in braces stands for any segment.
fn is_match(template: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    let has_segments = template.split('/').all(|expected| {
        segments.next().is_some_and(|segment| {
            if expected.starts_with('{') { !segment.is_empty() } else { segment == expected }
        })
    });
    has_segments && segments.next().is_none()
}

/// Middleware that rejects a query parameter that the route does not have: without it the client would get the answer
/// to another question.
pub(crate) async fn check_query(
    State(table): State<RouteTable>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let (Some(path), Some(query)) = (path, request.uri().query()) {
        table.check_query(path.as_str(), query)?;
    }
    Ok(next.run(request).await)
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
    params(IfNoneMatch),
    responses(
        CommonErrors, PageNotModified,
        (status = 200, description = "The routes.", body = RoutesBody,
            headers(("ETag"), ("Cache-Control"))),
    )
)]
pub(crate) async fn list_routes(State(table): State<RouteTable>) -> Response {
    revalidated_json(&table.body())
}
