//! Names of the service's own response headers.

use axum::http::HeaderName;

pub(crate) const X_NEWEST_BLOCK: HeaderName = HeaderName::from_static("x-newest-block");
pub(crate) const X_STALE: HeaderName = HeaderName::from_static("x-stale");
pub(crate) const X_DOUBT: HeaderName = HeaderName::from_static("x-doubt");
pub(crate) const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");
/// Lifetime in nginx's cache.
pub(crate) const X_ACCEL_EXPIRES: HeaderName = HeaderName::from_static("x-accel-expires");
