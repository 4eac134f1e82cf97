//! HTTP/1.1 messages as the bytes they are: what a side of a proxy got, and whether it was all.

/// A request or an answer, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The request or status line.
    pub(crate) first: String,
    /// Names in lower case, in order.
    pub(crate) headers: Headers,
    /// What there is of the body, chunks put together.
    pub(crate) body: Vec<u8>,
    /// Whether it ends as it says, and nothing stands behind it.
    pub(crate) is_whole: bool,
}

/// How a body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    /// By the end of the connection.
    Open,
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Answer,
    AnswerToHead,
}

impl Message {
    /// The message that `bytes` are, as far as it is there; `None` before the end of its headers.
    pub(crate) fn of(kind: Kind, bytes: &[u8]) -> Option<Self> {
        let (first, headers, start) = head(bytes)?;
        let rest = &bytes[start..];
        let mut message = Self { first, headers, body: Vec::new(), is_whole: false };
        match message.framing(kind) {
            Framing::Length(length) => {
                message.is_whole = rest.len() == length;
                message.body = rest.to_vec();
            }
            Framing::Open => message.body = rest.to_vec(),
            Framing::Chunked => {
                let end = chunks(rest, |chunk| message.body.extend_from_slice(chunk));
                message.is_whole = end == Some(rest.len());
            }
        }
        Some(message)
    }

    /// Whether `bytes` are such a message to its end; more cheaply than by taking it apart.
    pub(crate) fn ends_in(kind: Kind, bytes: &[u8]) -> bool {
        let Some((first, headers, start)) = head(bytes) else { return false };
        let rest = &bytes[start..];
        let message = Self { first, headers, body: Vec::new(), is_whole: false };
        match message.framing(kind) {
            Framing::Length(length) => rest.len() >= length,
            Framing::Chunked => rest.ends_with(b"0\r\n\r\n") && chunks(rest, |_| ()).is_some(),
            Framing::Open => false,
        }
    }

    fn framing(&self, kind: Kind) -> Framing {
        let has_none = kind == Kind::AnswerToHead
            || kind == Kind::Answer && matches!(self.status(), 100..200 | 204 | 304);
        match (self.header("transfer-encoding"), self.header("content-length")) {
            _ if has_none => Framing::Length(0),
            ("chunked", "") => Framing::Chunked,
            ("", "") if kind == Kind::Answer => Framing::Open,
            ("", "") => Framing::Length(0),
            ("", length) => Framing::Length(length.parse().expect("a length")),
            both => panic!("two ways to delimit a body: {both:?}"),
        }
    }

    /// A header's only value; empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut values = self.headers.iter().filter(|(one, _)| one == name);
        let value = values.next().map_or("", |(_, value)| value);
        assert!(values.next().is_none(), "{name} twice in {self:#?}");
        value
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(one, _)| one == name)
    }

    /// The names of all headers, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn status(&self) -> u16 {
        self.first[9..12].parse().expect("a status line")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// All of it as a text to look for something in, with what its JSON and its escapes stand for.
    pub(crate) fn told(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let json = serde_json::from_slice::<serde_json::Value>(&self.body);
        let json = json.map(|json| json.to_string().replace('\\', "")).unwrap_or_default();
        let plain = percent_encoding::percent_decode_str(&body).decode_utf8_lossy();
        format!("{}\n{:?}\n{body}\n{json}\n{plain}", self.first, self.headers)
    }

    /// The status, and the code of the problem; what is no problem has none.
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

/// The first line, the headers and where the body begins.
fn head(bytes: &[u8]) -> Option<(String, Headers, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = text.split("\r\n");
    let first = lines.next()?.to_owned();
    let headers = lines.map(|line| line.split_once(": ").expect("a header"));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Some((first, headers.collect(), end + 4))
}

/// Takes each chunk and gives where they end; `None`: not yet.
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

/// `body` in chunks of so many bytes.
pub(crate) fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = body
        .chunks(size)
        .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
        .collect();
    bytes.extend(b"0\r\n\r\n");
    bytes
}
