//! Parser of HTTP/1.1 messages as one side of a proxy received them, complete or not.

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
    /// Parses `bytes`, which may be incomplete. Returns `None` before the end of the headers.
    pub(crate) fn parse(kind: Kind, bytes: &[u8]) -> Option<Self> {
        let (start_line, headers, start) = head(bytes)?;
        let rest = &bytes[start..];
        let mut message = Self { start_line, headers, body: Vec::new(), is_complete: false };
        match message.framing(kind) {
            Framing::Length(length) => {
                message.is_complete = rest.len() == length;
                message.body = rest.to_vec();
            }
            Framing::Open => message.body = rest.to_vec(),
            Framing::Chunked => {
                let end = chunks(rest, |chunk| message.body.extend_from_slice(chunk));
                message.is_complete = end == Some(rest.len());
            }
        }
        Some(message)
    }

    /// Returns true if `bytes` contain a complete message. Cheaper than [`parse`](Self::parse).
    pub(crate) fn is_complete_in(kind: Kind, bytes: &[u8]) -> bool {
        let Some((start_line, headers, start)) = head(bytes) else { return false };
        let rest = &bytes[start..];
        let message = Self { start_line, headers, body: Vec::new(), is_complete: false };
        match message.framing(kind) {
            Framing::Length(length) => rest.len() >= length,
            Framing::Chunked => rest.ends_with(b"0\r\n\r\n") && chunks(rest, |_| ()).is_some(),
            Framing::Open => false,
        }
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

    /// Returns the names of all headers, sorted.
    pub(crate) fn header_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn status(&self) -> u16 {
        self.start_line[9..12].parse().expect("a status line")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns the message as text to search for secrets: as received, with JSON escapes decoded, and with percent
    /// escapes decoded.
    pub(crate) fn searchable_text(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let json = serde_json::from_slice::<serde_json::Value>(&self.body);
        let json = json.map(|json| json.to_string().replace('\\', "")).unwrap_or_default();
        let plain = percent_encoding::percent_decode_str(&body).decode_utf8_lossy();
        format!("{}\n{:?}\n{body}\n{json}\n{plain}", self.start_line, self.headers)
    }

    /// Returns the status and the code of the problem document. The code is empty for other responses.
    pub(crate) fn outcome(&self) -> (u16, String) {
        if self.header("content-type") != "application/problem+json" {
            return (self.status(), String::new());
        }
        let problem = self.problem();
        assert_eq!(problem["status"], self.status(), "{self:#?}");
        assert_eq!(problem["request_id"], self.header("x-request-id"), "{self:#?}");
        assert_eq!(self.header("cache-control"), "no-store", "{self:#?}");
        assert_eq!(self.header("access-control-allow-origin"), "*", "{self:#?}");
        (self.status(), problem["code"].as_str().unwrap().to_owned())
    }

    pub(crate) fn problem(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

type Headers = Vec<(String, String)>;

/// Parses the start line and the headers. Also returns where the body begins.
fn head(bytes: &[u8]) -> Option<(String, Headers, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = text.split("\r\n");
    let start_line = lines.next()?.to_owned();
    let headers = lines.map(|line| line.split_once(": ").expect("a header"));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Some((start_line, headers.collect(), end + 4))
}

/// Passes each chunk to `take` and returns where the chunks end, or `None` if they are incomplete.
fn chunks(bytes: &[u8], mut take: impl FnMut(&[u8])) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[at..at + line]).expect("a chunk's size");
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        at += line + 2;
        let here = &bytes[at..bytes.len().min(at + size)];
        take(here);
        if bytes.len() < at + size + 2 {
            return None;
        }
        assert_eq!(&bytes[at + size..at + size + 2], b"\r\n", "the end of a chunk");
        at += size + 2;
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
