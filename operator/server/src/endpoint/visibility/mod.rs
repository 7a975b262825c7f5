//! The API group `visibility.trellis.dev`: the engine's knowledge, as the API server shows it to
//! users who may read it. The aggregator of kube-apiserver forwards their requests here.
//!
//! `request` and `query` parse requests, `discovery` serves discovery documents, `snapshot_view` keeps
//! snapshots, `row_set` and `table` serialize, and `watch` serves changes. Each other module computes
//! the rows of one resource, and is pure.

mod age;
mod asked_forecast;
mod discovery;
mod encoding;
mod ended_attempts;
mod explanations;
mod forecasts;
mod jobs;
mod nodes;
mod plans;
mod query;
mod questions;
mod queues;
mod request;
mod row_set;
pub(super) mod snapshot_view;
mod table;
mod visible_namespaces;
mod watch;

pub(super) use jobs::NOMINATED_MESSAGE;
pub(super) use questions::QuestionTurns;
#[cfg(feature = "fixtures")]
pub(crate) use request::parse_request;
pub(super) use visible_namespaces::NamespaceReviews;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use k8s_openapi::api::authentication::v1::UserInfo;
use trellis_api::visibility::{
    EndedAttempt, Explanation, Forecast, GangName, JobState, NodeState, QueueState, ServedResource,
    VisibleNamespace,
};
use trellis_dispatch::context::Context;
use trellis_gang::external;

use super::state::Endpoint;
use crate::callers::access::{RequiredRight, ResourceRight};
use crate::callers::{Caller, Failure, RequestTurn};
use crate::serve::ClientCertificates;
use encoding::{EncodedBytes, Encoding};
use explanations::VisibleScope;
use questions::read_question;
use request::{ApiRequest, DiscoveryDocument, ObjectRequest};
use row_set::RowSet;

/// Answers requests under `/apis` and `/openapi`.
pub(super) async fn serve(
    State(endpoint): State<Arc<Endpoint>>,
    certificates: Option<Extension<ClientCertificates>>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = request.into_parts();
    let caller = endpoint.callers.caller(&head.headers, certificates);
    let user = caller.authenticate().await?;
    let request = ApiRequest::parse(&head)?;
    let right = match &request {
        ApiRequest::Document(_) => RequiredRight::Path(head.uri.path()),
        ApiRequest::Object(object) => RequiredRight::Resource(object.right()),
    };
    caller.authorize(&user, right).await?;
    if let ApiRequest::Object(object) = &request
        && object.verb == "watch"
    {
        object.check_supported()?;
        endpoint.leader_context()?;
        return watch::serve_watch(&endpoint, user, caller.is_proxied(), object.clone());
    }
    // The API server uses discovery as a health check. So discovery needs no turn, however many
    // requests the API server forwards.
    let is_probe = caller.is_proxied() && matches!(request, ApiRequest::Document(_));
    let turn = match is_probe {
        true => None,
        false => Some(caller.take_turn()?),
    };
    // A standby replica does not serve discovery.
    let context = endpoint.leader_context()?;
    match (request, turn) {
        (ApiRequest::Document(document), _) => discovery::discovery_response(&document),
        (ApiRequest::Object(_), None) => Err(Failure::unavailable()),
        (ApiRequest::Object(object), Some(turn)) => {
            object.check_supported()?;
            let (format, encoding) = (object.format, Encoding::from_headers(&head.headers));
            if object.verb == "create" {
                let asked = CreateRequest { object, body, turn };
                return asked.answer(&endpoint, &context, &caller, &user).await;
            }
            let view = || endpoint.snapshot_views.current(&context);
            let answer = match object.served.plural {
                plural if plural == VisibleNamespace::SERVED.plural => {
                    let reviews = &endpoint.namespace_reviews;
                    let rows = reviews.rows(&context, &caller, &user).await?;
                    rows.list(&object, encoding)?
                }
                plural if plural == Explanation::SERVED.plural => EncodedBytes::plain(
                    serve_explanation(&object, &view().await?, turn, &caller, &user).await?,
                ),
                _ => {
                    let serve = move |view: &_| serve_objects(&object, view, encoding);
                    view().await?.run(turn, serve).await??
                }
            };
            let content_type = [(header::CONTENT_TYPE, format.content_type())];
            Ok((content_type, answer.headers(), answer.bytes).into_response())
        }
    }
}

/// A request to create an object, which is a question.
struct CreateRequest {
    object: ObjectRequest,
    body: Body,
    turn: RequestTurn,
}

impl CreateRequest {
    async fn answer(
        self,
        endpoint: &Endpoint,
        context: &Arc<Context>,
        caller: &Caller<'_>,
        user: &UserInfo,
    ) -> Result<Response, Failure> {
        let turns = &endpoint.question_turns;
        if self.object.served.plural == Forecast::SERVED.plural {
            let question = read_question(self.body).await?;
            let turn = turns.begin(user, self.turn).await?;
            let view = endpoint.snapshot_views.current(context).await?;
            let answer = asked_forecast::answer(question, turn, view).await?;
            return Ok((StatusCode::CREATED, Json(answer)).into_response());
        }
        let question = read_question(self.body).await?;
        let turn = turns.begin(user, self.turn).await?;
        let sources = plans::PlanSources {
            context: context.clone(),
            settings: endpoint.settings.clone(),
        };
        let namespace = self.object.namespace.unwrap_or_default();
        let answer = plans::answer(question, &namespace, sources, caller, user, turn).await?;
        Ok((StatusCode::CREATED, Json(answer)).into_response())
    }
}

/// Returns why one job waits, reduced to what the caller may see. Explanations can only be read by
/// namespace and name.
async fn serve_explanation(
    request: &ObjectRequest,
    view: &Arc<snapshot_view::SnapshotView>,
    turn: RequestTurn,
    caller: &Caller<'_>,
    user: &UserInfo,
) -> Result<Bytes, Failure> {
    let (namespace, name) = (request.namespace.as_deref(), request.name.as_deref());
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let gang = external::gang_key_from_name(namespace, &GangName::from_object_name(name));
    let explanation = match view.explain(gang, turn).await? {
        None => None,
        Some((mut explanation, priorities)) => {
            let foreign = explanations::foreign_namespaces(&explanation);
            let sees = review_scope(foreign, caller, user).await?;
            explanations::redact(&mut explanation, &priorities, &sees);
            Some(explanation)
        }
    };
    row_set::serialize_row(
        explanation.as_ref(),
        name,
        request.format,
        view.time(),
        watch::UNKNOWN_VERSION,
    )
}

/// Reviews what the caller may see in an answer beyond the job itself. `foreign` are the other
/// namespaces whose jobs the answer names.
async fn review_scope(
    foreign: BTreeSet<String>,
    caller: &Caller<'_>,
    user: &UserInfo,
) -> Result<VisibleScope, Failure> {
    let may = async |right: ResourceRight<'_>| {
        caller.has_right(user, RequiredRight::Resource(right)).await
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
    request: &ObjectRequest,
    view: &snapshot_view::SnapshotView,
    encoding: Encoding,
) -> Result<EncodedBytes, Failure> {
    match request.served.plural {
        plural if plural == JobState::SERVED.plural => serve_rows(request, view.jobs(), encoding),
        plural if plural == QueueState::SERVED.plural => {
            serve_rows(request, view.queues(), encoding)
        }
        plural if plural == NodeState::SERVED.plural => serve_rows(request, view.nodes(), encoding),
        plural if plural == EndedAttempt::SERVED.plural => {
            serve_rows(request, view.ended_attempts(), encoding)
        }
        _ => Err(Failure::no_such_resource(request.served.plural)),
    }
}

fn serve_rows<T: table::TableRow>(
    request: &ObjectRequest,
    page: &RowSet<T>,
    encoding: Encoding,
) -> Result<EncodedBytes, Failure> {
    match &request.name {
        None => page.list(request, encoding),
        Some(name) => page.get(request, name).map(EncodedBytes::plain),
    }
}

/// Returns the response for a document that is not an object.
fn document_response(document: DiscoveryDocument) -> Response {
    let content_type = [(header::CONTENT_TYPE, document.content_type)];
    (content_type, document.text).into_response()
}
