//! `/verification/…`: contract verification, passed on to the service that does it.
//!
//! A path is taken apart into segments from a closed list, or of a few plain characters, and what is
//! asked upstream is put together from them. Status and body of the answer are the upstream's, whatever
//! they are: it says 404 and 500 of contracts.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;

use super::EndBy;
use super::intake::Upload;
use super::problem::{Code, NotOurs, Problem};
use crate::clients::Purse;
use crate::proxy::{Errand, Failure, Proxy};

/// Below which all of this lives.
const PREFIX: &str = "/verification";

/// How contracts are verified. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Verification {
    pub(super) proxy: Proxy,
    /// Of a request's body, in bytes.
    pub(super) max_body: usize,
}

/// What may be asked at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Route {
    allowed: Methods,
    credentials: &'static [HeaderName],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Methods {
    Read,
    Post,
    ReadAndPost,
}

impl Methods {
    fn allow(self, method: &Method) -> bool {
        match *method {
            Method::GET | Method::HEAD => self != Self::Post,
            Method::POST => self != Self::Read,
            _ => false,
        }
    }

    /// As the `Allow` header.
    fn names(self) -> &'static str {
        match self {
            Self::Read => "GET,HEAD",
            Self::Post => "POST",
            Self::ReadAndPost => "GET,HEAD,POST",
        }
    }
}

/// Passes a request on.
pub(super) async fn pass_on(
    State(verification): State<Verification>,
    request: Request,
) -> Result<Response, Problem> {
    let Verification { proxy, max_body } = verification;
    let (method, uri, headers) =
        (request.method().clone(), request.uri().clone(), request.headers().clone());
    let below = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let segments: Vec<&str> = below.split('/').filter(|segment| !segment.is_empty()).collect();
    let route = route(&segments).ok_or_else(|| {
        Problem::new(Code::NotFound, "the verification service is not asked for this path")
    })?;
    if !route.allowed.allow(&method) {
        return Ok(Problem::method_not_allowed(route.allowed.names()));
    }
    let client = Purse::of(&request);
    let upload = match method {
        Method::POST => Some(Upload::of(request, max_body)?),
        _ => None,
    };
    let (upload, progress) = upload.unzip();
    let errand = Errand {
        method,
        segments: &segments,
        query: uri.query(),
        headers: &headers,
        credentials: route.credentials,
        client,
    };
    let answer = proxy.forward(&errand, upload).await.map_err(|failure| {
        let progress = progress.unwrap_or_default();
        progress.problem().unwrap_or_else(|| match failure {
            Failure::Timeout if progress.awaits_client() => {
                Problem::new(Code::RequestTimeout, "the request body took too long")
            }
            failure => Problem::of_upstream(failure, "verification service"),
        })
    })?;
    let deadline = EndBy(answer.body().deadline());
    let mut answer = defused(answer.map(Body::new));
    answer.extensions_mut().insert(deadline);
    Ok(answer)
}

/// Whether this method of this path is passed on.
#[cfg(test)]
pub(super) fn passes_on(method: &Method, path: &str) -> bool {
    let below = path.strip_prefix(PREFIX).unwrap_or_default();
    let segments: Vec<_> = below.split('/').filter(|segment| !segment.is_empty()).collect();
    route(&segments).is_some_and(|route| route.allowed.allow(method))
}

/// What there is at these `segments`, or nothing.
fn route(segments: &[&str]) -> Option<Route> {
    const MOST_FURTHER: usize = 8;
    let are_plain = |further: &[&str]| {
        (1..=MOST_FURTHER).contains(&further.len()) && further.iter().all(|part| is_plain(part))
    };
    let (allowed, credentials): (_, &[HeaderName]) = match segments {
        [] | ["verify"] | ["verify", "solc-json"] => (Methods::Post, &[]),
        ["verify", "create2"] => (Methods::Post, &[AUTHORIZATION]),
        [
            "check-by-addresses"
            | "check-all-by-addresses"
            | "checkByAddresses"
            | "checkAllByAddresses"
            | "chains"
            | "health"
            | "version",
        ] => (Methods::Read, &[]),
        ["files", further @ ..] if are_plain(further) => (Methods::Read, &[]),
        ["v2", further @ ..] if are_plain(further) => (Methods::ReadAndPost, &[]),
        _ => return None,
    };
    Some(Route { allowed, credentials })
}

/// Whether a segment means itself in every URL: nothing to decode, nowhere to go up to.
fn is_plain(segment: &str) -> bool {
    const LONGEST: usize = 128;
    let is_of_segment = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=LONGEST).contains(&segment.len())
        && segment.bytes().all(is_of_segment)
        && !matches!(segment, "." | "..")
}

/// A page that the upstream may send must not act as one of this service's.
fn defused(mut answer: Response) -> Response {
    const NOTHING: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, NOTHING);
    // Its form is chosen by these, whatever the upstream says of that.
    headers.append(VARY, HeaderValue::from_static("accept, accept-encoding"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer.extensions_mut().insert(NotOurs);
    answer
}

/// What there is to say where no upstream is configured.
pub(super) async fn switched_off() -> Problem {
    Problem::new(Code::NotFound, "contract verification is switched off here")
}

/// What there is not at any route. A verifier URL without its slash is a mistake that tools make of a
/// configuration and that nobody sees in their messages.
pub(super) async fn not_found(uri: Uri) -> Problem {
    const BEGINNINGS: [&str; 6] = ["v2", "verify", "files", "chains", "health", "version"];
    let behind = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let word = behind.split('/').next().unwrap_or_default();
    if word.starts_with("check") || BEGINNINGS.contains(&word) {
        return Problem::new(
            Code::NotFound,
            "a slash is missing behind /verification: the verifier URL has to end with one",
        );
    }
    Problem::of_framework(StatusCode::NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_contract_names_is_asked_for() {
        let allowed = |path: &str| {
            let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
            route(&segments).map(|route| route.allowed)
        };
        for path in ["", "/verify", "/verify/solc-json", "/verify/create2", "//verify//"] {
            assert_eq!(allowed(path), Some(Methods::Post), "{path}");
        }
        for path in
            ["/chains", "/checkAllByAddresses", "/files/any/2020/0xAb", "/files/a:b/c_d-e.f"]
        {
            assert_eq!(allowed(path), Some(Methods::Read), "{path}");
        }
        assert_eq!(allowed("/v2/verify/2020/0xAb"), Some(Methods::ReadAndPost));
        let longest = format!("/v2/{}", "a".repeat(128));
        assert!(allowed(&longest).is_some() && allowed(&format!("{longest}a")).is_none());
        let deepest = format!("/v2{}", "/a".repeat(8));
        assert!(allowed(&deepest).is_some() && allowed(&format!("{deepest}/a")).is_none());
        for path in [
            "/files",
            "/v2",
            "/Verify",
            "/verify/other",
            "/verify/create2/x",
            "/session",
            "/v1/x",
            "/v2/..",
            "/v2/./x",
            "/files/a/../b",
            "/v2/%2e%2e",
            "/v2/a%2fb",
            "/v2/a\\b",
            "/v2/a;b",
            "/v2/a@b",
            "/v2/a b",
            "/v2/\u{e4}",
            "/chains/1",
            "/v2/a?b",
        ] {
            assert_eq!(allowed(path), None, "{path}");
        }
    }

    #[test]
    fn credentials_go_on_where_the_upstream_asks_for_them_alone() {
        assert_eq!(route(&["verify", "create2"]).unwrap().credentials, [AUTHORIZATION]);
        assert!(route(&["verify"]).unwrap().credentials.is_empty());
        assert!(route(&["v2", "verify"]).unwrap().credentials.is_empty());
    }
}
