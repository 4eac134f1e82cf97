//! What every HTTP client of this service has in common.

/// Ends where it is told to and nowhere else: no redirects, no proxies of the environment.
pub(crate) fn http() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
}
