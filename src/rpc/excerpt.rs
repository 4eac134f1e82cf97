//! The beginning of a body that could not be read, for the log.

use std::fmt;

/// At most 128 bytes of printable ASCII.
///
/// Error pages like to repeat what was asked for, in encodings of their own, and that of a proxy may know
/// another node's URL: where any URL may hold a secret, only the body's length is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    const MAX_BYTES: usize = 128;

    pub(super) fn of(body: &[u8], is_shown: bool) -> Self {
        if !is_shown {
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

    #[test]
    fn it_is_short_and_printable() {
        let shown = |body| Excerpt::of(body, true).to_string();
        assert_eq!(shown(b""), "(empty)");
        assert_eq!(shown(b"<html>\r\n\x1b[31m\xff"), "<html>\\r\\n\\u{1b}[31m\\u{fffd}");
        assert_eq!(shown(&[b'a'; 1000]).len(), 128);
        assert!(shown("\u{10ffff}".repeat(1000).as_bytes()).len() <= 128);
    }

    #[test]
    fn nothing_but_its_length_is_told_where_it_is_not_shown() {
        assert_eq!(Excerpt::of(b"bad auth Y2FuYXJ5", false).to_string(), "17 bytes");
    }
}
