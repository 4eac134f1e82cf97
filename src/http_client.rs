//! What every HTTP client of this service has in common.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_ENCODING, HeaderMap, RETRY_AFTER};

/// Ends where it is told to and nowhere else: no redirects, no proxies of the environment.
pub(crate) fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
}

/// Whether a body is compressed although nobody asked for that.
pub(crate) fn has_content_encoding(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity")
}

/// RFC 9110, section 10.2.3: seconds, or a date.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}
