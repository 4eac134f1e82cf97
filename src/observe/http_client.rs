//! Settings shared by every outgoing HTTP client.

mod trusted;

use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

use reqwest::Proxy;
use reqwest::header::{ACCEPT, HeaderMap, RETRY_AFTER};

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
    Ok(builder.tls_backend_preconfigured(trusted::tls_config(upstream.ca_file.certificates())))
}

/// Returns a client of services beside the upstreams, which are called directly. `timeout` is the time of a whole call.
///
/// # Errors
///
/// As [`builder`].
pub(crate) fn direct(timeout: Duration) -> Result<reqwest::Client, reqwest::Error> {
    builder(&Upstream::default())?.timeout(timeout).build()
}

/// Asks a service once, as `upstream` says. Returns words about its response.
///
/// # Errors
///
/// Returns the reason why the service cannot be used: no response, one that refuses the key, or one that says that it failed.
pub(crate) async fn check_service(
    upstream: &Upstream,
    url: String,
    headers: HeaderMap,
) -> Result<String, String> {
    const TIMEOUT: Duration = Duration::from_secs(10);
    let sent = async {
        let client = builder(upstream)?.timeout(TIMEOUT).build()?;
        client.get(url).header(ACCEPT, "application/json").headers(headers).send().await
    };
    match sent.await.map(|response| response.status().as_u16()) {
        Ok(status @ (401 | 403)) => {
            Err(format!("HTTP status {status}: it refuses the key, or needs one"))
        }
        Ok(status @ 500..) => Err(format!("HTTP status {status}")),
        Ok(status) => Ok(format!("answers, HTTP status {status}")),
        Err(error) if speaks_no_tls(&error) => Err(SPEAKS_NO_TLS.to_owned()),
        Err(error) => {
            let error = anyhow::Error::from(error.without_url());
            Err(format!("{error:#}"))
        }
    }
}

/// Error of an `https://` URL whose server answers in the clear.
pub(crate) const SPEAKS_NO_TLS: &str = "the server does not speak TLS; try http://";

/// Returns true if the server does not speak TLS, although the URL says so.
pub(crate) fn speaks_no_tls(error: &reqwest::Error) -> bool {
    let mut causes = std::iter::successors(error.source(), |&error| error.source());
    causes.any(is_no_tls_message)
}

fn is_no_tls_message(error: &(dyn Error + 'static)) -> bool {
    // An error of input and output is no cause of its own, but wraps one, which may be another such error.
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => is_no_tls_message(wrapped),
        None => matches!(error.downcast_ref(), Some(rustls::Error::InvalidMessage(_))),
    }
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
