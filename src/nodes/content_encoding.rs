//! Bodies of replies that are compressed, although no request asks for it (RFC 9110, section 12.5.3, allows it).

use std::io::{self, Read};

use bytes::Bytes;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use reqwest::header::{CONTENT_ENCODING, HeaderMap};

use super::{BodyLimit, Error};

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentEncoding {
    Identity,
    Gzip,
    Deflate,
    /// Another one, or none at all under a wrong name, such as `utf-8`.
    Unknown,
}

impl ContentEncoding {
    /// Returns the encoding that these headers name.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let Some(name) = headers.get(CONTENT_ENCODING) else {
            return Self::Identity;
        };
        match name.as_bytes().trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Self::Identity,
            b"gzip" | b"x-gzip" => Self::Gzip,
            b"deflate" => Self::Deflate,
            _ => Self::Unknown,
        }
    }

    /// Returns the decoded body, of which no more than the limit is decoded, without a byte order mark. Some gateways write
    /// one before JSON, which must not have it (RFC 8259, section 8.1).
    ///
    /// # Errors
    ///
    /// Fails if the body is too large or is not what its encoding says.
    pub(super) fn decode(self, body: Bytes, limit: BodyLimit<'_>) -> Result<Bytes, Error> {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        let body = match self {
            Self::Identity | Self::Unknown => body,
            Self::Gzip => read_all(MultiGzDecoder::new(&*body), limit)?,
            // The name means the format of zlib, but some servers send the bare one.
            Self::Deflate => match read_all(ZlibDecoder::new(&*body), limit) {
                Err(Error::UnexpectedEncoding) => read_all(DeflateDecoder::new(&*body), limit)?,
                outcome => outcome?,
            },
        };
        let has_mark = body.starts_with(BYTE_ORDER_MARK);
        Ok(if has_mark { body.slice(BYTE_ORDER_MARK.len()..) } else { body })
    }
}

fn read_all(mut decoder: impl Read, limit: BodyLimit<'_>) -> Result<Bytes, Error> {
    let mut body = limit.buffer();
    let mut chunk = [0; 8 * 1024];
    loop {
        let length = match decoder.read(&mut chunk) {
            Ok(0) => return Ok(body.into_bytes()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(Error::UnexpectedEncoding),
        };
        limit.append(&mut body, chunk.get(..length).unwrap_or_default())?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::Compression;
    use flate2::read::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    const LIMIT: BodyLimit<'static> = BodyLimit { max_bytes: 100, memory: None };

    fn decode(name: &str, body: &[u8]) -> Result<Vec<u8>, &'static str> {
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, name.parse().unwrap())]);
        let decoded =
            ContentEncoding::from_headers(&headers).decode(Bytes::copy_from_slice(body), LIMIT);
        decoded.map(|bytes| bytes.to_vec()).map_err(|error| error.reason())
    }

    fn compressed(name: &str, text: &[u8]) -> Vec<u8> {
        let level = Compression::fast();
        let mut encoder: Box<dyn Read + '_> = match name {
            "gzip" => Box::new(GzEncoder::new(text, level)),
            "zlib" => Box::new(ZlibEncoder::new(text, level)),
            _ => Box::new(DeflateEncoder::new(text, level)),
        };
        let mut compressed = Vec::new();
        encoder.read_to_end(&mut compressed).unwrap();
        compressed
    }

    #[test]
    fn bodies_are_decoded_up_to_the_limit() {
        for (name, format) in [
            ("gzip", "gzip"),
            (" GZip ", "gzip"),
            ("x-gzip", "gzip"),
            ("deflate", "zlib"),
            ("deflate", "raw"),
        ] {
            assert_eq!(decode(name, &compressed(format, b"{}")), Ok(b"{}".to_vec()), "{name}");
            let full = compressed(format, &[b' '; 100]);
            assert_eq!(decode(name, &full).map(|text| text.len()), Ok(100), "{name}");
            let larger = compressed(format, &[b' '; 101]);
            assert_eq!(decode(name, &larger), Err("too_large"), "{name}");
            let cut = compressed(format, &[7; 100]);
            assert_eq!(decode(name, &cut[..cut.len() / 2]), Err("unexpected_encoding"), "{name}");
            assert_eq!(decode(name, b"{}"), Err("unexpected_encoding"), "{name}");
        }
        let twice = [compressed("gzip", b"{"), compressed("gzip", b"}")].concat();
        assert_eq!(decode("gzip", &twice), Ok(b"{}".to_vec()));
        for name in ["", "identity", "utf-8", "br"] {
            assert_eq!(decode(name, b"{}"), Ok(b"{}".to_vec()), "{name}");
            assert_eq!(decode(name, b"\xef\xbb\xbf{}"), Ok(b"{}".to_vec()), "{name}");
        }
        assert_eq!(decode("gzip", &compressed("gzip", b"\xef\xbb\xbf{}")), Ok(b"{}".to_vec()));
    }
}
