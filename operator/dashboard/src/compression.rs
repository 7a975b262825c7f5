//! Compression of answers with gzip.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Returns true if the client reads gzip.
pub(crate) fn accepts_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(ACCEPT_ENCODING).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_gzip = parts.next() == Some("gzip");
        is_gzip && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// Compresses a whole answer.
pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut stream = GzipStream::default();
    let mut all = stream.push(body);
    all.extend(stream.finish());
    all
}

/// Compresses a stream, one part after another. The client can read each part at once.
pub(crate) struct GzipStream(GzEncoder<Vec<u8>>);

impl Default for GzipStream {
    fn default() -> Self {
        Self(GzEncoder::new(Vec::new(), Compression::fast()))
    }
}

impl GzipStream {
    /// Returns the compressed part.
    pub(crate) fn push(&mut self, part: &[u8]) -> Vec<u8> {
        // A vector takes all that is written.
        let _ = self.0.write_all(part);
        let _ = self.0.flush();
        std::mem::take(self.0.get_mut())
    }

    /// Returns the end of the stream.
    fn finish(self) -> Vec<u8> {
        self.0.finish().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use http::HeaderValue;

    use super::*;

    #[test]
    fn client_says_whether_it_reads_gzip() {
        for (value, expected) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, gzip;q=0.8", true),
            ("gzip;q=0", false),
            ("deflate", false),
            ("", false),
        ] {
            let headers = [(ACCEPT_ENCODING, HeaderValue::from_static(value))];
            assert_eq!(
                accepts_gzip(&headers.into_iter().collect()),
                expected,
                "{value}"
            );
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn each_part_can_be_read_before_the_next() {
        let mut stream = GzipStream::default();
        let mut compressed = Vec::new();
        let mut plain: Vec<u8> = Vec::new();
        for part in ["one\n", "two\n", "three\n"] {
            compressed.extend(stream.push(part.as_bytes()));
            plain.extend(part.as_bytes());
            let mut read = vec![0; plain.len()];
            GzDecoder::new(compressed.as_slice())
                .read_exact(&mut read)
                .unwrap();
            assert_eq!(read, plain);
        }
    }

    #[test]
    fn whole_answer_is_a_complete_file() {
        let mut read = String::new();
        GzDecoder::new(gzip(b"all of it").as_slice())
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, "all of it");
    }
}
