//! Two server-side appliers of one job: a list merges by its key, and each applier owns its
//! entries.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;

use super::{shared, site};

fn group(name: &str, more: Value) -> Value {
    let mut group = json!({"name": name});
    let fields = more.as_object().unwrap().clone();
    group.as_object_mut().unwrap().extend(fields);
    group
}

#[tokio::test]
async fn two_appliers_merge_lists_by_key() {
    let site = site("appliers", 0).await;
    let jobs = site.api::<TrainingJob>();
    let apply = async |manager: &str, more: Value, image: bool| {
        let mut group = group("worker", more);
        if image {
            group["image"] = json!("train:1");
            group["resources"] = json!({"limits": {"cpu": 1, "memory": "1Gi"}});
        }
        let job = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "j"}, "spec": {"taskGroups": [group]},
        });
        let params = PatchParams::apply(manager);
        jobs.patch("j", &params, &Patch::Apply(&job)).await
    };
    let own = json!({
        "mounts": [{"path": "/a", "emptyDir": {}}], "env": [{"name": "A", "value": "1"}],
        "ports": [{"name": "a", "port": 1}], "imagePullSecrets": [{"name": "a"}],
    });
    apply("base", own, true).await.unwrap();
    let more = json!({
        "mounts": [{"path": "/b", "emptyDir": {}}], "env": [{"name": "B", "value": "2"}],
        "ports": [{"name": "b", "port": 2}], "imagePullSecrets": [{"name": "b"}],
    });
    let both = apply("overlay", more, false).await.unwrap();
    let keys = |job: &TrainingJob| {
        let group = &job.spec.task_groups[0];
        let paths: Vec<_> = group.mounts.iter().map(|m| m.path.clone()).collect();
        let names: Vec<_> = group.env.iter().map(|v| v.name.clone()).collect();
        let ports: Vec<_> = group.ports.iter().map(|p| p.port).collect();
        let secrets: Vec<_> = group
            .image_pull_secrets
            .iter()
            .map(|s| s.name.clone())
            .collect();
        (paths, names, ports, secrets)
    };
    let of = |paths: &[&str], names: &[&str], ports: &[i32], secrets: &[&str]| {
        let texts = |list: &[&str]| list.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        (texts(paths), texts(names), ports.to_vec(), texts(secrets))
    };
    assert_eq!(
        keys(&both),
        of(&["/a", "/b"], &["A", "B"], &[1, 2], &["a", "b"])
    );
    // Another value for an entry of the first is a conflict, not an overwrite.
    let stolen = json!({"mounts": [{"path": "/a", "emptyDir": {"sizeLimit": "1Gi"}}]});
    let merged = apply("overlay", stolen, false).await.unwrap();
    assert_eq!(keys(&merged), of(&["/a"], &["A"], &[1], &["a"]));
    let other = json!({"env": [{"name": "A", "value": "3"}]});
    let error = apply("overlay", other, false)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("conflict"), "{error}");
    // What one of them leaves out goes, and no more.
    let without = apply("base", json!({}), true).await.unwrap();
    let group = &without.spec.task_groups[0];
    assert_eq!((group.env.len(), group.ports.len()), (0, 0));
    let mounts: Vec<_> = group.mounts.iter().map(|m| m.path.as_str()).collect();
    assert_eq!(mounts, ["/a"]);
}

/// A field with null counts as absent, and null is not stored.
#[tokio::test]
async fn null_is_not_stored() {
    let site = site("null", 0).await;
    let mut job = site.job("j", 1, 0);
    job["spec"]["queueName"] = Value::Null;
    job["spec"]["taskGroups"][0]["mounts"] = Value::Null;
    let kind = ApiResource::erase::<TrainingJob>(&());
    let jobs = Api::<DynamicObject>::namespaced_with(shared().await.client(), site.name(), &kind);
    let job: DynamicObject = serde_json::from_value(job).unwrap();
    let stored = jobs
        .create(&PostParams::default(), &job)
        .await
        .unwrap()
        .data;
    assert_eq!(stored["spec"].get("queueName"), None);
    assert_eq!(stored["spec"]["taskGroups"][0].get("mounts"), None);
}
