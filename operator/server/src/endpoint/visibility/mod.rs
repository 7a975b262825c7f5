//! The API group `visibility.trellis.dev`: the engine's knowledge, as the API server serves it to
//! users with the right to read it. The aggregator of kube-apiserver sends their requests here.
//!
//! `request` parses requests, `discovery` serves discovery documents, `look` keeps snapshots, and
//! `page` and `table` serialize. The other modules make the rows of one resource each, and are
//! pure.

mod age;
mod discovery;
mod explain;
mod forecasts;
mod jobs;
mod look;
mod nodes;
mod page;
mod queues;
mod request;
mod table;

pub(super) use jobs::NOMINATED;
pub(super) use look::Looks;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::UserInfo;
use trellis_api::visibility::{Explanation, GangName, JobState, NodeState, QueueState, Served};
use trellis_gang::external;

use super::access::{Visible, Wants};
use super::admission::{self, Caller, Turn};
use super::{Endpoint, Failure};
use crate::serve::Shown;
use explain::Sees;
use page::Page;
use request::{Asked, Document, Object};

/// Answers requests under `/apis` and `/openapi`.
pub(super) async fn answer(
    State(endpoint): State<Arc<Endpoint>>,
    shown: Option<Extension<Shown>>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, _) = request.into_parts();
    let caller = endpoint.admission.caller(&head.headers, shown);
    admission::patient(async {
        let user = caller.user().await?;
        let asked = Asked::read(&head)?;
        let wants = match &asked {
            Asked::Document(_) => Wants::Path(head.uri.path()),
            Asked::Object(object) => Wants::Visible(Visible {
                resource: object.served.plural,
                verb: object.verb,
                namespace: object.namespace.as_deref(),
                name: object.name.as_deref(),
            }),
        };
        caller.authorize(&user, wants).await?;
        // The API server uses discovery as a health check: it is answered without a turn, however
        // many requests the API server forwards.
        let is_probe = caller.is_proxied() && matches!(asked, Asked::Document(_));
        let turn = match is_probe {
            true => None,
            false => Some(caller.turn()?),
        };
        // A standby replica does not serve discovery.
        let context = endpoint.context()?;
        match (asked, turn) {
            (Asked::Document(document), _) => discovery::answer(&document),
            (Asked::Object(_), None) => Err(Failure::unavailable()),
            (Asked::Object(object), Some(turn)) => {
                object.is_supported()?;
                let format = object.format;
                let look = endpoint.looks.now(&context).await?;
                let bytes = match object.served.plural {
                    plural if plural == Explanation::SERVED.plural => {
                        explained(&object, &look, turn, &caller, &user).await?
                    }
                    _ => {
                        look.work(turn, move |look| objects(&object, look))
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

/// Why one job waits, as far as the caller may know. Explanations are served by namespace and name
/// only.
async fn explained(
    asked: &Object,
    look: &Arc<look::Look>,
    turn: Turn,
    caller: &Caller<'_>,
    user: &UserInfo,
) -> Result<Bytes, Failure> {
    let (namespace, name) = (asked.namespace.as_deref(), asked.name.as_deref());
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let gang = external::of_name(namespace, &GangName::from_served(name));
    let told = match look.explain(gang, turn).await? {
        None => None,
        Some((mut told, priorities)) => {
            let sees = may_see(&told, caller, user).await?;
            explain::reduce(&mut told, &priorities, &sees);
            Some(told)
        }
    };
    page::one(told.as_ref(), name, asked.format, look.now())
}

/// Reviews what the caller may see in an explanation beyond the job itself.
async fn may_see(
    told: &Explanation,
    caller: &Caller<'_>,
    user: &UserInfo,
) -> Result<Sees, Failure> {
    let may = async |wants: Visible<'_>| caller.may(user, Wants::Visible(wants)).await;
    let list = |served: &'static Served| Visible {
        resource: served.plural,
        verb: "list",
        namespace: None,
        name: None,
    };
    let mut sees = Sees {
        nodes: may(list(&NodeState::SERVED)).await?,
        queues: may(list(&QueueState::SERVED)).await?,
        namespaces: BTreeSet::new(),
    };
    let foreign = explain::foreign(told);
    let jobs = list(&JobState::SERVED);
    // With the right to list all namespaces, each one need not be reviewed.
    if foreign.len() > 1 && may(jobs).await? {
        sees.namespaces = foreign;
        return Ok(sees);
    }
    for name in foreign {
        let namespace = Some(name.as_str());
        if may(Visible { namespace, ..jobs }).await? {
            sees.namespaces.insert(name);
        }
    }
    Ok(sees)
}

fn objects(asked: &Object, look: &look::Look) -> Result<Bytes, Failure> {
    match asked.served.plural {
        plural if plural == JobState::SERVED.plural => of(asked, look.jobs()),
        plural if plural == QueueState::SERVED.plural => of(asked, look.queues()),
        plural if plural == NodeState::SERVED.plural => of(asked, look.nodes()),
        _ => Err(Failure::no_such_resource(asked.served.plural)),
    }
}

fn of<T: table::Row>(asked: &Object, page: &Page<T>) -> Result<Bytes, Failure> {
    match &asked.name {
        None => page.list(asked.namespace.as_deref(), asked.format),
        Some(name) => page.get(asked.namespace.as_deref(), name, asked.format),
    }
}

/// The response for a document that is not an object.
fn document(document: Document) -> Response {
    let content_type = [(header::CONTENT_TYPE, document.content_type)];
    (content_type, document.text).into_response()
}
