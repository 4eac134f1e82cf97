//! The beginning of a body that could not be read, for the log.

use std::fmt;

use crate::config::RpcUrl;

/// At most 128 bytes of printable ASCII.
///
/// Error pages like to repeat what was asked for, in encodings of their own: where the URL may hold a
/// secret, only the body's length is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    const MAX_BYTES: usize = 128;

    pub(super) fn of(body: &[u8], url: &RpcUrl) -> Self {
        if url.may_hold_a_secret() {
            return Self(format!("{} bytes", body.len()));
        }
        let mut excerpt = String::new();
        for character in String::from_utf8_lossy(body).chars() {
            let escaped = character.escape_default();
            if excerpt.len().saturating_add(escaped.len()) > Self::MAX_BYTES {
                break;
            }
            excerpt.extend(escaped);
        }
        Self(excerpt)
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { out.write_str("(empty)") } else { out.write_str(&self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str, body: &[u8]) -> String {
        Excerpt::of(body, &url.parse().unwrap()).to_string()
    }

    #[test]
    fn it_is_short_and_printable() {
        let shown = |body| shown("http://node:8545/rpc", body);
        assert_eq!(shown(b""), "(empty)");
        assert_eq!(shown(b"<html>\r\n\x1b[31m\xff"), "<html>\\r\\n\\u{1b}[31m\\u{fffd}");
        assert_eq!(shown(&[b'a'; 1000]).len(), 128);
        assert!(shown("\u{10ffff}".repeat(1000).as_bytes()).len() <= 128);
    }

    #[test]
    fn nothing_is_told_but_its_length_where_the_url_may_hold_a_secret() {
        assert_eq!(shown("http://user:canary@node/", b"bad auth Y2FuYXJ5"), "17 bytes");
        assert_eq!(shown("http://node/?key=canary+2", b"canary%2B2"), "10 bytes");
    }
}
