//! Beginning of an unexpected body, for the log.

/// Returns at most 128 bytes of printable ASCII.
///
/// Error pages often repeat the request in some other encoding, and a proxy's page may contain another node's URL. If
/// any URL may contain a secret, only the body's length is shown.
pub(crate) fn body_snippet(body: &[u8], is_loggable: bool) -> String {
    const MAX_BYTES: usize = 128;
    if !is_loggable {
        return format!("{} bytes", body.len());
    }
    if body.is_empty() {
        return "(empty)".to_owned();
    }
    let mut snippet = String::new();
    for character in String::from_utf8_lossy(body).chars() {
        let escaped = character.escape_default();
        if snippet.len().saturating_add(escaped.len()) > MAX_BYTES {
            break;
        }
        snippet.extend(escaped);
    }
    snippet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_short_and_printable() {
        let shown = |body| body_snippet(body, true);
        assert_eq!(shown(b""), "(empty)");
        assert_eq!(shown(b"<html>\r\n\x1b[31m\xff"), "<html>\\r\\n\\u{1b}[31m\\u{fffd}");
        assert_eq!(shown(&[b'a'; 1000]).len(), 128);
        assert!(shown("\u{10ffff}".repeat(1000).as_bytes()).len() <= 128);
    }

    #[test]
    fn a_body_that_may_hold_a_secret_is_reported_by_length_only() {
        assert_eq!(body_snippet(b"bad auth Y2FuYXJ5", false), "17 bytes");
    }
}
