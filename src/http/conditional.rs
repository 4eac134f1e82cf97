//! Conditional requests.

use axum::http::HeaderValue;

/// Returns the strong tag of the gzip form of a body with the strong `tag`; `None` if that is weak or malformed.
pub(super) fn gzip_tag(tag: &HeaderValue) -> Option<HeaderValue> {
    let inner = tag.as_bytes().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    HeaderValue::from_bytes(&[b"\"", inner, b"-gzip\""].concat()).ok()
}

/// Returns true if one of the values of `If-None-Match` contains `tag`, as a strong or a weak tag (RFC 9110, section
/// 13.1.2). Malformed entries are ignored.
pub(crate) fn matches_tag<'a>(
    tag: &HeaderValue,
    mut conditions: impl Iterator<Item = &'a HeaderValue>,
) -> bool {
    // Splitting at commas is safe: another server's tag may contain a comma, but no part of it has the quotes of a
    // whole tag.
    let is_same_tag = |entry: &[u8]| {
        let entry = entry.trim_ascii();
        entry.strip_prefix(b"W/").unwrap_or(entry) == tag.as_bytes()
    };
    conditions.any(|condition| {
        let condition = condition.as_bytes();
        condition == b"*" || condition.split(|byte| *byte == b',').any(is_same_tag)
    })
}
