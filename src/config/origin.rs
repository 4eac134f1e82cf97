//! Origins of web pages, browser extensions and apps, for CORS.

/// An origin, or all whose host has one more label before a given host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OriginPattern {
    /// The origin; with a wildcard, the part before the label.
    before: String,
    /// The part after the label, from its dot; `None`: there is no wildcard.
    after: Option<String>,
}

impl OriginPattern {
    /// Parses `scheme://host[:port]` as browsers write it. The scheme may be that of a browser extension or an app.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (before, after) = match text.split_once("://*.") {
            Some((scheme, host)) => (format!("{scheme}://"), Some(format!(".{host}"))),
            None => (text.to_owned(), None),
        };
        // A label in place of the wildcard must make an origin.
        let example = match &after {
            Some(after) => format!("{before}label{after}"),
            None => before.clone(),
        };
        let is_allowed = !example.contains('*') && is_origin(&example);
        (is_allowed && !after.as_deref().is_some_and(is_suffix)).then_some(Self { before, after })
    }

    /// Returns true if this `Origin` is allowed.
    pub(crate) fn matches(&self, origin: &str) -> bool {
        let Some(after) = &self.after else { return origin == self.before };
        let is_label = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let label = origin.strip_prefix(self.before.as_str());
        let label = label.and_then(|label| label.strip_suffix(after.as_str()));
        label.is_some_and(|label| !label.is_empty() && label.bytes().all(is_label))
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
