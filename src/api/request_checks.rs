//! Checks of every request before routing.

use axum::http::{HeaderMap, Method, Request, StatusCode, Version, header};

use super::problem::{Problem, ProblemCode};
use crate::client_limits::ConnectedPeer;
use crate::metrics::Counter;

/// Checks of one listener.
#[derive(Debug)]
pub(super) struct RequestChecks {
    /// Paths without a rate limit.
    exempt_paths: Vec<String>,
    rate_limited: Counter,
}

impl RequestChecks {
    /// Limit of path and query together; no route needs more.
    const MAX_URI_BYTES: usize = 8 * 1024;

    /// Creates the checks. `/livez` and `/readyz` have no rate limit, at the root and below `base_path`.
    pub(super) fn new(base_path: &str, rate_limited: Counter) -> Self {
        let prefixes = ["", base_path];
        let exempt_paths = prefixes
            .iter()
            .flat_map(|prefix| ["/livez", "/readyz"].map(|path| format!("{prefix}{path}")));
        Self { exempt_paths: exempt_paths.collect(), rate_limited }
    }

    /// Accepts a request that has exactly one valid host, is not CONNECT, has a URI of acceptable length, and is within
    /// its client's rate limit. Probes are exempt from the rate limit and from the length of the URI.
    pub(super) fn check<B>(
        &self,
        request: &Request<B>,
        peer: &ConnectedPeer,
    ) -> Result<(), Problem> {
        if !has_one_host(request.version(), request.headers()) {
            return Err(Problem::new(
                ProblemCode::BadRequest,
                "a request must have exactly one valid Host header",
            ));
        }
        if *request.method() == Method::CONNECT {
            return Err(Problem::new(ProblemCode::BadRequest, "CONNECT is not supported"));
        }
        let uri = request.uri();
        if self.exempt_paths.iter().any(|probe| probe == uri.path()) {
            return Ok(());
        }
        if let Err(wait) = peer.check_rate(request.headers()) {
            self.rate_limited.increment();
            return Err(Problem::rate_limited(wait));
        }
        let length = uri.path().len().saturating_add(uri.query().map_or(0, str::len));
        if length > Self::MAX_URI_BYTES {
            return Err(Problem::from_status(StatusCode::URI_TOO_LONG));
        }
        Ok(())
    }
}

/// Returns true if the request has one host (RFC 9112, section 3.2). HTTP/1.0 requires none, but two are an error there
/// too.
fn has_one_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.as_bytes().iter().all(|byte| is_host_byte(*byte)),
        (None, _) => version < Version::HTTP_11,
        (Some(_), Some(_)) => false,
    }
}

/// Returns true if a name, an address or a port may contain this byte (RFC 3986, section 3.2). `@` is excluded: a
/// `Host` has no user.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}
