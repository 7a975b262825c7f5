//! Pods that Trellis has placed keep their spec, which policies have judged, and their owning job.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::wait_for_stamping;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::wait_for;

use super::fixtures::{policy_verdict, wait_for_event};
use super::users::{self, user_client};
use super::{create_site, shared_control_plane};

const SPEC_MESSAGE: &str = "must not change after policies have judged it";
const OWNERS_MESSAGE: &str = "only Trellis may change the owners of a pod that Trellis has placed";

#[track_caller]
fn check_refused(answer: kube::Result<Pod>, words: &str) {
    let kube::Error::Api(status) = answer.unwrap_err() else {
        panic!("no answer of the API server");
    };
    assert_eq!(status.code, 403, "{}", status.message);
    assert!(status.message.contains(words), "{}", status.message);
}

/// Changes that Kubernetes itself would accept: an image, one more toleration, a deadline.
fn spec_changes(pod: &Pod) -> [Value; 3] {
    let spec = pod.spec.as_ref().unwrap();
    let mut tolerations = json!(spec.tolerations);
    let toleration = json!({"key": "example.com/taint", "operator": "Exists"});
    tolerations.as_array_mut().unwrap().push(toleration);
    [
        json!({"spec": {"containers": [{"name": "main", "image": "evil.example/x:1"}]}}),
        json!({"spec": {"tolerations": tolerations}}),
        json!({"spec": {"activeDeadlineSeconds": 5}}),
    ]
}

async fn patch_pod(pods: &Api<Pod>, name: &str, patch: &Value) -> kube::Result<Pod> {
    let params = PatchParams::default();
    pods.patch(name, &params, &Patch::Strategic(patch)).await
}

async fn pods_as_bob(site: &TestSite) -> Api<Pod> {
    let control_plane = shared_control_plane().await;
    users::grant_user_rights(control_plane).await;
    wait_for_stamping(control_plane).await;
    Api::namespaced(user_client(control_plane, "bob", &[]), site.name())
}

#[tokio::test]
async fn users_cannot_change_a_pod_of_a_job() {
    let site = create_site("changed", 1).await;
    let pods = pods_as_bob(&site).await;
    site.submit("j", 1, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let pod = &site.wait_for_whole_gang("j", 1).await[0];
    let name = pod.name_any();
    for change in spec_changes(pod) {
        check_refused(patch_pod(&pods, &name, &change).await, SPEC_MESSAGE);
    }
    patch_pod(
        &pods,
        &name,
        &json!({"metadata": {"labels": {"mine": "1"}}}),
    )
    .await
    .unwrap();
    // The operator and administrators may make these changes.
    let admin = site.api::<Pod>();
    for change in spec_changes(pod) {
        patch_pod(&admin, &name, &change).await.unwrap();
    }
    // Without the admission policy, users may make them too, and the operator reports it.
    let note = wait_for_event(&site, "j", "PolicyWarning").await;
    assert!(note.contains("changed after policies judged it"), "{note}");
    let jobs = site.api::<TrainingJob>();
    let reporting_job = wait_for(&jobs, "j", SOON, |job: &TrainingJob| {
        let warnings = policy_verdict(job).warnings;
        let names_both = |w: &String| w.contains("images, tolerations");
        warnings.iter().any(names_both)
    });
    reporting_job.await.unwrap();
}

#[tokio::test]
async fn pod_of_a_job_keeps_its_owner() {
    let control_plane = shared_control_plane().await;
    let site = create_site("owned", 1).await;
    let pods = pods_as_bob(&site).await;
    site.submit("j", 1, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let pod = &site.wait_for_whole_gang("j", 1).await[0];
    let name = pod.name_any();
    let owners = |owners: Value| json!({"metadata": {"ownerReferences": owners}});
    let own = json!(pod.owner_references());
    let mut second = own.as_array().unwrap().clone();
    second.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "a"}));
    let mut other = own.clone();
    other[0]["uid"] = json!("b");
    for change in [json!(null), json!(second), other] {
        let params = PatchParams::default();
        let change = owners(change);
        let changed = pods.patch(&name, &params, &Patch::Merge(&change)).await;
        check_refused(changed, OWNERS_MESSAGE);
    }
    // The garbage collector makes this change when a job is deleted and its objects are orphaned.
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    let collector = user_client(control_plane, collector, &[]);
    let collected: Api<Pod> = Api::namespaced(collector, site.name());
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let stripped = owners(json!(null));
    let stripped = collected.patch(&name, &dry, &Patch::Merge(&stripped)).await;
    assert!(stripped.unwrap().owner_references().is_empty());
}

/// Before an external pod is placed, its user may change it like any pod.
#[tokio::test]
async fn users_cannot_change_an_external_pod_after_placement() {
    let site = create_site("external", 0).await;
    let pods = pods_as_bob(&site).await;
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "trellis", "schedulingGates": [{"name": "example.com/wait"}],
            "containers": [{"name": "main", "image": "registry.example/app:1",
                "resources": {"requests": {"cpu": "1"}}}]},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods.create(&Default::default(), &pod).await.unwrap();
    let other =
        json!({"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}});
    patch_pod(&pods, "p", &other).await.unwrap();
    let resize = async |cpu: &str| {
        let patch = json!({"spec": {"containers": [{"name": "main",
            "resources": {"requests": {"cpu": cpu}}}]}});
        let (params, patch) = (PatchParams::default(), Patch::Strategic(&patch));
        pods.patch_subresource("resize", "p", &params, &patch).await
    };
    resize("2").await.unwrap();
    let placed = json!({"metadata": {"annotations": {"trellis.dev/placed-in": "default"}}});
    let pod = patch_pod(&site.api(), "p", &placed).await.unwrap();
    let [image, ..] = spec_changes(&pod);
    check_refused(patch_pod(&pods, "p", &image).await, SPEC_MESSAGE);
    check_refused(resize("64").await, SPEC_MESSAGE);
    let job = json!({"metadata": {"ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1",
        "kind": "TrainingJob", "name": "j", "uid": "a", "controller": true}]}});
    let params = PatchParams::default();
    check_refused(
        pods.patch("p", &params, &Patch::Merge(&job)).await,
        OWNERS_MESSAGE,
    );
    let set = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1",
        "kind": "ReplicaSet", "name": "s", "uid": "a", "controller": true}]}});
    pods.patch("p", &params, &Patch::Merge(&set)).await.unwrap();
}
