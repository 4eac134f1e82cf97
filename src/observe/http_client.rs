//! Settings shared by every outgoing HTTP client.

mod trusted;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Certificate, Proxy};
use rustls::crypto::{CryptoProvider, ring};
use rustls_platform_verifier::Verifier;

use crate::config::{ForwardProxy, Upstream};

/// Longest time to connect, which the addresses of a name share: one that drops packets leaves time for the others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns a builder of clients for upstreams: without redirects, through the configured proxy, with the configured
/// certificates.
///
/// # Errors
///
/// Fails if the URL of the proxy is invalid.
pub(crate) fn builder(upstream: &Upstream) -> Result<reqwest::ClientBuilder, reqwest::Error> {
    // All TLS of the process uses it. It stays the first one that was installed.
    let _ = ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));
    let builder = match &upstream.proxy {
        ForwardProxy::Off => builder.no_proxy(),
        // The library reads it.
        ForwardProxy::Environment => builder,
        ForwardProxy::Url(url) => builder.no_proxy().proxy(Proxy::all(url.expose().clone())?),
    };
    Ok(with_certificates(builder, upstream))
}

fn with_certificates(
    builder: reqwest::ClientBuilder,
    upstream: &Upstream,
) -> reqwest::ClientBuilder {
    let trusted = upstream.ca_file.certificates();
    let Some(provider) = CryptoProvider::get_default() else { return builder };
    if trusted.is_empty() && Verifier::new(Arc::clone(provider)).is_ok() {
        return builder;
    }
    match trusted::tls_config(provider, trusted) {
        Ok(tls) => builder.tls_backend_preconfigured(tls),
        // The configuration checks each certificate. Building the client fails with the same error.
        Err(_) => builder.tls_certs_merge(
            trusted.iter().filter_map(|certificate| Certificate::from_der(certificate).ok()),
        ),
    }
}

/// Returns a builder of clients for services beside the upstreams, which are called directly.
///
/// # Errors
///
/// As [`builder`].
pub(crate) fn direct_builder() -> Result<reqwest::ClientBuilder, reqwest::Error> {
    builder(&Upstream::default())
}

/// Parses `Retry-After`: seconds or a date (RFC 9110, section 10.2.3). A date in the past is zero.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_or_a_date() {
        let parse =
            |text: &str| retry_after(&HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]));
        assert_eq!(parse(" 7 "), Some(Duration::from_secs(7)));
        let in_an_hour = SystemTime::now() + Duration::from_hours(1);
        let wait = parse(&httpdate::fmt_http_date(in_an_hour)).unwrap();
        assert!(wait.abs_diff(Duration::from_hours(1)) < Duration::from_secs(30), "{wait:?}");
        assert_eq!(parse("Fri, 31 Dec 1999 23:59:59 GMT"), Some(Duration::ZERO));
        for wrong in ["", "soon", "-1", "1.5"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
