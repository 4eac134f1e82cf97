//! Routes and other parts of the public listener that other rooms add.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::http::Uri;
use axum::routing::any;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::Operation;
use utoipa::openapi::tag::Tag;
use utoipa::openapi::{OpenApi, RefOr, Schema};
use utoipa_axum::router::OpenApiRouter;

use super::openapi::examples::ExampleChain;
use crate::http::cors::ExposedHeaders;
use crate::http::problem::Problem;
use crate::store::{ServableSnapshot, StoredChain};

/// Says what may be meant by an unknown path; `None`: nothing that it knows.
pub(crate) type Hint = fn(&Uri) -> Option<Problem>;

/// Returns members of a snapshot that may be served.
type MembersOf = Box<dyn Fn(&StoredChain, &ServableSnapshot) -> Map<String, Value> + Send + Sync>;

type Change<T> = Box<dyn Fn(&mut T) + Send + Sync>;
type OperationChange = Box<dyn Fn(&str, &mut Operation) + Send + Sync>;
type WriteExamples = Box<dyn Fn(&mut OpenApi, &ExampleChain) + Send + Sync>;

/// Routes of other rooms, with all that belongs to them.
#[derive(Default)]
pub(crate) struct PublicRoutes {
    pub(super) timed: Router,
    pub(super) untimed: Router,
    pub(super) undescribed: Router,
    pub(super) at_root: Router,
    /// Descriptions of `timed` and `untimed`.
    pub(super) description: OpenApi,
    pub(super) document_changes: Vec<Change<OpenApi>>,
    pub(super) operation_changes: Vec<OperationChange>,
    pub(super) examples: Vec<WriteExamples>,
    /// Descriptions of response headers.
    pub(crate) headers: Vec<(String, RefOr<Header>)>,
    /// Schemas that are kept although only a text names them.
    pub(crate) kept_schemas: Vec<&'static str>,
    /// Say what may be meant by an unknown path.
    pub(crate) hints: Vec<Hint>,
    pub(crate) market_members: MarketMembers,
    /// Response headers that web pages may read.
    pub(crate) exposed_headers: ExposedHeaders,
    pub(super) costly_routes: Vec<&'static str>,
    /// Pages, relative to the dashboard.
    pub(crate) links: Vec<&'static str>,
}

/// Members of the fee market that belong to other rooms. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct MarketMembers(pub(super) Vec<Arc<MarketMember>>);

/// Some members of the fee market.
pub(crate) struct MarketMember {
    /// An object whose properties become those of the fee market.
    pub(super) schema: fn() -> RefOr<Schema>,
    /// The schemas that it refers to.
    pub(super) referenced: fn(&mut Vec<(String, RefOr<Schema>)>),
    /// Returns the members of a snapshot that may be served. Nothing is published meanwhile.
    members: MembersOf,
    /// Members of an example.
    example: Map<String, Value>,
}

impl MarketMember {
    /// Makes members of an object. `members` returns it for a snapshot that may be served.
    pub(crate) fn new<M: Serialize + ToSchema>(
        example: &M,
        members: impl Fn(&StoredChain, &ServableSnapshot) -> M + Send + Sync + 'static,
    ) -> Self {
        let to_members = |object: &M| match json!(object) {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        Self {
            schema: M::schema,
            referenced: M::schemas,
            members: Box::new(move |chain, current| to_members(&members(chain, current))),
            example: to_members(example),
        }
    }
}

impl PublicRoutes {
    /// Adds routes with the configured deadline of requests.
    pub(crate) fn add(&mut self, routes: OpenApiRouter) {
        let (routes, description) = routes.split_for_parts();
        self.timed = std::mem::take(&mut self.timed).merge(routes);
        self.description.merge(description);
    }

    /// Adds routes with deadlines of their own. Those of a `Router` are not described.
    pub(crate) fn add_untimed(&mut self, routes: OpenApiRouter) {
        let (routes, description) = routes.split_for_parts();
        self.untimed = std::mem::take(&mut self.untimed).merge(routes);
        self.description.merge(description);
    }

    /// Adds routes that the document does not describe.
    pub(crate) fn add_undescribed(&mut self, routes: Router) {
        self.undescribed = std::mem::take(&mut self.undescribed).merge(routes);
    }

    /// Adds routes that also exist at the root if there is a base path. Without one they are left out.
    pub(crate) fn add_at_root(&mut self, routes: Router) {
        self.at_root = std::mem::take(&mut self.at_root).merge(routes);
    }

    /// Answers requests for these paths with a problem that says how to switch the feature on.
    pub(crate) fn switch_off<'a>(
        &mut self,
        paths: impl IntoIterator<Item = &'a str>,
        problem: &Problem,
    ) {
        for path in paths {
            let problem = problem.clone();
            let answer = any(async move || problem);
            self.add_undescribed(Router::new().route(path, answer));
        }
    }

    /// Describes a tag.
    pub(crate) fn add_tag(&mut self, name: &'static str, description: &'static str) {
        self.change_document(move |document| {
            let mut tag = Tag::new(name);
            tag.description = Some(description.to_owned());
            document.tags.get_or_insert_default().push(tag);
        });
    }

    /// Changes the document before it is completed: adds paths without a handler of their own.
    pub(crate) fn change_document(
        &mut self,
        change: impl Fn(&mut OpenApi) + Send + Sync + 'static,
    ) {
        self.document_changes.push(Box::new(change));
    }

    /// Changes each operation, by its path, after it is completed.
    pub(crate) fn change_operations(
        &mut self,
        change: impl Fn(&str, &mut Operation) + Send + Sync + 'static,
    ) {
        self.operation_changes.push(Box::new(change));
    }

    /// Adds writers of examples.
    pub(crate) fn write_examples(
        &mut self,
        write: impl Fn(&mut OpenApi, &ExampleChain) + Send + Sync + 'static,
    ) {
        self.examples.push(Box::new(write));
    }

    /// Says that the handler of this route charges for more than one request.
    pub(crate) fn mark_costly(&mut self, route: &'static str) {
        self.costly_routes.push(route);
    }

    /// Adds members to the fee market.
    pub(crate) fn add_market_member(&mut self, member: MarketMember) {
        self.market_members.0.push(Arc::new(member));
    }
}

impl MarketMembers {
    /// Returns the members of a snapshot.
    pub(crate) fn for_snapshot(
        &self,
        chain: &StoredChain,
        current: &ServableSnapshot,
    ) -> Map<String, Value> {
        self.0.iter().flat_map(|member| (member.members)(chain, current)).collect()
    }

    /// Returns the members of an example.
    pub(crate) fn example(&self) -> Map<String, Value> {
        self.0.iter().flat_map(|member| member.example.clone()).collect()
    }
}

impl fmt::Debug for MarketMembers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("MarketMembers")
    }
}

impl fmt::Debug for PublicRoutes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PublicRoutes")
    }
}
