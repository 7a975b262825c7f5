//! `GET /api/stream`: the changes of the lists that a tab follows.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, header};

use crate::answer::{self, Refusal};
use crate::compression;
use crate::live::{ListName, StreamQuery, open_stream};
use crate::routes::names::check_namespace;
use crate::server::App;

pub(crate) async fn stream_changes(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    query: Result<Query<StreamQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|error| Refusal::invalid(error.body_text()))?;
    let caller = app.credentials.caller(&headers)?;
    let namespace = check_namespace(query.namespace)?;
    let queue = query
        .queue
        .map(|version| (ListName::Queue { namespace }, version));
    let nodes = query.nodes.map(|version| (ListName::Nodes, version));
    let lists = queue.into_iter().chain(nodes);
    let feeds: Vec<_> = lists
        .map(|(name, version)| (app.feeds.follow(&caller, name), version))
        .collect();
    if feeds.is_empty() {
        return Err(Refusal::invalid(
            "the stream follows no list: add queue=VERSION or nodes=VERSION",
        ));
    }
    let is_compressed = compression::accepts_gzip(&headers);
    let mut answer = answer::data_headers();
    let kind = HeaderValue::from_static("application/x-ndjson");
    answer.insert(header::CONTENT_TYPE, kind);
    // A proxy must not hold lines back.
    answer.insert("x-accel-buffering", HeaderValue::from_static("no"));
    if is_compressed {
        answer.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let void = app.links.as_ref().map(|links| links.until_void());
    let void = async move {
        match void {
            Some(void) => void.await,
            None => std::future::pending().await,
        }
    };
    let lines = open_stream(feeds, is_compressed, void);
    Ok((answer, Body::from_stream(lines)).into_response())
}
