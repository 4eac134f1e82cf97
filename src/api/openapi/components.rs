//! Parameters, headers and responses that have no type in the code of the routes, because requests are parsed leniently and
//! upstream responses are forwarded unchanged.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use utoipa::{IntoParams, IntoResponses};

use super::schemas::{OnlyNo, OnlyTrue};

/// Response headers. Those of type `Option` are not in every response that lists them.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct ResponseHeaders {
    /// The request's own id if it is valid, else a generated unique id.
    #[param(
        rename = "X-Request-Id",
        pattern = "^[A-Za-z0-9._:-]{1,64}$",
        example = "3f0c7a52b1d94e68-17"
    )]
    request_id: String,
    /// How long the response may be cached.
    #[param(rename = "Cache-Control", example = "public, max-age=1")]
    cache_control: String,
    /// How long shared caches may keep the response, and how long they may send an older copy while they fetch a new
    /// one or cannot (RFC 9213).
    #[param(
        rename = "CDN-Cache-Control",
        nullable = false,
        example = "public, max-age=1, stale-while-revalidate=29, stale-if-error=29"
    )]
    cdn_cache_control: Option<String>,
    /// Changes with the content.
    #[param(
        rename = "ETag",
        pattern = "^\"[0-9a-f]{16}(-gzip)?\"$",
        example = "\"5ff6bd9d1a3df1f1\""
    )]
    etag: String,
    /// With status 405: the methods that the route supports.
    #[param(
        rename = "Allow",
        nullable = false,
        pattern = "^[A-Z]+(,[A-Z]+)*$",
        example = "GET,HEAD"
    )]
    allow: Option<String>,
    /// Age of the data in whole seconds, since it was read from a node or from the API.
    #[param(rename = "Age", nullable = false, example = 0)]
    age: Option<u64>,
    /// Time of the newest block if the node told it, else of the reply that brought the block first. A list has that of
    /// its oldest member.
    #[param(rename = "Last-Modified", nullable = false, example = "Fri, 20 Nov 2026 17:31:34 GMT")]
    last_modified: Option<String>,
    /// The newest block that the response was computed from.
    #[param(rename = "X-Newest-Block", nullable = false, example = 43_447_700)]
    newest_block: Option<u64>,
    /// Present if the data is older than two block times, or the chain's head has stalled.
    #[param(rename = "X-Stale", inline, nullable = false, example = "true")]
    stale: Option<OnlyTrue>,
    /// Reasons to doubt a value that cannot follow from the blocks before, separated by commas.
    #[param(
        rename = "X-Doubt",
        nullable = false,
        pattern = "^[a-z_]+(,[a-z_]+)*$",
        example = "base_fee_leap"
    )]
    doubt: Option<String>,
    /// Whole seconds to wait before retrying.
    #[param(rename = "Retry-After", nullable = false, minimum = 1, example = 2)]
    retry_after: Option<u64>,
    /// Request headers that the response depends on.
    #[param(rename = "Vary", nullable = false, example = "x-api-key")]
    vary: Option<String>,
    /// Disables nginx's buffering of events.
    #[param(rename = "X-Accel-Buffering", inline, nullable = false, example = "no")]
    accel_buffering: Option<OnlyNo>,
    /// Restricts the page to resources and requests of this service.
    #[param(
        rename = "Content-Security-Policy",
        nullable = false,
        example = "default-src 'none'; script-src 'self'"
    )]
    content_security_policy: Option<String>,
}

/// Parameters of every operation.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct CommonParameters {
    /// An id for this request: at most 64 letters, digits, `-`, `.`, `_` and `:`. Invalid ids are replaced.
    #[param(rename = "X-Request-Id", nullable = false)]
    request_id: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct IfNoneMatch {
    /// Entity tags of cached responses.
    #[param(rename = "If-None-Match", nullable = false)]
    etags: Option<String>,
}

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

/// Not modified: `If-None-Match` contains the current `ETag`.
#[derive(IntoResponses)]
#[response(status = 304, headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale")))]
pub(crate) struct NotModified;

/// Not modified: `If-None-Match` contains the current `ETag`.
#[derive(IntoResponses)]
#[response(status = 304, headers(("ETag"), ("Cache-Control")))]
pub(crate) struct PageNotModified;
