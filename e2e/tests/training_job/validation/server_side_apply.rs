//! Two server-side appliers of one job: a list merges by its key, and each applier owns its
//! entries.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_e2e::site::TestSite;

use crate::{create_site, shared_control_plane};

/// Applies the job "j" of one task group.
async fn apply_job(site: &TestSite, manager: &str, group: Value) -> kube::Result<TrainingJob> {
    let job = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "j"}, "spec": {"taskGroups": [group]},
    });
    let params = PatchParams::apply(manager);
    let jobs = site.api::<TrainingJob>();
    jobs.patch("j", &params, &Patch::Apply(&job)).await
}

/// Returns the keys of the entries in the lists of the job: mounts, variables, ports and pull
/// Secrets.
fn list_keys(job: &TrainingJob) -> Vec<String> {
    let group = &job.spec.task_groups[0];
    let mounts = group.mounts.iter().map(|mount| mount.path.clone());
    let env = group.env.iter().map(|variable| variable.name.clone());
    let ports = group.ports.iter().map(|port| port.name.clone());
    let secrets = group.image_pull_secrets.iter();
    let secrets = secrets.map(|secret| secret.name.clone());
    mounts.chain(env).chain(ports).chain(secrets).collect()
}

#[tokio::test]
async fn two_appliers_merge_lists_by_key() {
    let site = create_site("appliers", 0).await;
    let bare = json!({
        "name": "worker", "image": "train:1",
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
    });
    let mut base = bare.clone();
    base["mounts"] = json!([{"path": "/a", "emptyDir": {}}]);
    base["env"] = json!([{"name": "A", "value": "1"}]);
    base["ports"] = json!([{"name": "port-a", "port": 1}]);
    base["imagePullSecrets"] = json!([{"name": "secret-a"}]);
    let overlay = json!({
        "name": "worker", "mounts": [{"path": "/b", "emptyDir": {}}],
        "env": [{"name": "B", "value": "2"}], "ports": [{"name": "port-b", "port": 2}],
        "imagePullSecrets": [{"name": "secret-b"}],
    });
    apply_job(&site, "base", base).await.unwrap();
    let applied = apply_job(&site, "overlay", overlay).await.unwrap();
    let all = [
        "/a", "/b", "A", "B", "port-a", "port-b", "secret-a", "secret-b",
    ];
    assert_eq!(list_keys(&applied), all);
    // Another value of a field that the first applier owns is a conflict.
    let conflict = json!({"name": "worker", "env": [{"name": "A", "value": "3"}]});
    let refused = apply_job(&site, "overlay", conflict).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("conflict"), "{error}");
    // A field without an owner is added. Entries that the second applier leaves out are removed.
    let limit = json!({"emptyDir": {"sizeLimit": "1Gi"}, "path": "/a"});
    let limited = json!({"name": "worker", "mounts": [limit]});
    let merged = apply_job(&site, "overlay", limited).await.unwrap();
    assert_eq!(list_keys(&merged), ["/a", "A", "port-a", "secret-a"]);
    // The entries of the first applier are also removed, except for the one that both own.
    let without = apply_job(&site, "base", bare).await.unwrap();
    assert_eq!(list_keys(&without), ["/a"]);
}

/// A field with null counts as absent, and null is not stored.
#[tokio::test]
async fn null_fields_are_not_stored() {
    let site = create_site("null", 0).await;
    let mut job = site.job("j", 1, 0);
    job["spec"]["queueName"] = Value::Null;
    job["spec"]["taskGroups"][0]["mounts"] = Value::Null;
    let kind = ApiResource::erase::<TrainingJob>(&());
    let jobs = Api::<DynamicObject>::namespaced_with(
        shared_control_plane().await.client(),
        site.name(),
        &kind,
    );
    let job: DynamicObject = serde_json::from_value(job).unwrap();
    let stored = jobs.create(&PostParams::default(), &job).await.unwrap();
    let stored = stored.data;
    assert_eq!(stored["spec"].get("queueName"), None);
    assert_eq!(stored["spec"]["taskGroups"][0].get("mounts"), None);
}
