//! `GET /api/queue` and `GET /api/nodes`: whole lists.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use http::HeaderMap;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trellis_api::visibility::{JobState, NodeState, QueueState};

use crate::answer::{self, Refusal};
use crate::live::{Feeds, ListName};
use crate::routes::names::check_namespace;
use crate::server::App;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct QueueQuery {
    namespace: Option<String>,
}

/// The content of `trellis queue -o json`, and its version.
#[derive(Debug, Serialize)]
struct QueueAnswer<'m> {
    version: String,
    time: Timestamp,
    /// True: the jobs are those of all namespaces, so that the page can count the positions of the
    /// jobs that wait.
    ordered: bool,
    jobs: Vec<Cow<'m, JobState>>,
    queues: Option<Vec<&'m QueueState>>,
    notes: &'m [String],
}

/// The content of `trellis nodes -o json`, and its version.
#[derive(Debug, Serialize)]
struct NodesAnswer<'m> {
    version: String,
    time: Timestamp,
    nodes: Vec<&'m NodeState>,
    notes: &'m [String],
}

pub(crate) async fn list_queue(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    query: Result<Query<QueueQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|error| Refusal::invalid(error.body_text()))?;
    let name = ListName::Queue {
        namespace: check_namespace(query.namespace)?,
    };
    let caller = app.credentials.caller(&headers)?;
    let feed = app.feeds.follow(&caller, name);
    let moment = feed.content().await?;
    Feeds::keep(feed);
    let content = QueueAnswer {
        version: moment.version.to_string(),
        time: moment.time,
        ordered: moment.orders.is_some(),
        jobs: match &moment.orders {
            Some(orders) => orders.position(&moment.jobs.all()),
            None => moment.jobs.all().into_iter().map(Cow::Borrowed).collect(),
        },
        queues: moment.queues.as_ref().map(|queues| queues.all()),
        notes: &moment.notes,
    };
    answer::json(&headers, &content)
}

pub(crate) async fn list_nodes(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let caller = app.credentials.caller(&headers)?;
    let feed = app.feeds.follow(&caller, ListName::Nodes);
    let moment = feed.content().await?;
    Feeds::keep(feed);
    let content = NodesAnswer {
        version: moment.version.to_string(),
        time: moment.time,
        nodes: moment.nodes.all(),
        notes: &moment.notes,
    };
    answer::json(&headers, &content)
}
