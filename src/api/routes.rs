//! Routes that the extras add to the public listener, with all that belongs to them.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderName, Uri};
use axum::routing::any;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
#[cfg(test)]
pub(crate) use utoipa_axum::routes;

use crate::http::problem::Problem;
use crate::store::{ServableSnapshot, StoredChain};

/// The routes of handlers, as `utoipa_axum::routes!`. Only the test that writes the document needs descriptions, which would
/// be a tenth of the program.
#[cfg(not(test))]
macro_rules! light_routes {
    ($($handler:path),+) => {{
        use axum::routing::MethodRouter;
        use utoipa::openapi::{HttpMethod, PathItem, path::Paths};
        use utoipa_axum::PathItemExt as _;
        let mut paths = Paths::new();
        let router = MethodRouter::new();
        $(let (path, methods) = utoipa_axum::paste! {(
            utoipa_axum::routes!(@path [path()] of $handler),
            utoipa_axum::routes!(@path [methods()] of $handler),
        )};
        paths.paths.insert(path, PathItem::default());
        let add = |router: MethodRouter<_>, method: &HttpMethod| {
            router.on(method.to_method_filter(), $handler)
        };
        let router = methods.iter().fold(router, add);)+
        (Vec::new(), paths, router)
    }};
}
#[cfg(not(test))]
pub(crate) use light_routes as routes;

/// Returns a router without routes, whose description, in tests, has these schemas.
pub(crate) fn with_schemas<D: OpenApi, S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    if cfg!(test) { OpenApiRouter::with_openapi(D::openapi()) } else { OpenApiRouter::new() }
}

/// Returns the problem that says what an unknown path may mean, if it looks familiar.
pub(crate) type Hint = fn(&Uri) -> Option<Problem>;

/// Routes of the extras.
#[derive(Default)]
pub(crate) struct Routes {
    /// Routes with the configured deadline of requests.
    pub(crate) timed: Vec<OpenApiRouter>,
    /// Routes with deadlines of their own.
    pub(crate) untimed: Vec<OpenApiRouter>,
    /// Routes with the configured deadline that the document does not describe.
    pub(crate) hidden: Vec<Router>,
    /// Routes that also exist at the root if there is a base path. Without one they are left out.
    pub(crate) at_root: Vec<Router>,
    /// Prefixes of paths that the document lists one by one, and that one route forwards.
    pub(crate) forwarded: Vec<&'static str>,
    pub(crate) hints: Vec<Hint>,
    pub(crate) market_members: MarketMembers,
    /// Response headers that web pages may read, besides those of the heart.
    pub(crate) exposed_headers: Vec<HeaderName>,
    /// Routes whose handlers charge for more than one request.
    pub(crate) costly: Vec<&'static str>,
    /// Pages, relative to the dashboard, and names of its parts that extras fill.
    pub(crate) links: Vec<&'static str>,
}

impl Routes {
    /// Answers requests for these paths with a problem that says how to switch the feature on.
    pub(crate) fn switch_off<'a>(
        &mut self,
        paths: impl IntoIterator<Item = &'a str>,
        problem: &Problem,
    ) {
        for path in paths {
            let problem = problem.clone();
            self.hidden.push(Router::new().route(path, any(async move || problem)));
        }
    }

    /// Returns true if the extras have a route with this path of the document.
    pub(super) fn has(&self, path: &str) -> bool {
        let described = self.timed.iter().chain(&self.untimed);
        described.map(OpenApiRouter::get_openapi).any(|api| api.paths.paths.contains_key(path))
            || self.forwarded.iter().any(|prefix| path.starts_with(prefix))
    }
}

/// Members of the fee market that belong to extras. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct MarketMembers(Vec<Arc<MembersOf>>);

/// Returns members of a snapshot that may be served.
type MembersOf = dyn Fn(&StoredChain, &ServableSnapshot) -> Value + Send + Sync;

impl MarketMembers {
    /// Adds the members of the objects that `members` returns. Nothing is published while it runs.
    pub(crate) fn add<M: Serialize>(
        &mut self,
        members: impl Fn(&StoredChain, &ServableSnapshot) -> M + Send + Sync + 'static,
    ) {
        self.0.push(Arc::new(move |chain, current| json!(members(chain, current))));
    }

    /// Returns the members of a snapshot.
    pub(super) fn for_snapshot(
        &self,
        chain: &StoredChain,
        current: &ServableSnapshot,
    ) -> Map<String, Value> {
        let objects = self.0.iter().filter_map(|members| match members(chain, current) {
            Value::Object(members) => Some(members),
            _ => None,
        });
        objects.flatten().collect()
    }
}
