//! Settings shared by every outgoing HTTP client.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_ENCODING, HeaderMap, RETRY_AFTER};

/// Longest time to connect, which the addresses of a name share: one that drops packets leaves time for the others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns a client builder without redirects and without proxies from the environment.
pub(crate) fn builder() -> reqwest::ClientBuilder {
    // All TLS of the process uses it. It stays the first one that was installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
}

/// Returns true if a body is compressed although the request did not ask for it.
pub(crate) fn has_content_encoding(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity")
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
