//! The API group `visibility.trellis.dev`: the engine's knowledge, as the API server shows it to
//! users who may read it. The aggregator of kube-apiserver forwards their requests here.
//!
//! `request` parses requests, `discovery` serves discovery documents, `snapshot_view` keeps
//! snapshots, and `row_set` and `table` serialize. Each other module computes the rows of one
//! resource, and is pure.

mod age;
mod discovery;
mod explanations;
mod forecasts;
mod jobs;
mod nodes;
mod queues;
mod request;
mod row_set;
pub(super) mod snapshot_view;
mod table;

pub(super) use jobs::NOMINATED_MESSAGE;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::UserInfo;
use trellis_api::visibility::{
    Explanation, GangName, JobState, NodeState, QueueState, ServedResource,
};
use trellis_gang::external;

use super::state::Endpoint;
use crate::callers::access::{RequiredRight, ResourceRight};
use crate::callers::{self, Caller, Failure, RequestTurn};
use crate::serve::ClientCertificates;
use explanations::VisibleScope;
use request::{ApiRequest, DiscoveryDocument, ObjectRequest};
use row_set::RowSet;

/// Answers requests under `/apis` and `/openapi`.
pub(super) async fn serve(
    State(endpoint): State<Arc<Endpoint>>,
    shown: Option<Extension<ClientCertificates>>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, _) = request.into_parts();
    let caller = endpoint.callers.caller(&head.headers, shown);
    callers::with_timeout(async {
        let user = caller.authenticate().await?;
        let asked = ApiRequest::parse(&head)?;
        let wants = match &asked {
            ApiRequest::Document(_) => RequiredRight::Path(head.uri.path()),
            ApiRequest::Object(object) => RequiredRight::Resource(ResourceRight {
                resource: object.served.plural,
                verb: object.verb,
                namespace: object.namespace.as_deref(),
                name: object.name.as_deref(),
            }),
        };
        caller.authorize(&user, wants).await?;
        // The API server uses discovery as a health check. So discovery needs no turn, however many
        // requests the API server forwards.
        let is_probe = caller.is_proxied() && matches!(asked, ApiRequest::Document(_));
        let turn = match is_probe {
            true => None,
            false => Some(caller.take_turn()?),
        };
        // A standby replica does not serve discovery.
        let context = endpoint.leader_context()?;
        match (asked, turn) {
            (ApiRequest::Document(document), _) => discovery::discovery_response(&document),
            (ApiRequest::Object(_), None) => Err(Failure::unavailable()),
            (ApiRequest::Object(object), Some(turn)) => {
                object.check_supported()?;
                let format = object.format;
                let look = endpoint.snapshot_views.current(&context).await?;
                let bytes = match object.served.plural {
                    plural if plural == Explanation::SERVED.plural => {
                        serve_explanation(&object, &look, turn, &caller, &user).await?
                    }
                    _ => {
                        look.run(turn, move |look| serve_objects(&object, look))
                            .await??
                    }
                };
                let content_type = [(header::CONTENT_TYPE, format.content_type())];
                Ok((content_type, bytes).into_response())
            }
        }
    })
    .await
}

/// Returns why one job waits, reduced to what the caller may see. Explanations can only be read by
/// namespace and name.
async fn serve_explanation(
    asked: &ObjectRequest,
    look: &Arc<snapshot_view::SnapshotView>,
    turn: RequestTurn,
    caller: &Caller<'_>,
    user: &UserInfo,
) -> Result<Bytes, Failure> {
    let (namespace, name) = (asked.namespace.as_deref(), asked.name.as_deref());
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let gang = external::gang_key_from_name(namespace, &GangName::from_object_name(name));
    let told = match look.explain(gang, turn).await? {
        None => None,
        Some((mut told, priorities)) => {
            let sees = review_scope(&told, caller, user).await?;
            explanations::redact(&mut told, &priorities, &sees);
            Some(told)
        }
    };
    row_set::serialize_row(told.as_ref(), name, asked.format, look.time())
}

/// Reviews what the caller may see in an explanation beyond the job itself.
async fn review_scope(
    told: &Explanation,
    caller: &Caller<'_>,
    user: &UserInfo,
) -> Result<VisibleScope, Failure> {
    let may = async |wants: ResourceRight<'_>| {
        caller.has_right(user, RequiredRight::Resource(wants)).await
    };
    let list = |served: &'static ServedResource| ResourceRight {
        resource: served.plural,
        verb: "list",
        namespace: None,
        name: None,
    };
    let mut sees = VisibleScope {
        nodes: may(list(&NodeState::SERVED)).await?,
        queues: may(list(&QueueState::SERVED)).await?,
        namespaces: BTreeSet::new(),
    };
    let foreign = explanations::foreign_namespaces(told);
    let jobs = list(&JobState::SERVED);
    // A caller who may list all namespaces needs no review for each.
    if foreign.len() > 1 && may(jobs).await? {
        sees.namespaces = foreign;
        return Ok(sees);
    }
    for name in foreign {
        let namespace = Some(name.as_str());
        if may(ResourceRight { namespace, ..jobs }).await? {
            sees.namespaces.insert(name);
        }
    }
    Ok(sees)
}

fn serve_objects(
    asked: &ObjectRequest,
    look: &snapshot_view::SnapshotView,
) -> Result<Bytes, Failure> {
    match asked.served.plural {
        plural if plural == JobState::SERVED.plural => serve_rows(asked, look.jobs()),
        plural if plural == QueueState::SERVED.plural => serve_rows(asked, look.queues()),
        plural if plural == NodeState::SERVED.plural => serve_rows(asked, look.nodes()),
        _ => Err(Failure::no_such_resource(asked.served.plural)),
    }
}

fn serve_rows<T: table::TableRow>(
    asked: &ObjectRequest,
    page: &RowSet<T>,
) -> Result<Bytes, Failure> {
    match &asked.name {
        None => page.list(asked.namespace.as_deref(), asked.format),
        Some(name) => page.get(asked.namespace.as_deref(), name, asked.format),
    }
}

/// Returns the response for a document that is not an object.
fn document_response(document: DiscoveryDocument) -> Response {
    let content_type = [(header::CONTENT_TYPE, document.content_type)];
    (content_type, document.text).into_response()
}
