//! gzip of responses.

use std::io::Write;

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Returns the bytes of `chunks` as gzip.
pub(super) fn gzip(chunks: &[Bytes], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    for chunk in chunks {
        encoder.write_all(chunk).expect("memory can be written");
    }
    encoder.finish().expect("memory can be written")
}

/// Returns true unless the response with these headers is compressed already, or its type is that of an image or of events.
pub(super) fn is_compressible(response: &HeaderMap) -> bool {
    let content_type = response.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    let is_image = content_type.starts_with("image/") && !content_type.starts_with("image/svg+xml");
    !response.contains_key(CONTENT_ENCODING)
        && !is_image
        && !content_type.starts_with("text/event-stream")
}

/// Returns true if `Accept-Encoding` lists gzip with a weight above 0.
pub(super) fn accepts_gzip(request: &HeaderMap) -> bool {
    let lines = request.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|entry| {
        let (coding, parameter) = entry.split_once(';').unwrap_or((entry, "q=1"));
        // An unreadable weight counts as 0.
        let weight = match parameter.split_once('=') {
            Some((name, weight)) if name.trim().eq_ignore_ascii_case("q") => weight.trim().parse(),
            _ => Ok(0.0),
        };
        coding.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight: f32| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn gzip_is_accepted_with_a_weight_above_zero() {
        for (encoding, expected) in [
            ("gzip", true),
            ("br, GZIP ; Q=0.1", true),
            ("gzip;q=1.0", true),
            ("gzip;Q=0", false),
            ("gzip; q = 0", false),
            ("gzip;q=none", false),
            ("br, *;q=0.5", false),
            ("", false),
        ] {
            let value = HeaderValue::from_static(encoding);
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, value)]);
            assert_eq!(accepts_gzip(&headers), expected, "{encoding}");
        }
    }
}
