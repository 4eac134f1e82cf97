//! Checks of every request before routing.

use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version, header,
};

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

    /// Limit of the request line and the headers together.
    const MAX_HEADER_BYTES: usize = 16 * 1024;

    /// Creates the checks. `/livez` and `/readyz` have no rate limit, at the root and below `base_path`.
    pub(super) fn new(base_path: &str, rate_limited: Counter) -> Self {
        let prefixes = ["", base_path];
        let exempt_paths = prefixes
            .iter()
            .flat_map(|prefix| ["/livez", "/readyz"].map(|path| format!("{prefix}{path}")));
        Self { exempt_paths: exempt_paths.collect(), rate_limited }
    }

    /// Accepts a request that has exactly one valid host and at most the transfer coding `chunked`, is not CONNECT, has a
    /// URI and headers of acceptable length, and is within its client's rate limit. Probes are exempt from the rate
    /// limit and from the lengths.
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
        if !has_known_coding(request.headers()) {
            return Err(Problem::new(
                ProblemCode::BadRequest,
                "the only supported Transfer-Encoding is chunked",
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
        if length.saturating_add(header_bytes(request.headers())) > Self::MAX_HEADER_BYTES {
            return Err(Problem::from_status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
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

/// Returns true if the body is not encoded for the transfer, or is chunked. Proxies read other values, such as
/// `identity, chunked`, in different ways.
fn has_known_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Returns the bytes of the headers as HTTP/1.1 sends them.
fn header_bytes(headers: &HeaderMap) -> usize {
    const SEPARATORS: usize = ": \r\n".len();
    let bytes = |(name, value): (&HeaderName, &HeaderValue)| {
        name.as_str().len().saturating_add(value.len()).saturating_add(SEPARATORS)
    };
    headers.iter().map(bytes).sum()
}

/// Returns true if a name, an address or a port may contain this byte (RFC 3986, section 3.2). `@` is excluded: a
/// `Host` has no user.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}
