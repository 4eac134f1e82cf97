//! URLs that must not be printed.

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::percent_decode_str;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// A URL that may contain a key or a password, so it has no `Display` and its `Debug` is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl<S>(reqwest::Url, PhantomData<S>);

/// URL of a node or another upstream.
pub type UpstreamUrl = SecretUrl<HttpScheme>;

/// URL of a node's WebSocket.
pub(crate) type WebSocketUrl = SecretUrl<WebSocketScheme>;

/// Kind of [`SecretUrl`].
pub trait UrlScheme: Sized {
    /// Schemes of a URL.
    const SCHEMES: &'static [&'static str];
    /// Error of a text that is no such URL. It does not show the text.
    const EXPECTED: &'static str;

    /// Returns what is expected in place of a text that is no such URL.
    fn expected(_: &str) -> &'static str {
        Self::EXPECTED
    }

    /// Returns true if a URL with one of the schemes and a host is also valid otherwise.
    fn accepts(_: &reqwest::Url) -> bool {
        true
    }

    /// Returns the secrets of a URL for the redactor.
    fn secrets(SecretUrl(url, _): &SecretUrl<Self>) -> Vec<String> {
        url_secrets(url)
    }
}

/// `http` and `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpScheme {}

impl UrlScheme for HttpScheme {
    const SCHEMES: &'static [&'static str] = &["http", "https"];
    const EXPECTED: &'static str =
        "expected an http:// or https:// URL (not shown: it may carry a key)";

    fn expected(text: &str) -> &'static str {
        if text.starts_with("ws:") || text.starts_with("wss:") {
            return "expected an http:// or https:// URL; WebSockets of nodes belong into ws_urls";
        }
        Self::EXPECTED
    }
}

/// `ws` and `wss`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebSocketScheme {}

impl UrlScheme for WebSocketScheme {
    const SCHEMES: &'static [&'static str] = &["ws", "wss"];
    const EXPECTED: &'static str = "expected a ws:// or wss:// URL (not shown: it may carry a key)";

    fn secrets(url: &WebSocketUrl) -> Vec<String> {
        [url_secrets(&url.0), url_secrets(&url.upgrade_url())].concat()
    }
}

impl<S: UrlScheme> SecretUrl<S> {
    /// Returns the URL, for the code that connects to it.
    #[must_use]
    pub fn expose(&self) -> &reqwest::Url {
        &self.0
    }

    /// Secrets for the redactor.
    pub(crate) fn secrets(&self) -> Vec<String> {
        S::secrets(self)
    }
}

impl<S> fmt::Debug for SecretUrl<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretUrl(…)")
    }
}

impl<S: UrlScheme> FromStr for SecretUrl<S> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_valid = |url: &reqwest::Url| {
            S::SCHEMES.contains(&url.scheme()) && url.has_host() && S::accepts(url)
        };
        let url = reqwest::Url::parse(text).ok().filter(is_valid);
        url.map(|url| Self(url, PhantomData)).ok_or_else(|| S::expected(text))
    }
}

impl<'de, S: UrlScheme> Deserialize<'de> for SecretUrl<S> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input)?.parse().map_err(D::Error::custom)
    }
}

impl<S: UrlScheme> Serialize for SecretUrl<S> {
    fn serialize<O: Serializer>(&self, out: O) -> Result<O::Ok, O::Error> {
        masked(&self.0).serialize(out)
    }
}

impl WebSocketUrl {
    /// Returns the URL of the upgrade request: `http` for `ws`, `https` for `wss`.
    pub(crate) fn upgrade_url(&self) -> reqwest::Url {
        let mut url = self.0.clone();
        let scheme = if url.scheme() == "wss" { "https" } else { "http" };
        // Cannot fail, because the URL standard allows changes between these schemes.
        let _ = url.set_scheme(scheme);
        url
    }
}

impl UpstreamUrl {
    /// Rejects URLs that cannot be the base of requests.
    pub(crate) fn check_base_url(&self) -> Result<(), &'static str> {
        let Self(url, _) = self;
        if url.query().is_some() || url.fragment().is_some() {
            return Err("must not have a query or a fragment");
        }
        if url.path().contains("//") {
            return Err("must not have consecutive slashes in its path");
        }
        Ok(())
    }

    /// Returns true if the URL has more than scheme, host, port and plain words in its path.
    #[must_use]
    pub fn may_contain_secret(&self) -> bool {
        let Self(url, _) = self;
        let mut segments = url.path_segments().into_iter().flatten();
        let has_key = segments.any(|segment| !looks_public(segment));
        self.has_user() || has_key || url.query().is_some() || url.fragment().is_some()
    }

    /// Returns true if the URL has a user name or a password.
    pub(super) fn has_user(&self) -> bool {
        !self.0.username().is_empty() || self.0.password().is_some()
    }

    /// Returns true if the host is a loopback or private address, or a name that only a local network resolves.
    pub(crate) fn is_private(&self) -> bool {
        const SUFFIXES: [&str; 3] = [".localhost", ".local", ".internal"];
        let host = self.0.host_str().unwrap_or_default().trim_end_matches('.');
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        match literal.parse::<IpAddr>().map(|address| address.to_canonical()) {
            Ok(IpAddr::V4(address)) => {
                address.is_loopback() || address.is_private() || address.is_link_local()
            }
            Ok(IpAddr::V6(address)) => {
                address.is_loopback()
                    || address.is_unique_local()
                    || address.is_unicast_link_local()
            }
            Err(_) => !host.contains('.') || SUFFIXES.iter().any(|suffix| host.ends_with(suffix)),
        }
    }
}

/// Returns a URL without user, path, query and fragment, which may contain a key.
pub(crate) fn masked(url: &reqwest::Url) -> String {
    let mut bare = url.clone();
    bare.set_path("");
    bare.set_query(None);
    bare.set_fragment(None);
    // Fails only for a URL without a host, which none is.
    let _ = bare.set_username("").and_then(|()| bare.set_password(None));
    let is_whole = url.as_str().trim_end_matches('/') == bare.as_str().trim_end_matches('/');
    let bare = bare.as_str().trim_end_matches('/');
    if is_whole { bare.to_owned() } else { format!("{bare}/…") }
}

/// A URL or another secret; `""` is `None`.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Error, FromStr, Serialize, Serializer, fmt};

    pub(crate) fn deserialize<'de, D, T>(input: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: fmt::Display>,
    {
        match String::deserialize(input)?.trim() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(D::Error::custom),
        }
    }

    #[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        url: &Option<T>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        match url {
            Some(url) => url.serialize(out),
            None => out.serialize_str(""),
        }
    }
}

/// Shorter keys would be found in unrelated text.
pub(crate) const MIN_KEY_LENGTH: usize = 5;

/// Returns the secret parts of a URL: the whole URL, its shortened forms, and each part that may be a key, in the
/// encodings that error pages use.
pub(crate) fn url_secrets(url: &reqwest::Url) -> Vec<String> {
    /// Shorter names and passwords would be found in unrelated text.
    const MIN_NAME_LENGTH: usize = 3;
    let mut secrets = whole_url_variants(url);
    let (user, password) = (url.username(), url.password().unwrap_or_default());
    let names = [user, password].into_iter().filter(|name| name.len() >= MIN_NAME_LENGTH);
    secrets.extend(names.flat_map(encoded_variants));
    if !(user.is_empty() && password.is_empty()) {
        let pair = format!("{}:{}", percent_decoded(user), percent_decoded(password));
        secrets.extend([STANDARD_NO_PAD.encode(&pair), URL_SAFE_NO_PAD.encode(&pair)]);
    }
    let segments = url.path_segments().into_iter().flatten().filter(|text| !looks_public(text));
    let values = url
        .query()
        .into_iter()
        .flat_map(|query| query.split('&'))
        .map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    let keys = segments.chain(values).chain(url.fragment());
    let keys = keys.filter(|key| key.len() >= MIN_KEY_LENGTH);
    secrets.extend(keys.flat_map(encoded_variants));
    secrets
}

/// Returns the whole URL, and its forms without the parts that programs omit.
fn whole_url_variants(url: &reqwest::Url) -> Vec<String> {
    let mut stripped = url.clone();
    let mut variants = vec![url.to_string()];
    stripped.set_fragment(None);
    variants.push(stripped.to_string());
    // A host may be shown without its user.
    let _ = stripped.set_username("").and_then(|()| stripped.set_password(None));
    variants.push(stripped.to_string());
    stripped.set_query(None);
    variants.push(stripped.to_string());
    let bare = variants.iter().map(|whole| whole.trim_end_matches('/').to_owned());
    let bare: Vec<_> = bare.collect();
    variants.extend(bare);
    if let (Some(host), Some(port)) = (url.host_str(), url.port()) {
        variants.push(format!("{host}:{port}"));
    }
    variants
}

/// Returns true if a path segment looks public: `rpc`, `v2`, `mainnet`, a chain id. Others may be keys.
fn looks_public(segment: &str) -> bool {
    const MAX_WORD_LENGTH: usize = 8;
    const MAX_MIXED_LENGTH: usize = 4;
    let all = |is: fn(&u8) -> bool| segment.as_bytes().iter().all(is);
    let is_lower_or_digit = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_plain = all(u8::is_ascii_lowercase) || all(u8::is_ascii_digit);
    let length = segment.len();
    length <= MAX_MIXED_LENGTH && all(is_lower_or_digit) || length <= MAX_WORD_LENGTH && is_plain
}

fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Returns a part of a URL, or another secret, in the encodings in which it may appear.
pub(crate) fn encoded_variants(part: &str) -> Vec<String> {
    let plain = percent_decoded(part);
    let form_encoded = plain.replace(' ', "+");
    let decoded_form = percent_decoded(&part.replace('+', " "));
    let encoded = [STANDARD_NO_PAD.encode(&plain), URL_SAFE_NO_PAD.encode(&plain)];
    [part.to_owned(), plain, form_encoded, decoded_form].into_iter().chain(encoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_local_networks_are_private() {
        for host in [
            "localhost",
            "node",
            "geth.localhost",
            "node.local",
            "rpc.cluster.internal",
            "node.local.",
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "169.254.1.1",
            "[::1]",
            "[fd00::1]",
            "[fe80::1]",
            "[::ffff:10.0.0.1]",
        ] {
            let url: UpstreamUrl = format!("http://{host}:8545/key").parse().unwrap();
            assert!(url.is_private(), "{host}");
        }
        for host in [
            "node.example",
            "localhost.example",
            "mylocal.example.localdomain",
            "192.0.2.1",
            "172.32.0.1",
            "[2001:db8::1]",
            "[::ffff:192.0.2.1]",
        ] {
            let url: UpstreamUrl = format!("https://{host}/key").parse().unwrap();
            assert!(!url.is_private(), "{host}");
        }
    }

    #[test]
    fn a_websocket_is_opened_at_the_http_equivalent_of_its_url() {
        let url: WebSocketUrl = "wss://canary:word@node.example:8546/v2/key?a=b".parse().unwrap();
        assert_eq!(url.upgrade_url().as_str(), "https://canary:word@node.example:8546/v2/key?a=b");
        assert_eq!(format!("{url:?}"), "SecretUrl(…)");
        let plain: WebSocketUrl = "ws://node".parse().unwrap();
        assert_eq!(plain.upgrade_url().as_str(), "http://node/");
        assert!(plain.secrets().contains(&"ws://node/".into()));
        for wrong in ["http://canary", "canary", "ws://", "unix:/canary"] {
            assert!(!wrong.parse::<WebSocketUrl>().unwrap_err().contains("canary"));
        }
    }

    #[test]
    fn url_parts_other_than_plain_words_may_be_secrets() {
        let may_hold = |url: &str| url.parse::<UpstreamUrl>().unwrap().may_contain_secret();
        for plain in ["", "/", "/v2/rpc", "/mainnet/2020", "/rpc/202601"] {
            assert!(!may_hold(&format!("http://node:8545{plain}")), "{plain}");
        }
        for url in ["/v2/canarykey", "/Canary", "/c4n4ry", "/?k=v", "/#f"] {
            assert!(may_hold(&format!("http://node{url}")), "{url}");
        }
        assert!(may_hold("http://user@node/") && may_hold("http://:canary@node/"));
    }

    #[test]
    fn a_plain_url_has_only_itself_as_a_secret() {
        let url: UpstreamUrl = "http://node:8545/rpc".parse().unwrap();
        let mut secrets = url.secrets();
        secrets.dedup();
        assert_eq!(secrets, ["http://node:8545/rpc", "node:8545"]);
    }
}
