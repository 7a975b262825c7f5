//! Only Trellis may set the labels and annotations `trellis.dev/*` of pods and jobs.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::admission::wait_for_stamping;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::wait_for;

use crate::users::{self, jobs_as, user_client};
use crate::{create_site, shared_control_plane};

const REFUSAL_MESSAGE: &str = "only Trellis may write reserved labels and annotations \
                     (trellis.dev/...) of pods and jobs; leave these out or unchanged: ";

#[track_caller]
fn check_refused<T: std::fmt::Debug>(answer: kube::Result<T>, keys: &str) {
    let kube::Error::Api(status) = answer.unwrap_err() else {
        panic!("no answer of the API server");
    };
    assert_eq!(status.code, 403, "{}", status.message);
    let expected = format!("{REFUSAL_MESSAGE}{keys}");
    assert!(status.message.ends_with(&expected), "{}", status.message);
}

fn pod_with_metadata(name: &str, metadata: Value) -> Pod {
    let mut pod = json!({
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    });
    pod["metadata"]["name"] = json!(name);
    serde_json::from_value(pod).unwrap()
}

#[tokio::test]
async fn pod_with_forged_job_labels_is_refused() {
    let control_plane = shared_control_plane().await;
    let site = create_site("pretends", 0).await;
    users::grant_user_rights(control_plane).await;
    wait_for_stamping(control_plane).await;
    let bob = user_client(control_plane, "bob", &[]);
    let pods: Api<Pod> = Api::namespaced(bob.clone(), site.name());
    let params = PostParams::default();

    let forged = pod_with_metadata(
        "forged",
        json!({"labels": {"trellis.dev/job-uid": "a", "app": "b"}}),
    );
    check_refused(pods.create(&params, &forged).await, "trellis.dev/job-uid");
    let forged = pod_with_metadata("forged", json!({"annotations": {"trellis.dev/plan": "a"}}));
    check_refused(pods.create(&params, &forged).await, "trellis.dev/plan");
    let own = json!({"labels": {"app": "b", "trellis.dev/pod-group": "gang"}});
    pods.create(&params, &pod_with_metadata("own", own))
        .await
        .unwrap();

    // A client that binds a pod can label it.
    let binding = |labels: Value| {
        json!({"apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": "own", "labels": labels},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"}})
    };
    let bind = async |labels: Value| -> kube::Result<Value> {
        pods.create_subresource("binding", "own", &params, &binding(labels))
            .await
    };
    check_refused(
        bind(json!({"trellis.dev/job": "j"})).await,
        "trellis.dev/job",
    );
    bind(json!({"topology.kubernetes.io/zone": "a"}))
        .await
        .unwrap();

    // A controller cannot set it either, although another account creates its pods.
    let labels = json!({"app": "set", "trellis.dev/job-uid": "a"});
    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": "set"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "set"}},
            "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]}}},
    }))
    .unwrap();
    let sets: Api<ReplicaSet> = Api::namespaced(bob, site.name());
    sets.create(&params, &set).await.unwrap();
    let failed = wait_for(&sets, "set", SOON, |set: &ReplicaSet| {
        let conditions = set
            .status
            .iter()
            .flat_map(|s| s.conditions.iter().flatten());
        conditions.into_iter().any(|c| {
            let message = c.message.as_deref().unwrap_or_default();
            c.type_.as_deref() == Some("ReplicaFailure") && message.contains(REFUSAL_MESSAGE)
        })
    });
    failed.await.unwrap();
}

#[tokio::test]
async fn users_cannot_change_reserved_keys_of_a_gang_pod() {
    let control_plane = shared_control_plane().await;
    let site = create_site("keeps", 1).await;
    users::grant_user_rights(control_plane).await;
    wait_for_stamping(control_plane).await;
    site.submit("j", 1, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let name = site.wait_for_whole_gang("j", 1).await[0].name_any();
    let bob = user_client(control_plane, "bob", &[]);
    let pods: Api<Pod> = Api::namespaced(bob, site.name());
    let params = PatchParams::default();
    let patch = async |patch: Value| pods.patch(&name, &params, &Patch::Merge(&patch)).await;
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});

    let labelled = patch(labels(json!({"mine": "1"}))).await.unwrap();
    assert!(labelled.labels().contains_key("trellis.dev/job-uid"));
    patch(json!({"metadata": {"annotations": {"mine": "1"}}}))
        .await
        .unwrap();
    let other = labels(json!({"trellis.dev/job-uid": "other"}));
    check_refused(patch(other.clone()).await, "trellis.dev/job-uid");
    let none = labels(json!({"trellis.dev/group": null}));
    check_refused(patch(none).await, "trellis.dev/group");
    let of_status = pods
        .patch_status(&name, &params, &Patch::Merge(&other))
        .await;
    check_refused(of_status, "trellis.dev/job-uid");
    // A right in one namespace does not allow a user to act as the operator in another.
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let named = json!({"name": "all", "namespace": site.name()});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": named, "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": named,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]});
    for object in [role, binding] {
        control_plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    check_refused(patch(other).await, "trellis.dev/job-uid");

    let container = json!({"spec": {"ephemeralContainers":
        [{"name": "debug", "image": "registry.example/debug:1"}]}});
    let container = Patch::Strategic(&container);
    let debugged = pods.patch_subresource("ephemeralcontainers", &name, &params, &container);
    debugged.await.unwrap();
    pods.delete(&name, &Default::default()).await.unwrap();
}

#[tokio::test]
async fn users_cannot_write_reserved_keys_of_a_job() {
    let control_plane = shared_control_plane().await;
    let site = create_site("job-keys", 0).await;
    users::grant_user_rights(control_plane).await;
    wait_for_stamping(control_plane).await;
    let bob = jobs_as(&site, &user_client(control_plane, "bob", &[]));
    let job = |metadata: Value| -> TrainingJob {
        let mut job = site.job("j", 1, 1);
        job["metadata"] = metadata;
        serde_json::from_value(job).unwrap()
    };
    let params = PostParams::default();
    let with_both_labels = job(json!({"name": "j", "labels": {"trellis.dev/job": "k"},
        "annotations": {"trellis.dev/of-tomorrow": "a"}}));
    check_refused(
        bob.create(&params, &with_both_labels).await,
        "trellis.dev/job, trellis.dev/of-tomorrow",
    );
    let own = job(json!({"name": "j", "labels": {"team": "a", "other.dev/job": "k"}}));
    bob.create(&params, &own).await.unwrap();
    let later = json!({"metadata": {"labels": {"trellis.dev/job": "k"}}});
    let later = Patch::Merge(&later);
    let changed = bob.patch("j", &PatchParams::default(), &later).await;
    check_refused(changed, "trellis.dev/job");
}

/// The PodGroup of a job decides in which queue and with which priority its resources count.
#[tokio::test]
async fn users_cannot_write_the_pod_group_of_a_job() {
    let control_plane = shared_control_plane().await;
    let site = create_site("groups", 1).await;
    users::grant_user_rights(control_plane).await;
    wait_for_stamping(control_plane).await;
    site.submit("j", 1, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let bob = user_client(control_plane, "bob", &[]);
    let groups: Api<PodGroup> = Api::namespaced(bob, site.name());
    let params = PatchParams::default();
    let patch = async |name: &str, patch: Value| {
        let patch = Patch::Merge(&patch);
        groups.patch(name, &params, &patch).await
    };
    let priority = json!({"spec": {"priority": 1000}});
    let refused = |answer: kube::Result<PodGroup>| {
        let error_text = answer.unwrap_err().to_string();
        let words = "only Trellis may write the PodGroup of a TrainingJob";
        assert!(error_text.contains(words), "{error_text}");
    };
    refused(patch("j", priority.clone()).await);
    // A user cannot write it either by removing its owner, or by naming a job as the owner of a new
    // one.
    let mut without_owner = priority.clone();
    without_owner["metadata"] = json!({"ownerReferences": null});
    refused(patch("j", without_owner.clone()).await);
    // Removing the owner reference alone would hide the object from Trellis, and the next write
    // could set anything.
    let stripped = json!({"metadata": {"ownerReferences": null}});
    refused(patch("j", stripped.clone()).await);
    let mut leads_nowhere = groups.get("j").await.unwrap().metadata.owner_references;
    leads_nowhere
        .iter_mut()
        .flatten()
        .for_each(|owner| owner.controller = Some(false));
    refused(patch("j", json!({"metadata": {"ownerReferences": leads_nowhere}})).await);
    // The garbage collector removes the owner reference when a job is deleted and its objects are
    // orphaned. It may change nothing else.
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    let collector = user_client(control_plane, collector, &[]);
    let collected: Api<PodGroup> = Api::namespaced(collector, site.name());
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let stripped = collected.patch("j", &dry, &Patch::Merge(&stripped)).await;
    assert!(stripped.unwrap().owner_references().is_empty());
    refused(
        collected
            .patch("j", &dry, &Patch::Merge(&without_owner))
            .await,
    );
    let group = |owners: Value| -> PodGroup {
        serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "mine", "ownerReferences": owners}, "spec": {"minMember": 1},
        }))
        .unwrap()
    };
    let owner = json!([{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "name": "mine", "uid": "a", "controller": true}]);
    let create = PostParams::default();
    refused(groups.create(&create, &group(owner.clone())).await);
    groups.create(&create, &group(json!([]))).await.unwrap();
    // A user cannot make a job the owner of an existing PodGroup, or name another job as its owner.
    refused(patch("mine", json!({"metadata": {"ownerReferences": owner}})).await);
    let mut another = groups.get("j").await.unwrap().metadata.owner_references;
    another
        .iter_mut()
        .flatten()
        .for_each(|owner| owner.uid = "b".to_owned());
    refused(patch("j", json!({"metadata": {"ownerReferences": another}})).await);
    patch("mine", priority).await.unwrap();
    patch("j", json!({"metadata": {"annotations": {"mine": "1"}}}))
        .await
        .unwrap();
}
