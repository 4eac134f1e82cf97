//! Origins of web pages, browser extensions and apps, for CORS.

/// An origin, or all whose host has one more label before a given host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OriginPattern {
    /// The scheme with `://`, before any label.
    prefix: String,
    /// Host and port; with a wildcard, the part after the label, from its dot.
    rest: String,
    has_wildcard: bool,
}

impl OriginPattern {
    const WILDCARD: &'static str = "*";

    /// Parses `scheme://host[:port]` as browsers write it. The scheme may be that of a browser extension or an app.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let rest = authority.strip_prefix(Self::WILDCARD).filter(|rest| rest.starts_with('.'));
        // A label in place of the wildcard must make an origin.
        let host = rest.map_or_else(|| authority.to_owned(), |rest| format!("label{rest}"));
        let is_origin = !host.contains(Self::WILDCARD) && is_origin(&format!("{scheme}://{host}"));
        (is_origin && !rest.is_some_and(is_suffix)).then(|| Self {
            prefix: format!("{scheme}://"),
            rest: rest.unwrap_or(authority).to_owned(),
            has_wildcard: rest.is_some(),
        })
    }

    /// Returns true if this `Origin` is allowed.
    pub(crate) fn matches(&self, origin: &str) -> bool {
        let label = origin
            .strip_prefix(self.prefix.as_str())
            .and_then(|authority| authority.strip_suffix(self.rest.as_str()));
        label.is_some_and(|label| {
            let is_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            if self.has_wildcard {
                !label.is_empty() && label.bytes().all(is_label)
            } else {
                label.is_empty()
            }
        })
    }
}

/// Returns true if the part after a wildcard is a suffix of one label, such as `.com`. Its sites belong to strangers.
fn is_suffix(rest: &str) -> bool {
    let host = rest.split(':').next().unwrap_or_default().trim_matches('.');
    !host.contains('.') && host != "localhost"
}

/// Returns true if a browser may write this origin: a scheme, a host and a port that is not the scheme's own.
fn is_origin(text: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(text) else { return false };
    let host = url.host_str().filter(|host| !host.is_empty());
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    host.is_some_and(|host| format!("{}://{host}{port}", url.scheme()) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_of_browsers_are_accepted() {
        for origin in [
            "http://localhost:3000",
            "https://[::1]:8443",
            "https://*.example.com",
            "https://*.example.com:8443",
            "http://*.localhost:3000",
            "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
            "moz-extension://0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
            "capacitor://localhost",
            "ionic://localhost:8100",
            "app://obsidian.md",
        ] {
            let pattern = OriginPattern::parse(origin).unwrap_or_else(|| panic!("{origin}"));
            assert!(pattern.matches(&origin.replace('*', "a")), "{origin}");
        }
        for other in [
            "",
            "null",
            "*",
            "example.com",
            "https://",
            "https://*",
            "https://*example.com",
            "https://*.com",
            "https://*.com.",
            "https://*.com.:8443",
            "https://a.*.example.com",
            "https://*.*.example.com",
            "https://*.example.com/",
            "https://example.com:443",
            "https://EXAMPLE.com",
            "https://user@example.com",
            "*://example.com",
            "file://",
            "capacitor://local host",
            "capacitor://localhost/",
            "capacitor://localhost:99999",
            "Capacitor://localhost",
            "1app://localhost",
        ] {
            assert_eq!(OriginPattern::parse(other), None, "{other}");
        }
    }
}
