//! Context of the webhook's tests.

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
