//! The files of the page, built from `web/` and compiled into the program.

use axum::body::Bytes;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::compression;

/// A file of the page.
#[derive(Clone, Debug)]
pub(crate) struct Asset {
    path: &'static str,
    content_type: &'static str,
    plain: &'static [u8],
    compressed: Bytes,
    etag: HeaderValue,
}

/// All files of the page.
#[derive(Clone, Debug)]
pub(crate) struct Assets(Vec<Asset>);

/// The page itself. Each path of a view has it.
const PAGE: &str = "/index.html";

impl Assets {
    /// Compresses the files.
    pub(crate) fn load() -> Self {
        Self(vec![
            Asset::new(
                PAGE,
                "text/html; charset=utf-8",
                include_bytes!("../assets/index.html"),
            ),
            Asset::new(
                "/app.js",
                "text/javascript; charset=utf-8",
                include_bytes!("../assets/app.js"),
            ),
            Asset::new(
                "/app.css",
                "text/css; charset=utf-8",
                include_bytes!("../assets/app.css"),
            ),
            Asset::new(
                "/pages.js",
                "text/javascript; charset=utf-8",
                include_bytes!("../assets/pages.js"),
            ),
            Asset::new(
                "/icon.svg",
                "image/svg+xml",
                include_bytes!("../assets/icon.svg"),
            ),
        ])
    }

    /// Answers a request for this path. Each path without a dot in its last part is a view.
    pub(crate) fn answer(&self, path: &str, request: &HeaderMap) -> Option<Response> {
        let asset = self.find(path).or_else(|| {
            let last = path.rsplit('/').next().unwrap_or_default();
            // Names of objects may have dots.
            let names_object = ["/jobs/", "/nodes/", "/queues/"]
                .iter()
                .any(|folder| path.starts_with(folder));
            let is_view = names_object || !last.contains('.');
            self.find(PAGE).filter(|_| is_view)
        })?;
        Some(asset.answer(request))
    }

    fn find(&self, path: &str) -> Option<&Asset> {
        self.0.iter().find(|asset| asset.path == path)
    }
}

impl Asset {
    fn new(path: &'static str, content_type: &'static str, plain: &'static [u8]) -> Self {
        let hash = Sha256::digest(plain);
        let hash: String = hash.iter().take(16).map(|b| format!("{b:02x}")).collect();
        let etag = HeaderValue::from_str(&format!("\"{hash}\""));
        Self {
            path,
            content_type,
            plain,
            compressed: compression::gzip(plain).into(),
            etag: etag.unwrap_or_else(|_| HeaderValue::from_static("\"\"")),
        }
    }

    fn answer(&self, request: &HeaderMap) -> Response {
        let mut headers = HeaderMap::new();
        let content_type = HeaderValue::from_static(self.content_type);
        headers.insert(header::CONTENT_TYPE, content_type);
        // The names of the files are fixed, so the browser asks each time whether they changed.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        headers.insert(header::ETAG, self.etag.clone());
        if request.get(header::IF_NONE_MATCH) == Some(&self.etag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        if compression::accepts_gzip(request) {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            return (headers, self.compressed.clone()).into_response();
        }
        (headers, Bytes::from_static(self.plain)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content_type(path: &str) -> Option<String> {
        let answer = Assets::load().answer(path, &HeaderMap::new())?;
        let content_type = answer.headers().get(header::CONTENT_TYPE).cloned();
        Some(content_type.unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn every_view_has_the_page() {
        for path in [
            "/",
            "/queue",
            "/queues/a",
            "/jobs/ml/podgroup.sweep",
            "/nodes/a.b.c",
        ] {
            assert!(
                content_type(path).unwrap().starts_with("text/html"),
                "{path}"
            );
        }
        assert!(
            content_type("/app.js")
                .unwrap()
                .starts_with("text/javascript")
        );
        for path in ["/missing.js", "/queue/x.map", "/../Cargo.toml"] {
            assert_eq!(content_type(path), None, "{path}");
        }
    }

    #[test]
    fn unchanged_file_is_not_sent_again() {
        let assets = Assets::load();
        let first = assets.answer("/app.js", &HeaderMap::new()).unwrap();
        let etag = first.headers().get(header::ETAG).unwrap().clone();
        let request = [(header::IF_NONE_MATCH, etag)].into_iter().collect();
        let second = assets.answer("/app.js", &request).unwrap();
        assert_eq!(second.status(), StatusCode::NOT_MODIFIED);
    }
}
