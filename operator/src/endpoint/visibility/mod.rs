//! The API group `visibility.trellis.dev`: what the engine alone knows, as the API server serves
//! it to whoever may read it. kube-apiserver's aggregator asks here, in their names.
//!
//! Where to look: `request` is what is asked for, `discovery` what there is to be asked for,
//! `look` what is known at one moment and how long that is told, `page` and `table` how it is
//! written; the others make the rows of one resource each, and are pure.

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

pub(super) use look::Looks;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use trellis_api::visibility::{Explanation, NodeState, QueueState, QueuedJob};

use super::access::{Visible, Wants};
use super::{Endpoint, Failure};
use crate::key::Key;
use crate::serve::Shown;
use page::Page;
use request::{Asked, Document, Object};

/// Answers what is under `/apis` and `/openapi`.
pub(super) async fn answer(
    State(endpoint): State<Arc<Endpoint>>,
    shown: Option<Extension<Shown>>,
    request: Request,
) -> Result<Response, Failure> {
    let shown = shown.map(|Extension(shown)| shown).unwrap_or_default();
    let (head, _) = request.into_parts();
    endpoint
        .turn(async {
            let user = endpoint.identify(&head.headers, &shown).await?;
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
            endpoint.authorize(user, wants).await?;
            // One that stands by is none to be discovered.
            let world = endpoint.world()?;
            match asked {
                Asked::Document(document) => discovery::answer(&document),
                Asked::Object(object) => {
                    object.is_supported()?;
                    let look = endpoint.looks.now(&world).await?;
                    let written = tokio::task::spawn_blocking(move || objects(&object, &look));
                    written.await.map_err(|_| Failure::unavailable())?
                }
            }
        })
        .await
}

fn objects(asked: &Object, look: &look::Look) -> Result<Response, Failure> {
    let bytes = match asked.served.plural {
        plural if plural == QueuedJob::SERVED.plural => of(asked, look.jobs())?,
        plural if plural == QueueState::SERVED.plural => of(asked, look.queues())?,
        plural if plural == NodeState::SERVED.plural => of(asked, look.nodes())?,
        plural if plural == Explanation::SERVED.plural => {
            // It is asked for by namespace and name alone.
            let (namespace, name) = (asked.namespace.as_deref(), asked.name.as_deref());
            let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
            let told = look.explain(&Key::new(namespace, name));
            page::one(told.as_ref(), name, asked.format, look.now())?
        }
        _ => return Err(Failure::no_such_resource(asked.served.plural)),
    };
    Ok(([(header::CONTENT_TYPE, asked.format.content_type())], bytes).into_response())
}

fn of<T: table::Row>(asked: &Object, page: &Page<T>) -> Result<axum::body::Bytes, Failure> {
    match &asked.name {
        None => page.list(asked.namespace.as_deref(), asked.format),
        Some(name) => page.get(asked.namespace.as_deref(), name, asked.format),
    }
}

/// A document that is no object.
fn document(document: Document) -> Response {
    let content_type = [(header::CONTENT_TYPE, document.content_type)];
    (content_type, document.text).into_response()
}
