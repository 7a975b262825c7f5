//! Decisions of the webhook.

mod jobs;
mod objects;
mod quotas;

use std::sync::Arc;

use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_dispatch::context::Context;
use trellis_gang::fixtures::spec_with;
use trellis_policies::cedar::{Policies, PolicyLoader, starter_set};

use super::*;
use crate::webhook::answer::ReviewDecision;
use crate::webhook::fixtures;

/// Returns a judge that knows the namespace `ns`, a default queue, and these policies besides the
/// starter set.
fn judge_with(policies: &[Value]) -> Judge {
    let context = fixtures::context();
    let loader = PolicyLoader::new().unwrap();
    context
        .cache
        .policies
        .replace(Arc::new(load(&loader, policies)));
    Judge {
        policies: context.cache.policies.active(),
        context,
        loader,
        settings: Arc::default(),
    }
}

fn load(loader: &PolicyLoader, policies: &[Value]) -> Policies {
    let mut objects = starter_set::starter_objects();
    objects.extend(policies.iter().map(|policy| {
        let policy: ClusterJobPolicy = serde_json::from_value(policy.clone()).unwrap();
        trellis_policies::cedar::PolicyObject::from(&policy)
    }));
    loader.load(None, objects).0
}

fn policy(name: &str, cedar: &str, enforcement: &str) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": name}, "spec": {"cedar": cedar, "enforcement": enforcement},
    })
}

fn job(more: Value) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "j", "uid": "u"}, "spec": spec_with(more),
    })
}

fn review_request(kind: &str, user: &str, now: Value, before: Value) -> ReviewRequest {
    let operation = if before.is_null() { "CREATE" } else { "UPDATE" };
    let name = now["metadata"]["name"].clone();
    let request = json!({
        "uid": "u", "operation": operation, "userInfo": {"username": user, "groups": ["ml"]},
        "kind": {"group": "trellis.dev", "version": "v1alpha1", "kind": kind},
        "resource": {"group": "trellis.dev", "version": "v1alpha1", "resource": "x"},
        "name": name, "namespace": "ns", "object": now, "oldObject": before,
    });
    serde_json::from_value(request).unwrap()
}

fn submit(judge: &Judge, more: Value) -> ReviewAnswer {
    judge
        .judge(review_request("TrainingJob", "ada", job(more), Value::Null))
        .answer
}

const NO_IMAGE: &str =
    "@id(\"no\") forbid(principal, action == Trellis::Action::\"UseImage\", resource);";
