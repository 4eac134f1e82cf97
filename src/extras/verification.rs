//! `/verification/…`: contract verification, forwarded to a Sourcify server.
//!
//! A path is split into segments. Each must be in a closed list or have only plain characters, and the upstream URL is
//! built from them. Status and body of the response are the upstream's, including 404 and 500, which describe
//! contracts.

mod form;
mod section;

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, AUTHORIZATION, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, RETRY_AFTER, VARY,
};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use utoipa_axum::router::OpenApiRouter;

use crate::api::routes::routes;
use crate::assembly::{Assembly, Extra};
use crate::extras::proxy;
use crate::extras::proxy::proxy_metrics::RequestMetrics;
use crate::extras::proxy::{MAX_RETRY_AFTER, Proxy, ProxyRequest, RequestBody};
use crate::http::client_limits::ClientHandle;
use crate::http::problem::{PassThroughError, Problem, ProblemCode, whole_seconds};
use crate::observe::http_client;
use section::Verification;

pub(crate) const EXTRA: Extra =
    Extra { name: "verification", sections: &[Verification::SECTION], command: None, join };

/// Adds the forwarded paths and the form, or says which key switches them on.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    assembly.metrics.set::<RequestMetrics>();
    let config: Verification = assembly.config.section();
    let Verification { url, timeout, max_body, max_in_flight } = config;
    let Assembly { config, metrics, .. } = &*assembly;
    let is_recorded = config.has_recorded_chains;
    let url = url.filter(|_| !is_recorded);
    let to =
        |url| Proxy::new("verification", url, &config.upstream, timeout, max_in_flight, metrics);
    let proxy = url.map(to).transpose().context("cannot set up the HTTP client")?;
    let routes = &mut assembly.routes;
    routes.hints.push(hint);
    let paths = [PATH_PREFIX, "/verification/", "/verification/{*path}"];
    let Some(proxy) = proxy else {
        let switch = "set verification.url to a Sourcify server";
        let problem = proxy::switched_off("contract verification", switch, is_recorded);
        routes.switch_off([FORM_PATH].into_iter().chain(paths), &problem);
        return Ok(());
    };
    let state = Arc::new(VerificationState { proxy, max_body });
    // A verification compiles code, so these routes have a deadline of their own.
    let forwarded = paths.into_iter().fold(Router::new(), |routes, path| {
        routes.route(path, any(forward).with_state(Arc::clone(&state)))
    });
    routes.untimed.push(forwarded.into());
    routes.forwarded.push(PATH_PREFIX);
    routes.timed.push(OpenApiRouter::new().routes(routes!(form::verification_form)));
    routes.hidden.push(form::form_assets());
    routes.links.push("verify");
    Ok(())
}

/// Name of the upstream in problems.
const UPSTREAM: &str = "verification service";

const FORM_PATH: &str = "/verify";

/// Prefix of all forwarded paths.
const PATH_PREFIX: &str = "/verification";

#[derive(Debug)]
struct VerificationState {
    proxy: Proxy,
    /// Limit of a request body in bytes.
    max_body: usize,
}

/// Methods and credentials that are forwarded to one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AllowedRoute {
    /// As in the `Allow` header.
    methods: &'static str,
    /// Headers with credentials that this path needs.
    credentials: &'static [HeaderName],
}

impl AllowedRoute {
    const READ: &'static str = "GET,HEAD";
    const POST: &'static str = "POST";
    const READ_AND_POST: &'static str = "GET,HEAD,POST";

    fn allows(self, method: &Method) -> bool {
        self.methods.split(',').any(|allowed| allowed == method.as_str())
    }
}

/// Forwards a request to the verification upstream if its path and method are allowed.
async fn forward(
    State(state): State<Arc<VerificationState>>,
    request: Request,
) -> Result<Response, Problem> {
    let (method, uri, headers) =
        (request.method().clone(), request.uri().clone(), request.headers().clone());
    let segments = segments(uri.path());
    let route = find_route(&segments).ok_or_else(|| {
        Problem::new(
            ProblemCode::NotFound,
            "this path is not forwarded to the verification service",
        )
    })?;
    if !route.allows(&method) {
        let problem = Problem::from_status(StatusCode::METHOD_NOT_ALLOWED);
        let mut response = ([(ALLOW, route.methods)], problem).into_response();
        if segments.is_empty() {
            let detail =
                "this is the verifier URL for forge and hardhat; the form for people is /verify";
            let problem = Problem::new(ProblemCode::MethodNotAllowed, detail);
            response.extensions_mut().insert(problem);
        }
        return Ok(response);
    }
    let client = ClientHandle::from_request(&request);
    let body = match method {
        Method::POST => Some(RequestBody::try_from((request, state.max_body))?),
        _ => None,
    };
    let proxy_request = ProxyRequest {
        method,
        segments: &segments,
        query: uri.query(),
        headers: &headers,
        credentials: route.credentials,
        client,
    };
    let response = state.proxy.forward(&proxy_request, body).await;
    let response = response.map_err(|error| error.problem(UPSTREAM))?;
    Ok(sandboxed(response.map(Body::new)))
}

/// Returns the segments of a forwarded path. Doubled slashes and a final one make none.
fn segments(path: &str) -> Vec<&str> {
    let relative_path = path.strip_prefix(PATH_PREFIX).unwrap_or_default();
    relative_path.split('/').filter(|segment| !segment.is_empty()).collect()
}

/// Returns the route of these segments. `None`: not forwarded.
fn find_route(segments: &[&str]) -> Option<AllowedRoute> {
    const MAX_FURTHER_SEGMENTS: usize = 8;
    let are_plain = |further: &[&str]| {
        (1..=MAX_FURTHER_SEGMENTS).contains(&further.len())
            && further.iter().all(|part| is_plain(part))
    };
    let (methods, credentials): (_, &[HeaderName]) = match segments {
        [] | ["verify"] | ["verify", "solc-json"] => (AllowedRoute::POST, &[]),
        ["verify", "create2"] => (AllowedRoute::POST, &[AUTHORIZATION]),
        [
            "check-by-addresses"
            | "check-all-by-addresses"
            | "checkByAddresses"
            | "checkAllByAddresses"
            | "chains"
            | "health"
            | "version",
        ] => (AllowedRoute::READ, &[]),
        ["files", further @ ..] if are_plain(further) => (AllowedRoute::READ, &[]),
        ["v2", further @ ..] if are_plain(further) => (AllowedRoute::READ_AND_POST, &[]),
        _ => return None,
    };
    Some(AllowedRoute { methods, credentials })
}

/// Returns true if a segment needs no decoding and cannot leave its path.
fn is_plain(segment: &str) -> bool {
    const MAX_SEGMENT_BYTES: usize = 128;
    let is_segment_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=MAX_SEGMENT_BYTES).contains(&segment.len())
        && segment.bytes().all(is_segment_byte)
        && !matches!(segment, "." | "..")
}

/// Isolates the response, so that an HTML page of the upstream cannot act as a page of this service, and makes its headers
/// fit.
fn sandboxed(mut response: Response) -> Response {
    const SANDBOX_POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX_POLICY);
    // The upstream chooses the form of the response by these headers too, whatever its own `Vary` says.
    headers.append(VARY, HeaderValue::from_static("accept, accept-encoding"));
    check_retry_after(headers);
    response.extensions_mut().insert(PassThroughError);
    response
}

/// Leaves out a `Retry-After` that is unreadable or too long for a client to wait.
fn check_retry_after(headers: &mut HeaderMap) {
    let wait = http_client::retry_after(headers).filter(|wait| *wait <= MAX_RETRY_AFTER);
    headers.remove(RETRY_AFTER);
    headers.extend(wait.map(|wait| (RETRY_AFTER, whole_seconds(wait).into())));
}

/// Returns the problem of an unknown path that lacks a slash. A verifier URL without its final slash is a common
/// configuration mistake, which the tools' own messages do not show, so the detail names it.
fn hint(uri: &Uri) -> Option<Problem> {
    const KNOWN_SEGMENTS: [&str; 6] = ["v2", "verify", "files", "chains", "health", "version"];
    let suffix = uri.path().strip_prefix(PATH_PREFIX).unwrap_or_default();
    let first_segment = suffix.split('/').next().unwrap_or_default();
    let is_known = first_segment.starts_with("check") || KNOWN_SEGMENTS.contains(&first_segment);
    is_known.then(|| {
        let detail = "missing slash after /verification: the verifier URL must end with one";
        Problem::new(ProblemCode::NotFound, detail)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::api::openapi::ALL_ROUTES;

    #[test]
    fn documented_routes_are_exactly_the_forwarded_ones() {
        let document: Value = serde_json::from_str(ALL_ROUTES).unwrap();
        let paths = document["paths"].as_object().unwrap().iter();
        for (path, item) in paths.filter(|(path, _)| path.starts_with(PATH_PREFIX)) {
            let path = path.replace(['{', '}'], "");
            let route = find_route(&segments(&path));
            for (method, name) in [(Method::GET, "get"), (Method::POST, "post")] {
                let is_documented = item.get(name).is_some();
                let is_forwarded = route.is_some_and(|route| route.allows(&method));
                // Below `v2/` both methods are forwarded at every path, also where only one is documented.
                if is_documented || !path.starts_with("/verification/v2/") {
                    assert_eq!(is_forwarded, is_documented, "{method} {path}");
                }
            }
        }
    }
}
