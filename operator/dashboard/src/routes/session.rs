//! `GET /api/session`: the user of the page, and what the user may see.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use trellis_api::visibility::{self, JobState, NodeState, QueueState, ServedResource};
use trellis_reads::{ApiFailure, Reader};

use crate::answer::{self, Refusal};
use crate::credential::Credentials;
use crate::server::App;

#[derive(Debug, Serialize)]
struct Session {
    /// The user's name as the API server knows it.
    user: String,
    /// `local` or `cluster`.
    mode: &'static str,
    version: &'static str,
    /// The context of the kubeconfig, if it has a name.
    context: Option<String>,
    /// The namespace of the context.
    namespace: String,
    may: SessionRights,
    time: Timestamp,
}

/// The lists that the user may read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionRights {
    all_jobs: bool,
    queues: bool,
    nodes: bool,
}

pub(crate) async fn describe_session(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let caller = app.credentials.caller(&headers)?;
    let reader = &caller.reader;
    let right = "create selfsubjectreviews.authentication.k8s.io";
    let explain = |error: ApiFailure| reader.read_error(error, right);
    let (user, all_jobs, queues, nodes) = futures::join!(
        reader.user_name(),
        may_list(reader, &JobState::SERVED),
        may_list(reader, &QueueState::SERVED),
        may_list(reader, &NodeState::SERVED),
    );
    let (mode, context) = match &app.credentials {
        Credentials::Local(local) => ("local", local.context.clone()),
        Credentials::Forwarded(_) => ("cluster", None),
    };
    let session = Session {
        user: user.map_err(explain)?,
        mode,
        version: env!("CARGO_PKG_VERSION"),
        context,
        namespace: reader.namespace.clone(),
        may: SessionRights {
            all_jobs: all_jobs.map_err(explain)?,
            queues: queues.map_err(explain)?,
            nodes: nodes.map_err(explain)?,
        },
        time: Timestamp::now(),
    };
    answer::json(&headers, &session)
}

/// Returns true if the user may list the resource in all namespaces.
async fn may_list(reader: &Reader, served: &ServedResource) -> Result<bool, ApiFailure> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(visibility::GROUP.to_owned()),
                resource: Some(served.plural.to_owned()),
                verb: Some("list".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api = Api::<SelfSubjectAccessReview>::all(reader.client.clone());
    let review = api.create(&PostParams::default(), &review).await;
    let review =
        review.map_err(|error| ApiFailure::new::<SelfSubjectAccessReview>("create", error))?;
    Ok(review.status.is_some_and(|status| status.allowed))
}
