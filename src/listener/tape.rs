//! The bytes of requests as they came, kept until their headers are complete.
//!
//! hyper drops a `Content-Length` that stands beside `Transfer-Encoding` before anybody sees it; a
//! proxy in front may have gone by either, so such a request has to be refused (RFC 9112, section
//! 6.1: it "ought to be handled as an error").

use axum::http::{HeaderMap, header};

/// What came and was not yet accounted for.
#[derive(Debug, Default)]
pub(super) struct Tape {
    bytes: Vec<u8>,
    /// How much of a request's body is still to come, which is not recorded.
    body: u64,
    /// Nothing more is recorded: where the next request begins is not known.
    is_lost: bool,
}

/// How a request's body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// In one way, after which another request may follow.
    Plain,
    /// By its length, and not all of it is known to be here.
    Unfinished,
    /// In chunks. Their end is not followed here, so the connection has to close.
    Chunked,
    /// In two ways, or nobody can tell.
    Ambiguous,
}

impl Tape {
    /// More than this nobody sends ahead of answers.
    const MAX_BYTES: usize = 64 * 1024;

    pub(super) fn record(&mut self, bytes: &[u8]) {
        let of_body = usize::try_from(self.body).unwrap_or(usize::MAX).min(bytes.len());
        self.body = self.body.saturating_sub(of_body.try_into().unwrap_or(u64::MAX));
        let rest = bytes.get(of_body..).unwrap_or_default();
        if self.bytes.len().saturating_add(rest.len()) > Self::MAX_BYTES {
            self.lose();
        }
        if !self.is_lost {
            self.bytes.extend_from_slice(rest);
        }
    }

    /// Takes the bytes of the next request's headers, which are `headers` to those who read them.
    pub(super) fn next_head(&mut self, headers: &HeaderMap) -> Framing {
        let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
        let length = headers.get(header::CONTENT_LENGTH);
        if !is_chunked && length.is_none() && self.bytes.ends_with(b"\r\n\r\n") {
            // Nearly all requests. More of them may lie behind it; then the tape is empty when
            // their turn comes, which matters for a chunked one alone.
            self.bytes.clear();
            return Framing::Plain;
        }
        let head = Head::of(&self.bytes);
        if is_chunked {
            self.lose();
            return match head {
                Some(Head { has_length: false, .. }) if is_chunked_alone(headers) => {
                    Framing::Chunked
                }
                _ => Framing::Ambiguous,
            };
        }
        match (head, length) {
            (Some(head), length) => {
                let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
                self.bytes.drain(..head.bytes);
                self.body = self.body.saturating_add(length.unwrap_or_default());
                let behind = std::mem::take(&mut self.bytes);
                self.record(&behind);
            }
            (None, None) => return Framing::Plain,
            (None, Some(_)) => self.lose(),
        }
        if self.may_be_in_body() { Framing::Unfinished } else { Framing::Plain }
    }

    /// Whether what comes next may belong to the last request's body.
    pub(super) fn may_be_in_body(&self) -> bool {
        self.is_lost || self.body > 0
    }

    /// Whether nothing of a request is there: empty lines before one are none of it.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.iter().all(|byte| b"\r\n".contains(byte))
    }

    pub(super) fn is_in_first_line(&self) -> bool {
        !self.is_lost && !self.bytes.contains(&b'\n')
    }

    fn lose(&mut self) {
        *self = Self { is_lost: true, ..Self::default() };
    }
}

/// Whether the body is in chunks once and is nothing else: to the rest, which hyper would take, not
/// everybody gives the same meaning.
fn is_chunked_alone(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let first =
        codings.next().is_some_and(|first| first.as_bytes().eq_ignore_ascii_case(b"chunked"));
    first && codings.next().is_none()
}

/// The headers of one request as bytes.
struct Head {
    /// With the empty line at their end.
    bytes: usize,
    has_length: bool,
}

impl Head {
    fn of(tape: &[u8]) -> Option<Self> {
        let (mut bytes, mut has_begun, mut has_length) = (0_usize, false, false);
        for line in tape.split_inclusive(|byte| *byte == b'\n') {
            bytes = bytes.saturating_add(line.len());
            let text = line.strip_suffix(b"\n")?;
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            match (text.is_empty(), has_begun) {
                // Empty lines before a request are none of it.
                (true, false) => {}
                (true, true) => return Some(Self { bytes, has_length }),
                (false, _) => has_begun = true,
            }
            let name = text.split(|byte| *byte == b':').next().unwrap_or_default();
            has_length |= name.trim_ascii().eq_ignore_ascii_case(b"content-length");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    const CHUNKED: &[(&str, &str)] = &[("transfer-encoding", "chunked")];

    #[test]
    fn two_ways_to_delimit_a_body_are_ambiguous_in_any_order_and_spelling() {
        for head in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n",
            "\r\n\nPOST / HTTP/1.1\nTransfer-Encoding: chunked\nCONTENT-LENGTH:5\n\n",
        ] {
            let mut tape = Tape::default();
            tape.record(head.as_bytes());
            assert_eq!(tape.next_head(&headers(CHUNKED)), Framing::Ambiguous, "{head:?}");
        }
    }

    #[test]
    fn a_length_in_a_chunk_or_an_earlier_request_is_none_of_the_request() {
        let mut tape = Tape::default();
        tape.record(b"POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\nab");
        assert_eq!(tape.next_head(&headers(&[("content-length", "7")])), Framing::Unfinished);
        tape.record(b"cdef");
        assert!(tape.may_be_in_body());
        tape.record(b"gPOST / HTTP/1.1\r\nTransfer-Enc");
        assert!(!tape.may_be_in_body());
        tape.record(b"oding: chunked\r\n\r\n19\r\nContent-Length: 5\r\n");
        assert_eq!(tape.next_head(&headers(CHUNKED)), Framing::Chunked);
    }

    #[test]
    fn a_chunked_request_that_came_together_with_others_cannot_be_told() {
        let mut tape = Tape::default();
        tape.record(b"GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(tape.next_head(&headers(&[])), Framing::Plain);
        assert_eq!(tape.next_head(&headers(CHUNKED)), Framing::Ambiguous);
    }

    #[test]
    fn requests_that_came_together_are_plain_to_the_last() {
        let mut tape = Tape::default();
        let get = b"GET / HTTP/1.1\r\n\r\n";
        tape.record(&get.repeat(3));
        for _ in 0..3 {
            assert_eq!(tape.next_head(&headers(&[])), Framing::Plain);
        }
        // One in two pieces, the first of which came with others.
        tape.record(&[&get[..], get, b"POST / HTTP/1.1\r\nContent-"].concat());
        assert_eq!(tape.next_head(&headers(&[])), Framing::Plain);
        assert_eq!(tape.next_head(&headers(&[])), Framing::Plain);
        assert!(!tape.is_empty());
        tape.record(b"Length: 2\r\n\r\nabPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(tape.next_head(&headers(&[("content-length", "2")])), Framing::Plain);
        assert_eq!(tape.next_head(&headers(CHUNKED)), Framing::Chunked);
    }

    #[test]
    fn only_chunked_alone_and_once_is_followed_by_everybody() {
        for codings in [&["gzip, chunked"][..], &["chunked", "chunked"], &["identity", "chunked"]] {
            let mut tape = Tape::default();
            tape.record(b"POST / HTTP/1.1\r\nTransfer-Encoding: whatever\r\n\r\n");
            let mut headers = HeaderMap::new();
            for coding in codings {
                headers.append(header::TRANSFER_ENCODING, coding.parse().unwrap());
            }
            assert_eq!(tape.next_head(&headers), Framing::Ambiguous, "{codings:?}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut tape = Tape::default();
        tape.record(b"POST / HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n");
        tape.next_head(&headers(&[("content-length", "1000000000000")]));
        for _ in 0..100 {
            tape.record(&[b'x'; 10_000]);
        }
        assert!(tape.is_empty());
        let mut tape = Tape::default();
        for _ in 0..100 {
            tape.record(&[b'x'; 10_000]);
            assert!(tape.bytes.len() <= Tape::MAX_BYTES);
        }
        assert_eq!(tape.next_head(&headers(CHUNKED)), Framing::Ambiguous);
    }
}
