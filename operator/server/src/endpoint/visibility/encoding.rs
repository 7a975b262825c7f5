//! Compression of large answers.

use std::io::Write as _;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Smallest answer that is compressed, as in kube-apiserver (`defaultGzipThresholdBytes`).
const MIN_BYTES: usize = 128 << 10;

/// Encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Encoding {
    /// As it is.
    Plain,
    /// Compressed, if the answer is large.
    Gzip,
}

/// An encoded answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EncodedBytes {
    pub(super) bytes: Bytes,
    pub(super) is_compressed: bool,
}

impl Encoding {
    /// Returns the encoding that the client accepts.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::ACCEPT_ENCODING).iter();
        let values = values.filter_map(|value| value.to_str().ok());
        let mut ranges = values.flat_map(|value| value.split(','));
        let accepts = ranges.any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_gzip = parts.next() == Some("gzip");
            is_gzip && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        });
        match accepts {
            true => Self::Gzip,
            false => Self::Plain,
        }
    }

    /// Encodes an answer.
    pub(super) fn encode(self, bytes: Bytes) -> EncodedBytes {
        if self == Self::Plain || bytes.len() < MIN_BYTES {
            return EncodedBytes::plain(bytes);
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let written = encoder.write_all(&bytes).and_then(|()| encoder.finish());
        match written {
            Ok(compressed) => EncodedBytes {
                bytes: Bytes::from(compressed),
                is_compressed: true,
            },
            // A vector takes all that is written.
            Err(_) => EncodedBytes::plain(bytes),
        }
    }
}

impl EncodedBytes {
    /// An answer as it is.
    pub(super) fn plain(bytes: Bytes) -> Self {
        Self {
            bytes,
            is_compressed: false,
        }
    }

    /// The headers that describe the encoding.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        if self.is_compressed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    fn accepted(value: &'static str) -> Encoding {
        let headers = [(header::ACCEPT_ENCODING, HeaderValue::from_static(value))];
        Encoding::from_headers(&headers.into_iter().collect())
    }

    #[test]
    fn client_says_whether_it_reads_gzip() {
        for (value, encoding) in [
            ("gzip", Encoding::Gzip),
            ("br, gzip;q=0.5", Encoding::Gzip),
            ("gzip;q=0, identity", Encoding::Plain),
            ("deflate", Encoding::Plain),
            ("", Encoding::Plain),
        ] {
            assert_eq!(accepted(value), encoding, "{value}");
        }
        assert_eq!(Encoding::from_headers(&HeaderMap::new()), Encoding::Plain);
    }

    #[test]
    fn only_large_answers_are_compressed() {
        let large = Bytes::from(vec![b'a'; MIN_BYTES]);
        let small = large.slice(1..);
        assert!(!Encoding::Gzip.encode(small).is_compressed);
        assert!(!Encoding::Plain.encode(large.clone()).is_compressed);
        let encoded = Encoding::Gzip.encode(large.clone());
        assert!(encoded.is_compressed);
        assert_eq!(encoded.headers()[header::CONTENT_ENCODING], "gzip");
        assert!(encoded.bytes.len() < large.len());
        let mut read = Vec::new();
        GzDecoder::new(&*encoded.bytes)
            .read_to_end(&mut read)
            .unwrap();
        assert_eq!(read, large);
    }
}
