//! Checks of every request before routing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use axum::http::{HeaderMap, Method, Request, StatusCode, Uri, Version, header};

use super::client_limits::ConnectedPeer;
use super::problem::{Problem, ProblemCode};
use crate::config::Server;
use crate::observe::metrics::{Counter, Metrics};

/// Hosts that the admin listener accepts, so that no web page reaches it under a name of its own that resolves to the
/// listener's address.
#[derive(Debug)]
pub(crate) struct AdminHosts {
    listen: IpAddr,
    names: Vec<String>,
}

/// Checks of one listener.
#[derive(Debug)]
pub(crate) struct RequestChecks {
    /// Paths without a rate limit.
    exempt_paths: Vec<String>,
    /// Routes whose requests cost more than one unit of their client's rate limit, which the handler charges.
    costly_routes: matchit::Router<()>,
    /// `None`: every host is accepted.
    hosts: Option<AdminHosts>,
    rate_limited: Counter,
}

impl RequestChecks {
    /// Limit of path and query together; no route needs more.
    const MAX_URI_BYTES: usize = 8 * 1024;

    /// Limit of the request line and the headers together.
    const MAX_HEADER_BYTES: usize = 16 * 1024;

    /// Creates the checks. `/livez` and `/readyz` have no rate limit, at the root and below `base_path`. The handlers of
    /// `costly_routes`, below `base_path`, charge for more than one request.
    pub(crate) fn new(
        base_path: &str,
        costly_routes: impl IntoIterator<Item = &'static str>,
        hosts: Option<AdminHosts>,
        metrics: &Metrics,
    ) -> Self {
        let mut costly = matchit::Router::new();
        for route in costly_routes {
            let added = costly.insert(format!("{base_path}{route}"), ());
            added.expect("routes differ, as the router's do");
        }
        let probes = |prefix| Server::PROBE_PATHS.map(|path| format!("{prefix}{path}"));
        let exempt_paths = [probes(""), probes(base_path)].concat();
        let rate_limited = metrics.requests_rate_limited_total.clone();
        Self { exempt_paths, costly_routes: costly, hosts, rate_limited }
    }

    /// Accepts a request that has exactly one valid host and at most the transfer coding `chunked`, is not CONNECT, has a
    /// URI and headers of acceptable length, and is within its client's rate limit. Probes are exempt from the rate
    /// limit and from the lengths.
    pub(crate) fn check<B>(
        &self,
        request: &Request<B>,
        peer: &ConnectedPeer,
        now: Instant,
    ) -> Result<(), Problem> {
        let bad_request = |detail| Err(Problem::new(ProblemCode::BadRequest, detail));
        let headers = request.headers();
        if !has_one_host(request.version(), headers) {
            return bad_request("a request must have exactly one valid Host header");
        }
        if self.hosts.as_ref().is_some_and(|hosts| !hosts.accept(headers)) {
            let detail =
                "the Host header is neither an address of this listener nor in server.admin_hosts";
            return Err(Problem::new(ProblemCode::MisdirectedRequest, detail));
        }
        if !has_known_coding(headers) {
            return bad_request("the only supported Transfer-Encoding is chunked");
        }
        if *request.method() == Method::CONNECT {
            return bad_request("CONNECT is not supported");
        }
        let uri = request.uri();
        if self.is_probe(uri) {
            return Ok(());
        }
        let rate = peer.check_rate(headers, now, || self.is_costly(uri.path()));
        if let Err(wait) = rate {
            self.rate_limited.increment();
            return Err(Problem::rate_limited(wait));
        }
        let length = uri.path().len().saturating_add(uri.query().map_or(0, str::len));
        if length > Self::MAX_URI_BYTES {
            return Err(Problem::from_status(StatusCode::URI_TOO_LONG));
        }
        if length.saturating_add(header_bytes(headers)) > Self::MAX_HEADER_BYTES {
            return Err(Problem::from_status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
        Ok(())
    }

    fn is_costly(&self, path: &str) -> bool {
        self.costly_routes.at(path).is_ok()
    }

    /// Returns true if the path is that of a probe.
    pub(crate) fn is_probe(&self, uri: &Uri) -> bool {
        self.exempt_paths.iter().any(|probe| probe == uri.path())
    }
}

impl AdminHosts {
    /// Creates the hosts of a listener at the address and with the names of `config`.
    pub(crate) fn new(config: &Server) -> Self {
        Self { listen: config.admin_listen.ip().to_canonical(), names: config.admin_hosts.clone() }
    }

    /// Returns true if the host is an address of the listener, `localhost` if that is one, or a configured name. HTTP/1.0
    /// requests may have none.
    fn accept(&self, headers: &HeaderMap) -> bool {
        let Some(host) = headers.get(header::HOST) else { return true };
        let Some(name) = host.to_str().ok().and_then(without_port) else { return false };
        match parse_literal(name) {
            Some(address) if self.listen.is_unspecified() => !address.is_unspecified(),
            Some(address) if self.listen.is_loopback() => address.is_loopback(),
            Some(address) => address == self.listen,
            None => {
                let is_local = self.listen.is_unspecified() || self.listen.is_loopback();
                let mut names = self.names.iter();
                is_local && name.eq_ignore_ascii_case("localhost")
                    || names.any(|known| name.eq_ignore_ascii_case(known))
            }
        }
    }
}

/// Returns a host without its port; `None` if the port is not a number.
fn without_port(host: &str) -> Option<&str> {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => {
            port.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
        }
        _ => Some(host),
    }
}

/// Parses an IPv4 address, or an IPv6 address in brackets.
fn parse_literal(host: &str) -> Option<IpAddr> {
    let address = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.into(),
        None => host.parse::<Ipv4Addr>().ok()?.into(),
    };
    Some(IpAddr::to_canonical(&address))
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
    headers.iter().fold(0, |bytes: usize, (name, value)| {
        bytes.saturating_add(name.as_str().len()).saturating_add(value.len() + SEPARATORS)
    })
}

/// Returns true if a name, an address or a port may contain this byte (RFC 3986, section 3.2). `@` is excluded: a
/// `Host` has no user.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_routes_are_found_by_their_path() {
        let routes = ["/rpc/{chain}", "/v1/{chain}/fee-history", "/v1/fee-markets"];
        let checks = RequestChecks::new("/base", routes, None, &Metrics::new());
        for path in ["/base/rpc/7", "/base/v1/a%20b/fee-history", "/base/v1/fee-markets"] {
            assert!(checks.is_costly(path), "{path}");
        }
        for path in ["/rpc/7", "/base/rpc/7/8", "/base/v1/fee-history", "/base/v1/fee-markets/"] {
            assert!(!checks.is_costly(path), "{path}");
        }
    }

    #[test]
    fn the_admin_listener_accepts_its_addresses_and_names_as_hosts() {
        for (listen, accepted, rejected) in [
            (
                "127.0.0.1",
                "127.0.0.1 127.8.9.10:9090 [::1] [::1]:9090 localhost LocalHost:1",
                "192.0.2.1 [2001:db8::1] 0.0.0.0 evil.example localhost.evil.example",
            ),
            ("::1", "[::1]:9090 127.0.0.1 localhost", "[::2] ::1 rebound"),
            (
                "0.0.0.0",
                "10.1.2.3:9090 [2001:db8::1] localhost 127.0.0.1",
                "evil.example:9090 0.0.0.0 2130706433 127.1 0x7f.0.0.1 :1",
            ),
            ("::", "10.1.2.3 [::ffff:10.1.2.3]:1 [2001:db8::1]", "10.1.2.3:port x:1:1"),
            ("192.0.2.1", "192.0.2.1:9090 [::ffff:192.0.2.1]", "127.0.0.1 localhost"),
        ] {
            let config = Server {
                admin_listen: (listen.parse::<IpAddr>().unwrap(), 9090).into(),
                admin_hosts: vec!["gas-suggestion".into()],
                ..Server::default()
            };
            let hosts = AdminHosts::new(&config);
            let accepts = |host: &str| {
                hosts.accept(&HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]))
            };
            for host in accepted.split(' ').chain(["gas-suggestion", "Gas-Suggestion:9090"]) {
                assert!(accepts(host), "{host} at {listen}");
            }
            for host in rejected.split(' ').chain(["gas-suggestion.evil", "[127.0.0.1]", "[", ""]) {
                assert!(!accepts(host), "{host} at {listen}");
            }
            // An HTTP/1.0 request without a host; a later version is rejected before.
            assert!(hosts.accept(&HeaderMap::new()));
        }
    }
}
