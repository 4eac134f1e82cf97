//! The beginning of a body that could not be read, for the log.

use std::fmt;

use crate::config::RpcUrl;

/// At most 128 bytes of printable ASCII, in which the URL that was called is blanked: error pages
/// like to repeat what was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    const MAX_BYTES: usize = 128;

    pub(super) fn of(body: &[u8], url: &RpcUrl) -> Self {
        // Blanked as a whole before it is cut, so that no cut leaves half a key.
        let text = url.blank(&String::from_utf8_lossy(body));
        let mut excerpt = String::new();
        for character in text.chars() {
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

    fn shown(body: &[u8]) -> String {
        let url: RpcUrl =
            "https://us%2Der:canary1@node.example/v2/canary2/x?key=canary%203&b#canary4"
                .parse()
                .unwrap();
        Excerpt::of(body, &url).to_string()
    }

    #[test]
    fn it_is_short_and_printable() {
        assert_eq!(shown(b""), "(empty)");
        assert_eq!(shown(b"<html>\r\n\x1b[31m\xff"), "<html>\\r\\n\\u{1b}[31m\\u{fffd}");
        assert_eq!(shown(&[b'a'; 1000]).len(), 128);
        assert!(shown("\u{10ffff}".repeat(1000).as_bytes()).len() <= 128);
    }

    #[test]
    fn nothing_secret_of_the_url_is_in_it() {
        let echoed =
            "no https://us%2Der:canary1@node.example/v2/canary2/x?key=canary%203&b#canary4";
        let parts = "/V2/CANARY2 us-er us%2Der canary 3 canary%203 canary1 canary4";
        for body in [echoed, parts] {
            let shown = shown(body.as_bytes()).to_lowercase();
            for secret in ["canary", "us-er", "us%2der"] {
                assert!(!shown.contains(secret), "{secret} in {shown}");
            }
        }
        // A key that the cut would leave half of.
        let cut = format!("{}canary2", "x".repeat(125));
        assert!(!shown(cut.as_bytes()).contains('c'));
    }
}
