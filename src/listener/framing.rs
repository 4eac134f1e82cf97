//! Tracks the raw bytes of requests until their headers are complete.
//!
//! hyper drops a `Content-Length` beside `Transfer-Encoding` before the service sees it. A proxy in front may have used
//! either, so such a request is rejected (RFC 9112, section 6.1: it "ought to be handled as an error").

use axum::http::{HeaderMap, header};

/// Bytes that arrived and belong to no parsed head yet.
#[derive(Debug, Default)]
pub(super) struct FramingTracker {
    unparsed: Vec<u8>,
    /// Bytes of the body still to come; they are not recorded.
    body_remaining: u64,
    /// True once the start of the next request is unknown; nothing more is recorded.
    is_untracked: bool,
}

/// How a request's body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Unambiguous and fully received, or without a body.
    Complete,
    /// By `Content-Length`, and not fully received.
    Incomplete,
    /// Chunked. The end is not tracked here, so the connection has to close.
    Chunked,
    /// Ambiguous: two framings, or an unknown one.
    Ambiguous,
}

impl FramingTracker {
    /// Limit of tracked bytes; no client pipelines more.
    const MAX_BYTES: usize = 64 * 1024;

    pub(super) fn record(&mut self, bytes: &[u8]) {
        let body_bytes =
            usize::try_from(self.body_remaining).unwrap_or(usize::MAX).min(bytes.len());
        self.body_remaining =
            self.body_remaining.saturating_sub(body_bytes.try_into().unwrap_or(u64::MAX));
        let rest = bytes.get(body_bytes..).unwrap_or_default();
        if self.unparsed.len().saturating_add(rest.len()) > Self::MAX_BYTES {
            self.stop_tracking();
        }
        if !self.is_untracked {
            self.unparsed.extend_from_slice(rest);
        }
    }

    /// Removes the head that hyper parsed as `headers`; returns how its body is delimited.
    pub(super) fn take_head(&mut self, headers: &HeaderMap) -> Framing {
        let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
        let length = headers.get(header::CONTENT_LENGTH);
        if !is_chunked && length.is_none() && self.unparsed.ends_with(b"\r\n\r\n") {
            // The common case. If more requests follow, `unparsed` is empty when they are parsed, which matters only
            // for a chunked one.
            self.unparsed.clear();
            return Framing::Complete;
        }
        let head = RequestHead::parse(&self.unparsed);
        if is_chunked {
            self.stop_tracking();
            return match head {
                Some(RequestHead { has_content_length: false, .. }) if is_only_chunked(headers) => {
                    Framing::Chunked
                }
                _ => Framing::Ambiguous,
            };
        }
        match (head, length) {
            (Some(head), length) => {
                let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
                self.unparsed.drain(..head.length);
                self.body_remaining =
                    self.body_remaining.saturating_add(length.unwrap_or_default());
                let pipelined = std::mem::take(&mut self.unparsed);
                self.record(&pipelined);
            }
            (None, None) => return Framing::Complete,
            (None, Some(_)) => self.stop_tracking(),
        }
        if self.may_be_in_body() { Framing::Incomplete } else { Framing::Complete }
    }

    /// Returns true if the next bytes may belong to the last request's body.
    pub(super) fn may_be_in_body(&self) -> bool {
        self.is_untracked || self.body_remaining > 0
    }

    /// Returns true if no byte of a request has arrived. Empty lines before a request do not count.
    pub(super) fn is_empty(&self) -> bool {
        self.unparsed.iter().all(|byte| b"\r\n".contains(byte))
    }

    pub(super) fn is_in_request_line(&self) -> bool {
        !self.is_untracked && !self.unparsed.contains(&b'\n')
    }

    fn stop_tracking(&mut self) {
        *self = Self { is_untracked: true, ..Self::default() };
    }
}

/// Returns true if the only coding is one `chunked`. hyper accepts other values too, but parsers disagree on them.
fn is_only_chunked(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let first =
        codings.next().is_some_and(|first| first.as_bytes().eq_ignore_ascii_case(b"chunked"));
    first && codings.next().is_none()
}

/// Raw headers of one request.
struct RequestHead {
    /// Includes the empty line at the end.
    length: usize,
    has_content_length: bool,
}

impl RequestHead {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (mut length, mut has_begun, mut has_content_length) = (0_usize, false, false);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            length = length.saturating_add(line.len());
            let text = line.strip_suffix(b"\n")?;
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            match (text.is_empty(), has_begun) {
                // Empty lines before a request are ignored.
                (true, false) => {}
                (true, true) => return Some(Self { length, has_content_length }),
                (false, _) => has_begun = true,
            }
            let name = text.split(|byte| *byte == b':').next().unwrap_or_default();
            has_content_length |= name.trim_ascii().eq_ignore_ascii_case(b"content-length");
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

    const CHUNKED_HEADERS: &[(&str, &str)] = &[("transfer-encoding", "chunked")];

    #[test]
    fn length_and_chunked_together_are_ambiguous() {
        for head in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n",
            "\r\n\nPOST / HTTP/1.1\nTransfer-Encoding: chunked\nCONTENT-LENGTH:5\n\n",
        ] {
            let mut tracker = FramingTracker::default();
            tracker.record(head.as_bytes());
            assert_eq!(
                tracker.take_head(&headers(CHUNKED_HEADERS)),
                Framing::Ambiguous,
                "{head:?}"
            );
        }
    }

    #[test]
    fn length_in_a_chunk_or_an_earlier_request_is_ignored() {
        let mut tracker = FramingTracker::default();
        tracker.record(b"POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\nab");
        assert_eq!(tracker.take_head(&headers(&[("content-length", "7")])), Framing::Incomplete);
        tracker.record(b"cdef");
        assert!(tracker.may_be_in_body());
        tracker.record(b"gPOST / HTTP/1.1\r\nTransfer-Enc");
        assert!(!tracker.may_be_in_body());
        tracker.record(b"oding: chunked\r\n\r\n19\r\nContent-Length: 5\r\n");
        assert_eq!(tracker.take_head(&headers(CHUNKED_HEADERS)), Framing::Chunked);
    }

    #[test]
    fn pipelined_chunked_request_is_ambiguous() {
        let mut tracker = FramingTracker::default();
        tracker
            .record(b"GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(tracker.take_head(&headers(&[])), Framing::Complete);
        assert_eq!(tracker.take_head(&headers(CHUNKED_HEADERS)), Framing::Ambiguous);
    }

    #[test]
    fn pipelined_requests_are_complete() {
        let mut tracker = FramingTracker::default();
        let get = b"GET / HTTP/1.1\r\n\r\n";
        tracker.record(&get.repeat(3));
        for _ in 0..3 {
            assert_eq!(tracker.take_head(&headers(&[])), Framing::Complete);
        }
        // A head in two parts, the first of which arrived with other requests.
        tracker.record(&[&get[..], get, b"POST / HTTP/1.1\r\nContent-"].concat());
        assert_eq!(tracker.take_head(&headers(&[])), Framing::Complete);
        assert_eq!(tracker.take_head(&headers(&[])), Framing::Complete);
        assert!(!tracker.is_empty());
        tracker.record(b"Length: 2\r\n\r\nabPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(tracker.take_head(&headers(&[("content-length", "2")])), Framing::Complete);
        assert_eq!(tracker.take_head(&headers(CHUNKED_HEADERS)), Framing::Chunked);
    }

    #[test]
    fn any_coding_but_a_single_chunked_is_ambiguous() {
        for codings in [&["gzip, chunked"][..], &["chunked", "chunked"], &["identity", "chunked"]] {
            let mut tracker = FramingTracker::default();
            tracker.record(b"POST / HTTP/1.1\r\nTransfer-Encoding: whatever\r\n\r\n");
            let mut headers = HeaderMap::new();
            for coding in codings {
                headers.append(header::TRANSFER_ENCODING, coding.parse().unwrap());
            }
            assert_eq!(tracker.take_head(&headers), Framing::Ambiguous, "{codings:?}");
        }
    }

    #[test]
    fn buffered_bytes_are_bounded() {
        let mut tracker = FramingTracker::default();
        tracker.record(b"POST / HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n");
        tracker.take_head(&headers(&[("content-length", "1000000000000")]));
        for _ in 0..100 {
            tracker.record(&[b'x'; 10_000]);
        }
        assert!(tracker.is_empty());
        let mut tracker = FramingTracker::default();
        for _ in 0..100 {
            tracker.record(&[b'x'; 10_000]);
            assert!(tracker.unparsed.len() <= FramingTracker::MAX_BYTES);
        }
        assert_eq!(tracker.take_head(&headers(CHUNKED_HEADERS)), Framing::Ambiguous);
    }
}
