//! Parser of HTTP/1.1 messages, complete or not, and builders of requests.

use httparse::{EMPTY_HEADER, Status, parse_chunk_size};

/// A request or a response, possibly incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The request or status line.
    pub(crate) start_line: String,
    /// Headers in order, names in lower case.
    pub(crate) headers: Headers,
    /// The received part of the body, without chunk framing.
    pub(crate) body: Vec<u8>,
    /// True if the body ends as declared and nothing follows.
    pub(crate) is_complete: bool,
}

type Headers = Vec<(String, String)>;

/// Framing of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    /// Until the connection is closed.
    Open,
}

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Response,
    HeadResponse,
}

impl Message {
    /// Parses `bytes`, which may be incomplete. `None` before the end of the headers.
    pub(crate) fn parse(kind: Kind, bytes: &[u8]) -> Option<Self> {
        let (message, end) = Self::parse_prefix(kind, bytes)?;
        Some(Self { is_complete: end == Some(bytes.len()), ..message })
    }

    /// Parses the message at the start of `bytes`. Returns it with its length once it is complete.
    pub(crate) fn parse_first(kind: Kind, bytes: &[u8]) -> Option<(Self, usize)> {
        let (message, end) = Self::parse_prefix(kind, bytes)?;
        Some((Self { is_complete: true, ..message }, end?))
    }

    /// Returns true if `bytes` start with a complete message. Cheaper than [`parse`](Self::parse).
    pub(crate) fn is_complete_in(kind: Kind, bytes: &[u8]) -> bool {
        let Some((message, start)) = Self::parse_head(kind, bytes) else { return false };
        let rest = &bytes[start..];
        match message.framing(kind) {
            Framing::Length(length) => rest.len() >= length,
            Framing::Chunked => rest.ends_with(b"0\r\n\r\n") && read_chunks(rest, |_| ()).is_some(),
            Framing::Open => false,
        }
    }

    /// Returns the message and where it ends; `None` for the end while that is unknown.
    fn parse_prefix(kind: Kind, bytes: &[u8]) -> Option<(Self, Option<usize>)> {
        let (mut message, start) = Self::parse_head(kind, bytes)?;
        let rest = &bytes[start..];
        let end = match message.framing(kind) {
            Framing::Length(length) => {
                message.body = rest[..rest.len().min(length)].to_vec();
                (rest.len() >= length).then_some(length)
            }
            Framing::Chunked => read_chunks(rest, |chunk| message.body.extend_from_slice(chunk)),
            Framing::Open => {
                message.body = rest.to_vec();
                None
            }
        };
        Some((message, end.map(|end| start + end)))
    }

    /// Returns the message without its body, and where the body begins.
    fn parse_head(kind: Kind, bytes: &[u8]) -> Option<(Self, usize)> {
        let mut headers = [EMPTY_HEADER; 128];
        let (status, headers) = if kind == Kind::Request {
            let mut request = httparse::Request::new(&mut headers);
            (request.parse(bytes).expect("a request's headers"), &*request.headers)
        } else {
            let mut response = httparse::Response::new(&mut headers);
            (response.parse(bytes).expect("a response's headers"), &*response.headers)
        };
        let Status::Complete(start) = status else { return None };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers =
            headers.iter().map(|header| (header.name.to_lowercase(), text(header.value))).collect();
        let start_line = text(bytes.split(|byte| *byte == b'\r').next()?);
        Some((Self { start_line, headers, body: Vec::new(), is_complete: false }, start))
    }

    fn framing(&self, kind: Kind) -> Framing {
        let has_no_body = kind == Kind::HeadResponse
            || kind == Kind::Response && matches!(self.status(), 100..200 | 204 | 304);
        match (self.header("transfer-encoding"), self.header("content-length")) {
            _ if has_no_body => Framing::Length(0),
            ("chunked", "") => Framing::Chunked,
            ("", "") if kind == Kind::Response => Framing::Open,
            ("", "") => Framing::Length(0),
            ("", length) => Framing::Length(length.parse().expect("a length")),
            both => panic!("two ways to delimit a body: {both:?}"),
        }
    }

    /// Returns a header's only value, or an empty string.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut values = self.headers.iter().filter(|(one, _)| one == name);
        let value = values.next().map_or("", |(_, value)| value);
        assert!(values.next().is_none(), "{name} twice in {self:#?}");
        value
    }

    pub(crate) fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(one, _)| one == name)
    }

    /// Returns the headers, one a line, by name, with `…` for the values of those that vary.
    pub(crate) fn header_text(&self, varying: &[&str]) -> String {
        let mut headers: Vec<_> = self.headers.iter().collect();
        headers.sort_by_key(|(name, _)| name);
        let shown =
            |value, name: &String| if varying.contains(&name.as_str()) { "…" } else { value };
        let lines = headers.iter().map(|(name, value)| format!("{name}: {}", shown(value, name)));
        lines.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn status(&self) -> u16 {
        self.start_line[9..12].parse().expect("a status line")
    }

    pub(crate) fn closes_connection(&self) -> bool {
        self.header("connection") == "close"
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns the message as a text to search, also with its JSON and percent escapes decoded.
    pub(crate) fn searchable_text(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let json = serde_json::from_slice::<serde_json::Value>(&self.body);
        let json = json.map(|json| json.to_string().replace('\\', "")).unwrap_or_default();
        let plain = percent_encoding::percent_decode_str(&body).decode_utf8_lossy();
        format!("{}\n{:?}\n{body}\n{json}\n{plain}", self.start_line, self.headers)
    }

    /// Returns the status and the code of the problem document, which is empty if the body is not one.
    pub(crate) fn outcome(&self) -> (u16, String) {
        if self.header("content-type") != "application/problem+json" {
            return (self.status(), String::new());
        }
        let problem = self.problem();
        assert_eq!(problem["status"], self.status(), "{self:#?}");
        assert_eq!(problem["request_id"], self.header("x-request-id"), "{self:#?}");
        assert_ne!(self.header("x-request-id"), "", "{self:#?}");
        assert_eq!(self.header("cache-control"), "no-store", "{self:#?}");
        assert_eq!(self.header("access-control-allow-origin"), "*", "{self:#?}");
        (self.status(), problem["code"].as_str().unwrap().to_owned())
    }

    /// Like [`outcome`](Self::outcome), where every error has to be the service's own.
    pub(crate) fn own_outcome(&self) -> (u16, String) {
        let is_problem = self.header("content-type") == "application/problem+json";
        assert_eq!(is_problem, self.status() >= 400, "{self:#?}");
        self.outcome()
    }

    pub(crate) fn problem(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Passes each chunk to `take` and returns where the chunks end. `None`: incomplete.
fn read_chunks(bytes: &[u8], mut take: impl FnMut(&[u8])) -> Option<usize> {
    let mut at = 0;
    loop {
        let Status::Complete((line, size)) =
            parse_chunk_size(&bytes[at..]).expect("a chunk's size")
        else {
            return None;
        };
        let (start, size) = (at + line, usize::try_from(size).unwrap());
        take(&bytes[start..bytes.len().min(start + size)]);
        at = start + size + 2;
        let end = bytes.get(at - 2..at)?;
        assert_eq!(end, b"\r\n", "the end of a chunk");
        if size == 0 {
            return Some(at);
        }
    }
}

/// Encodes `body` in chunks of `size` bytes.
pub(crate) fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = body
        .chunks(size)
        .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
        .collect();
    bytes.extend(b"0\r\n\r\n");
    bytes
}

/// Builds a GET request with these further header lines.
pub(crate) fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}

/// Builds a POST request with a `Content-Length`.
pub(crate) fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// Builds a POST request with a chunked body.
pub(crate) fn post_chunked(path: &str, headers: &str, chunks: &[u8]) -> Vec<u8> {
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{headers}\r\n");
    [head.as_bytes(), chunks].concat()
}
