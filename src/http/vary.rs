//! One `Vary` line for all reasons: layers and handlers add a line each, and some caches, such as nginx's, keep one.

use axum::http::header::VARY;
use axum::http::{HeaderMap, HeaderValue};

/// Joins the `Vary` lines. A name stays once, and `*` stands for all names.
pub(crate) fn join_lines(headers: &mut HeaderMap) {
    const ANY: &[u8] = b"*";
    if headers.get_all(VARY).iter().nth(1).is_none() {
        return;
    }
    let lines = headers.get_all(VARY).iter().map(HeaderValue::as_bytes);
    let names = lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let mut joined: Vec<&[u8]> = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        if name == ANY {
            joined = vec![ANY];
            break;
        }
        if !joined.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            joined.push(name);
        }
    }
    let joined = HeaderValue::from_bytes(&joined.join(&b", "[..]));
    headers.insert(VARY, joined.expect("parts of header values are one"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_become_one_without_repetitions() {
        for (lines, joined) in [
            (&[][..], &[][..]),
            (&["origin"], &["origin"]),
            (&["accept, accept"], &["accept, accept"]),
            (&["accept-encoding", "origin"], &["accept-encoding, origin"]),
            (
                &["Accept-Encoding ,origin", "", "accept-encoding,\tx-api-key,,", "ORIGIN"],
                &["Accept-Encoding, origin, x-api-key"],
            ),
            (&["accept", "origin, *", "cookie"], &["*"]),
            (&["", " , "], &[""]),
            (&["\u{e4}", "origin"], &["\u{e4}, origin"]),
        ] {
            let value = |line: &&str| HeaderValue::from_bytes(line.as_bytes()).unwrap();
            let mut headers: HeaderMap = lines.iter().map(|line| (VARY, value(line))).collect();
            join_lines(&mut headers);
            let found: Vec<_> = headers.get_all(VARY).iter().cloned().collect();
            assert_eq!(found, joined.iter().map(value).collect::<Vec<_>>(), "{lines:?}");
        }
    }
}
