//! Beginning of an unexpected body, for the log.

use std::fmt;

/// At most 128 bytes of printable ASCII.
///
/// Error pages often repeat the request in some other encoding, and a proxy's page may contain another node's URL. If
/// any URL may contain a secret, only the body's length is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BodySnippet(String);

impl BodySnippet {
    const MAX_BYTES: usize = 128;

    pub(crate) fn new(body: &[u8], is_loggable: bool) -> Self {
        if !is_loggable {
            return Self(format!("{} bytes", body.len()));
        }
        let mut snippet = String::new();
        for character in String::from_utf8_lossy(body).chars() {
            let escaped = character.escape_default();
            if snippet.len().saturating_add(escaped.len()) > Self::MAX_BYTES {
                break;
            }
            snippet.extend(escaped);
        }
        Self(snippet)
    }
}

impl fmt::Display for BodySnippet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { out.write_str("(empty)") } else { out.write_str(&self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_short_and_printable() {
        let shown = |body| BodySnippet::new(body, true).to_string();
        assert_eq!(shown(b""), "(empty)");
        assert_eq!(shown(b"<html>\r\n\x1b[31m\xff"), "<html>\\r\\n\\u{1b}[31m\\u{fffd}");
        assert_eq!(shown(&[b'a'; 1000]).len(), 128);
        assert!(shown("\u{10ffff}".repeat(1000).as_bytes()).len() <= 128);
    }

    #[test]
    fn a_body_that_may_hold_a_secret_is_reported_by_length_only() {
        assert_eq!(BodySnippet::new(b"bad auth Y2FuYXJ5", false).to_string(), "17 bytes");
    }
}
