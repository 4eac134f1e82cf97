//! URLs of nodes, with the headers of requests to them.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor, value};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::secret_url::{HttpScheme, MIN_KEY_LENGTH, SecretUrl, UrlScheme, encoded_variants};

/// URL of a node, and the headers of each request to it. In the configuration it is a URL, or
/// `{ url = "…", headers = { Authorization = "Bearer …" } }`. Values of headers are secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeUrl<S = HttpScheme> {
    url: SecretUrl<S>,
    /// The values are marked as sensitive, and not printed.
    headers: HeaderMap,
}

/// Headers that the service sets itself. Another value would break the request.
const OWN_HEADERS: [&str; 6] =
    ["content-type", "content-length", "transfer-encoding", "connection", "upgrade", "te"];
const OWN_PREFIX: &str = "sec-websocket-";

impl<S> NodeUrl<S> {
    /// Returns the URL, for the code that connects to it.
    #[must_use]
    pub fn url(&self) -> &SecretUrl<S> {
        &self.url
    }

    /// Returns the headers of each request to the node. Their values are marked as sensitive.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

impl<S: UrlScheme> NodeUrl<S> {
    /// Secrets of the URL and the headers, for the redactor.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let values = self.headers.values().filter_map(|value| value.to_str().ok());
        let values = values.flat_map(header_secrets).filter(|value| value.len() >= MIN_KEY_LENGTH);
        let values = values.flat_map(|value| encoded_variants(&value));
        self.url.secrets().into_iter().chain(values).collect()
    }
}

impl NodeUrl {
    /// Returns true if the URL may contain a key, or a header has one.
    pub(crate) fn may_contain_secret(&self) -> bool {
        !self.headers.is_empty() || self.url.may_contain_secret()
    }
}

impl<S> From<SecretUrl<S>> for NodeUrl<S> {
    fn from(url: SecretUrl<S>) -> Self {
        Self { url, headers: HeaderMap::new() }
    }
}

/// Returns a header's value, the token after its scheme (`Bearer …`), and what a `Basic` token encodes.
fn header_secrets(value: &str) -> Vec<String> {
    let mut secrets = vec![value.to_owned()];
    if let Some((scheme, token)) = value.split_once(' ') {
        secrets.push(token.trim().to_owned());
        let decoded =
            STANDARD.decode(token.trim()).ok().and_then(|raw| String::from_utf8(raw).ok());
        if let Some(pair) = decoded.filter(|_| scheme.eq_ignore_ascii_case("basic")) {
            secrets.extend(pair.split_once(':').map(|(_, password)| password.to_owned()));
            secrets.push(pair);
        }
    }
    secrets
}

/// The table form.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, bound = "S: UrlScheme")]
struct NodeUrlTable<S> {
    url: SecretUrl<S>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

impl<S: UrlScheme> NodeUrlTable<S> {
    /// Converts the headers. Errors show neither names nor values: one may stand in the other's place.
    fn into_node_url(self) -> Result<NodeUrl<S>, &'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name: HeaderName =
                name.trim().parse().map_err(|_| "expected names of HTTP headers in headers")?;
            if OWN_HEADERS.contains(&name.as_str()) || name.as_str().starts_with(OWN_PREFIX) {
                return Err("headers must not have one that the service sets itself");
            }
            let mut value = match value.trim() {
                "" => return Err("the value of a header must not be empty"),
                value => HeaderValue::from_str(value)
                    .map_err(|_| "the value of a header must be one line of ASCII characters")?,
            };
            value.set_sensitive(true);
            if headers.insert(name, value).is_some() {
                return Err("headers must not have a name twice");
            }
        }
        Ok(NodeUrl { url: self.url, headers })
    }
}

impl<'de, S: UrlScheme> Deserialize<'de> for NodeUrl<S> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct UrlOrTable<S>(PhantomData<S>);

        impl<'de, S: UrlScheme> Visitor<'de> for UrlOrTable<S> {
            type Value = NodeUrl<S>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a URL, or a table of url and headers")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<NodeUrl<S>, E> {
                text.parse::<SecretUrl<S>>().map(NodeUrl::from).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NodeUrl<S>, A::Error> {
                let table = NodeUrlTable::deserialize(value::MapAccessDeserializer::new(map))?;
                table.into_node_url().map_err(A::Error::custom)
            }
        }

        input.deserialize_any(UrlOrTable(PhantomData))
    }
}

/// Masked: the names of headers are shown.
impl<S: UrlScheme> Serialize for NodeUrl<S> {
    fn serialize<O: Serializer>(&self, out: O) -> Result<O::Ok, O::Error> {
        if self.headers.is_empty() {
            return self.url.serialize(out);
        }
        let names = self.headers.keys().map(|name| (name.as_str(), "…"));
        let mut table = out.serialize_struct("NodeUrl", 2)?;
        table.serialize_field("url", &self.url)?;
        table.serialize_field("headers", &names.collect::<BTreeMap<_, _>>())?;
        table.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WebSocketScheme;

    fn parse(toml: &str) -> Result<NodeUrl, String> {
        #[derive(serde::Deserialize)]
        struct Document {
            node: NodeUrl,
        }
        let parsed = toml_edit::de::from_str::<Document>(&format!("node = {toml}"));
        parsed.map(|document| document.node).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_node_is_a_url_or_a_table_with_headers() {
        let plain = parse("\"https://node.example/v2/c4n4ry-0123\"").unwrap();
        assert!(plain.headers().is_empty());
        assert_eq!(plain, parse("{ url = \"https://node.example/v2/c4n4ry-0123\" }").unwrap());
        let node = parse(
            "{ url = \"https://node.example\", headers = { Authorization = \" Bearer c4n4ry-token\\n\", X-Team = \"blue1\" } }",
        )
        .unwrap();
        assert_eq!(node.headers()["authorization"], "Bearer c4n4ry-token");
        assert_eq!(node.headers().len(), 2);
        assert!(node.may_contain_secret() && !node.url().may_contain_secret());
        assert!(!format!("{node:?}").contains("c4n4ry"), "{node:?}");
        let shown = serde_json::to_string(&node).unwrap();
        let expected =
            r#"{"url":"https://node.example","headers":{"authorization":"…","x-team":"…"}}"#;
        assert_eq!(shown, expected);
    }

    #[test]
    fn every_form_of_a_header_is_a_secret() {
        let secrets_of = |value: &str| {
            let toml =
                format!("{{ url = \"http://node\", headers = {{ Authorization = \"{value}\" }} }}");
            parse(&toml).unwrap().secrets()
        };
        let has = |all: &[String], one: &str| all.iter().any(|secret| secret == one);
        let bearer = secrets_of("Bearer c4n4ry-token");
        assert!(has(&bearer, "Bearer c4n4ry-token") && has(&bearer, "c4n4ry-token"), "{bearer:?}");
        let basic = secrets_of("basic dXNlcjpjNG40cnktcGFzcw==");
        for secret in ["dXNlcjpjNG40cnktcGFzcw==", "user:c4n4ry-pass", "c4n4ry-pass"] {
            assert!(has(&basic, secret), "{secret}: {basic:?}");
        }
        // It would be found in unrelated text.
        assert!(!has(&secrets_of("1"), "1"));
    }

    #[test]
    fn wrong_headers_are_refused_without_showing_them() {
        let url = "url = \"https://node.example\"";
        for wrong in [
            "{ headers = { A = \"c4n4ry\" } }".to_owned(),
            format!("{{ {url}, header = {{ A = \"c4n4ry\" }} }}"),
            format!("{{ {url}, headers = {{ \"c4n4ry key\" = \"A\" }} }}"),
            format!("{{ {url}, headers = {{ A = \"\" }} }}"),
            format!("{{ {url}, headers = {{ A = \"c4n4ry\\nB: c4n4ry\" }} }}"),
            format!("{{ {url}, headers = {{ A = \"c4n4ry\", a = \"c4n4ry\" }} }}"),
            format!("{{ {url}, headers = {{ Content-Length = \"7\" }} }}"),
            format!("{{ {url}, headers = {{ Sec-WebSocket-Key = \"c4n4ry\" }} }}"),
            "{ url = \"ftp://c4n4ry\" }".to_owned(),
        ] {
            let error = parse(&wrong).expect_err(&wrong);
            assert!(!error.contains("c4n4ry"), "{wrong}: {error}");
        }
        let socket = "{\"url\":\"http://node\"}";
        serde_json::from_str::<NodeUrl<WebSocketScheme>>(socket).unwrap_err();
    }
}
