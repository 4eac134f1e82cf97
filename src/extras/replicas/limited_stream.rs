//! The socket to Redis, with a limit on the size of one reply.
//!
//! The client library buffers a reply until it is complete, and has no limit of its own. So the bytes are counted here,
//! before the library gets them: the frames of RESP3 say where a reply ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use redis::{ConnectionAddr, ErrorKind, RedisError, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::assembly::{ByteStream, Dial};

/// Limit of one reply or message. Records have about a kilobyte, and at most 256 KiB.
const MAX_REPLY_BYTES: usize = 1024 * 1024;

/// A socket whose reads fail after a reply that is too large.
pub(crate) struct LimitedStream {
    stream: Box<dyn ByteStream>,
    meter: ReplyMeter,
    is_exceeded: Arc<AtomicBool>,
}

/// Error: a reply is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyTooLarge;

impl LimitedStream {
    /// Connects to Redis, by `dial` if there is one. Sets the flag when a reply is too large.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, or its certificate is not valid.
    pub(crate) async fn connect(
        address: &ConnectionAddr,
        dial: Option<&Arc<dyn Dial>>,
        is_exceeded: Arc<AtomicBool>,
    ) -> RedisResult<Self> {
        let stream: Box<dyn ByteStream> = match address {
            ConnectionAddr::Tcp(host, port) => match dial {
                None => Box::new(connect_tcp(host, *port).await?),
                Some(dial) => dial.connect(host, *port).await?,
            },
            ConnectionAddr::TcpTls { host, port, .. } => {
                let name =
                    ServerName::try_from(host.as_str()).map_err(io::Error::other)?.to_owned();
                let stream = connect_tcp(host, *port).await?;
                Box::new(TlsConnector::from(tls_config()?).connect(name, stream).await?)
            }
            _ => {
                return Err(RedisError::from((
                    ErrorKind::InvalidClientConfig,
                    "not a TCP address",
                )));
            }
        };
        Ok(Self { stream, meter: ReplyMeter::default(), is_exceeded })
    }
}

async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Trusts the system's certificates, or those of `SSL_CERT_FILE`.
fn tls_config() -> io::Result<Arc<ClientConfig>> {
    let mut loaded = rustls_native_certs::load_native_certs();
    if let Some(error) = loaded.errors.pop() {
        return Err(io::Error::other(error));
    }
    let mut roots = RootCertStore::empty();
    for certificate in loaded.certs {
        roots.add(certificate).map_err(io::Error::other)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}

impl ReplyTooLarge {
    const MESSAGE: &str = "Redis sent a reply of more than 1 MiB";

    /// Returns true if this is the reason of `error`.
    pub(crate) fn is_reason_of(error: &RedisError) -> bool {
        error.is_io_error() && error.to_string().contains(Self::MESSAGE)
    }
}

impl From<ReplyTooLarge> for RedisError {
    fn from(_: ReplyTooLarge) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, ReplyTooLarge::MESSAGE).into()
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let known = buffer.filled().len();
        let outcome = Pin::new(&mut this.stream).poll_read(context, buffer);
        if this.meter.count(buffer.filled().get(known..).unwrap_or_default()).is_err() {
            this.is_exceeded.store(true, Ordering::Relaxed);
            let error = io::Error::new(io::ErrorKind::InvalidData, ReplyTooLarge::MESSAGE);
            return Poll::Ready(Err(error));
        }
        outcome
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// Counts the bytes of the current reply. Pure.
#[derive(Debug, Default)]
struct ReplyMeter {
    /// Bytes of the current reply so far.
    bytes: usize,
    /// Values that are missing to complete it, besides the current one.
    further_values: usize,
    position: Position,
}

/// Position within a value.
#[derive(Debug, Default)]
enum Position {
    /// At its first byte, which is its type.
    #[default]
    Type,
    /// In the line of a value of this type.
    Line { kind: u8, length: Length, ends_with_cr: bool },
    /// In its content, of which as many bytes are missing.
    Content(usize),
}

/// The number in a line.
#[derive(Debug, Clone, Copy, Default)]
struct Length {
    value: usize,
    /// A negative one stands for null.
    is_negative: bool,
}

impl ReplyMeter {
    /// Counts bytes that were received.
    fn count(&mut self, mut bytes: &[u8]) -> Result<(), ReplyTooLarge> {
        while let Some((&first, rest)) = bytes.split_first() {
            let taken = match &mut self.position {
                Position::Content(missing) => {
                    let taken = bytes.len().min(*missing);
                    *missing -= taken;
                    taken
                }
                Position::Type => {
                    let length = Length::default();
                    self.position = Position::Line { kind: first, length, ends_with_cr: false };
                    1
                }
                Position::Line { length, ends_with_cr, .. } => {
                    if first == b'\n' && *ends_with_cr {
                        self.end_line()?;
                    } else {
                        length.append(first);
                        *ends_with_cr = first == b'\r';
                    }
                    1
                }
            };
            self.bytes = self.bytes.saturating_add(taken);
            if self.bytes > MAX_REPLY_BYTES {
                return Err(ReplyTooLarge);
            }
            if matches!(self.position, Position::Content(0)) {
                self.end_value();
            }
            bytes = if taken == 1 { rest } else { bytes.get(taken..).unwrap_or_default() };
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), ReplyTooLarge> {
        const CRLF_BYTES: usize = 2;
        let Position::Line { kind, length, .. } = self.position else { return Ok(()) };
        let length = if length.is_negative { None } else { Some(length.value) };
        let (content, values) = match (kind, length) {
            (b'$' | b'!' | b'=', Some(length)) => (length.saturating_add(CRLF_BYTES), 0),
            (b'*' | b'~' | b'>', Some(length)) => (0, length),
            (b'%', Some(length)) => (0, length.saturating_mul(2)),
            // Attributes stand before a value.
            (b'|', Some(length)) => (0, length.saturating_mul(2).saturating_add(1)),
            _ => (0, 0),
        };
        // Each value has some bytes, so neither can be met.
        if content.max(values) > MAX_REPLY_BYTES {
            return Err(ReplyTooLarge);
        }
        self.further_values = self.further_values.saturating_add(values);
        self.position = Position::Content(content);
        Ok(())
    }

    fn end_value(&mut self) {
        self.position = Position::Type;
        match self.further_values.checked_sub(1) {
            Some(further) => self.further_values = further,
            None => self.bytes = 0,
        }
    }
}

impl Length {
    fn append(&mut self, byte: u8) {
        match byte {
            b'-' => self.is_negative = true,
            b'0'..=b'9' => {
                let digit = usize::from(byte - b'0');
                self.value = self.value.saturating_mul(10).saturating_add(digit);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the bytes in pieces of each of these sizes, and returns what is left of the last reply.
    fn count(bytes: &[u8]) -> Result<usize, ReplyTooLarge> {
        let count_in = |size: usize| {
            let mut meter = ReplyMeter::default();
            bytes.chunks(size).try_for_each(|chunk| meter.count(chunk)).map(|()| meter.bytes)
        };
        let [whole, in_pieces] = [bytes.len().max(1), 7].map(count_in);
        assert_eq!(whole, in_pieces);
        whole
    }

    #[test]
    fn replies_of_each_type_end_where_they_end() {
        for reply in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":-12\r\n",
            "_\r\n",
            "#t\r\n",
            ",1.5e3\r\n",
            "(12345678901234567890\r\n",
            "$0\r\n\r\n",
            "$5\r\na\r\nbc\r\n",
            "$-1\r\n",
            "=7\r\ntxt:a\r\n\r\n",
            "!4\r\nERR \r\n",
            "*0\r\n",
            "*-1\r\n",
            "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            "~1\r\n+a\r\n",
            ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n{}\r\n",
            "%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n+c\r\n_\r\n",
            "|1\r\n+ttl\r\n:3600\r\n$1\r\na\r\n",
        ] {
            // As many bytes as are allowed in one reply, in many.
            let many = reply.repeat(2 * MAX_REPLY_BYTES / reply.len());
            assert_eq!(count(many.as_bytes()), Ok(0), "{reply:?}");
            let begun = format!("{reply}{}", &reply[..reply.len() - 1]);
            assert_eq!(count(begun.as_bytes()), Ok(reply.len() - 1), "{reply:?}");
        }
    }

    #[test]
    fn larger_replies_are_refused() {
        let line = |bytes| format!("+{}\r\n", "x".repeat(bytes));
        assert_eq!(count(line(MAX_REPLY_BYTES - 3).as_bytes()), Ok(0));
        assert_eq!(count(line(MAX_REPLY_BYTES).as_bytes()), Err(ReplyTooLarge));
        let without_end = [
            "+".to_owned() + &"x".repeat(MAX_REPLY_BYTES),
            "+".to_owned() + &"\n+".repeat(MAX_REPLY_BYTES / 2),
            "*1000000\r\n".to_owned() + &"_\r\n".repeat(MAX_REPLY_BYTES / 3),
            "*1\r\n".repeat(MAX_REPLY_BYTES / 4 + 1),
        ];
        for reply in without_end {
            assert_eq!(count(reply.as_bytes()), Err(ReplyTooLarge), "{:?}", &reply[..10]);
        }
        // The announced length is enough.
        for reply in ["$1048577\r\n", "*99999999999999999999\r\n", "%600000\r\n"] {
            assert_eq!(count(reply.as_bytes()), Err(ReplyTooLarge), "{reply:?}");
        }
    }
}
