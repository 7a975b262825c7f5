//! Context of the webhook's tests, and of its fuzz target.

#![allow(
    clippy::unwrap_used,
    reason = "tests alone use it, and a wrong fixture is to panic"
)]

use std::sync::Arc;

use kube::core::ObjectMeta;
use serde_json::json;
use trellis_api::TrainingQueue;
use trellis_dispatch::context::Context;
use trellis_gang::key::Key;
use trellis_gang::observed::SlimNamespace;

/// Returns a context with one namespace, `ns`, a default queue, and no policies yet.
pub(super) fn context() -> Arc<Context> {
    let (context, _) = Context::new();
    context.cache.mark_kind_synced();
    let meta = ObjectMeta {
        name: Some("ns".to_owned()),
        resource_version: Some("1".to_owned()),
        ..ObjectMeta::default()
    };
    let namespace = SlimNamespace { metadata: meta };
    context
        .cache
        .namespaces
        .insert_observed(Key::new("", "ns"), namespace);
    let queue: TrainingQueue = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": "default", "uid": "q", "resourceVersion": "1"},
        "spec": {"namespaceSelector": {}, "defaultFor": {}},
    }))
    .unwrap();
    context
        .cache
        .queues
        .insert_observed(Key::new("", "default"), queue);
    context
}

/// Answers a review, as the server does once it has read the body.
#[cfg(feature = "fixtures")]
pub(crate) fn answer_review(body: &[u8]) -> Result<serde_json::Value, String> {
    use std::sync::LazyLock;

    use trellis_policies::cedar::{PolicyLoader, starter_set};

    use super::judgement::Judge;
    use super::review;

    static JUDGE: LazyLock<Judge> = LazyLock::new(|| {
        let (context, loader) = (context(), PolicyLoader::new().unwrap());
        let (policies, _) = loader.load(None, starter_set::starter_objects());
        context.cache.policies.replace(Arc::new(policies));
        Judge {
            policies: context.cache.policies.active(),
            context,
            loader,
            settings: Arc::default(),
        }
    });
    let (uid, request) = parse_review(body)?;
    let answer = JUDGE.judge(request).answer;
    Ok(serde_json::to_value(review::review_body(answer, uid)).unwrap())
}

/// Answers a review by the requester stamp, as the server does once it has read the body.
#[cfg(feature = "fixtures")]
pub(crate) fn answer_stamp(body: &[u8]) -> Result<serde_json::Value, String> {
    let (uid, request) = parse_review(body)?;
    let answer = super::stamp::correct_stamp(&request);
    Ok(serde_json::to_value(answer.into_body(uid)).unwrap())
}

#[cfg(feature = "fixtures")]
fn parse_review(body: &[u8]) -> Result<(String, super::review::ReviewRequest), String> {
    use super::review;

    let uid = review::read_uid(body).map_err(|error| error.to_string())?;
    let request = review::parse_request(body).map_err(|error| error.to_string())?;
    Ok((uid, request))
}
