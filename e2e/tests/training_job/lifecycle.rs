//! Restart, end, suspend, deletion, repair.

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::cluster::{NodeSet, Nodes};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::kubelet;
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::wait::{eventually, wait_for, wait_gone};

use super::{SOON, create, job, message, pods, pods_become, reaches, reason, shared};

async fn set_up(prefix: &str) -> (&'static ControlPlane, TestNamespace, NodeSet) {
    let control_plane = shared().await;
    let namespace = TestNamespace::create(control_plane, prefix).await.unwrap();
    let scope = namespace.name().to_owned();
    let nodes = Nodes::new(2)
        .name(&format!("{scope}-{{i}}"))
        .gpus(8)
        .scope(&scope)
        .create(control_plane)
        .await
        .unwrap();
    (control_plane, namespace, nodes)
}

async fn exit(namespace: &TestNamespace, pod: &str, code: &str) {
    let patch = json!({"metadata": {"annotations": {kubelet::EXIT: code}}});
    namespace
        .api::<Pod>()
        .patch(pod, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

async fn patch(namespace: &TestNamespace, name: &str, patch: Value) -> kube::Result<TrainingJob> {
    namespace
        .api::<TrainingJob>()
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
}

#[tokio::test]
async fn a_failed_rank_restarts_the_gang_once_and_success_ends_it() {
    let (_, namespace, _nodes) = set_up("restart").await;
    create(&namespace, job("j", namespace.name(), 4, 4))
        .await
        .unwrap();
    reaches(&namespace, "j", JobPhase::Running).await;
    for i in 0..4 {
        exit(&namespace, &format!("j-worker-{i}"), "1").await;
    }
    let api = namespace.api::<TrainingJob>();
    let second = wait_for(&api, "j", SOON, |j: &TrainingJob| {
        j.status
            .as_ref()
            .is_some_and(|s| s.attempt == Some(2) && s.phase == Some(JobPhase::Running))
    })
    .await
    .unwrap();
    let status = second.status.unwrap();
    assert_eq!((status.restarts, status.disruptions), (Some(1), Some(0)));
    let failure = status.last_failure.unwrap();
    assert_eq!((failure.exit_code, failure.attempt), (Some(1), 1));
    for i in 0..4 {
        exit(&namespace, &format!("j-worker-{i}"), "0").await;
    }
    reaches(&namespace, "j", JobPhase::Complete).await;
    // Finished pods stay, with their logs, and the journal says where it ran.
    assert_eq!(pods(&namespace, "j").await.len(), 4);
}

#[tokio::test]
async fn the_limit_ends_it() {
    let (_, namespace, _nodes) = set_up("limit").await;
    let mut spec = job("j", namespace.name(), 2, 1);
    spec["spec"]["restart"]["limit"] = json!(0);
    create(&namespace, spec).await.unwrap();
    reaches(&namespace, "j", JobPhase::Running).await;
    exit(&namespace, "j-worker-1", "7").await;
    let failed = reaches(&namespace, "j", JobPhase::Failed).await;
    assert_eq!(reason(&failed), "RestartLimitReached");
    assert!(
        message(&failed).contains("exit code 7"),
        "{}",
        message(&failed)
    );
    // The rank that still ran is stopped; the one that failed keeps its log.
    pods_become(&namespace, "j", 1).await.unwrap();
}

#[tokio::test]
async fn suspend_releases_everything_and_resume_is_a_new_attempt() {
    let (_, namespace, _nodes) = set_up("suspend").await;
    create(&namespace, job("j", namespace.name(), 2, 8))
        .await
        .unwrap();
    reaches(&namespace, "j", JobPhase::Running).await;
    let refused = patch(&namespace, "j", json!({"spec": {"queue": "other"}})).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("while the job is suspended")
    );
    patch(&namespace, "j", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    reaches(&namespace, "j", JobPhase::Suspended).await;
    assert_eq!(pods(&namespace, "j").await.len(), 0);
    patch(&namespace, "j", json!({"spec": {"suspend": false}}))
        .await
        .unwrap();
    let resumed = reaches(&namespace, "j", JobPhase::Running).await;
    assert_eq!(resumed.status.unwrap().attempt, Some(2));
}

#[tokio::test]
async fn a_deleted_pod_is_a_disruption_and_not_the_jobs_fault() {
    let (_, namespace, _nodes) = set_up("disrupt").await;
    create(&namespace, job("j", namespace.name(), 2, 8))
        .await
        .unwrap();
    reaches(&namespace, "j", JobPhase::Running).await;
    namespace
        .api::<Pod>()
        .delete("j-worker-0", &DeleteParams::default())
        .await
        .unwrap();
    let api = namespace.api::<TrainingJob>();
    let again = wait_for(&api, "j", SOON, |j: &TrainingJob| {
        j.status
            .as_ref()
            .is_some_and(|s| s.attempt == Some(2) && s.phase == Some(JobPhase::Running))
    })
    .await
    .unwrap();
    let status = again.status.unwrap();
    assert_eq!((status.restarts, status.disruptions), (Some(0), Some(1)));
}

#[tokio::test]
async fn children_are_repaired_and_deletion_leaves_nothing() {
    let (_, namespace, _nodes) = set_up("children").await;
    create(&namespace, job("j", namespace.name(), 2, 1))
        .await
        .unwrap();
    reaches(&namespace, "j", JobPhase::Running).await;
    let policies = namespace.api::<NetworkPolicy>();
    policies
        .patch(
            "j",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"egress": [{}]}})),
        )
        .await
        .unwrap();
    eventually(SOON, || async {
        let egress = policies
            .get("j")
            .await?
            .spec
            .and_then(|s| s.egress)
            .unwrap_or_default();
        anyhow::ensure!(egress.len() > 1, "not repaired: {egress:?}");
        Ok(())
    })
    .await
    .unwrap();
    let services = namespace.api::<Service>();
    let before = services.get("j").await.unwrap().metadata.uid;
    services
        .delete("j", &DeleteParams::default())
        .await
        .unwrap();
    eventually(SOON, || async {
        anyhow::ensure!(services.get("j").await?.metadata.uid != before);
        Ok(())
    })
    .await
    .unwrap();
    namespace
        .api::<TrainingJob>()
        .delete("j", &DeleteParams::default())
        .await
        .unwrap();
    pods_become(&namespace, "j", 0).await.unwrap();
    wait_gone(&services, "j", SOON).await.unwrap();
    wait_gone(&policies, "j", SOON).await.unwrap();
    wait_gone(&namespace.api::<PodGroup>(), "j", SOON)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_second_pass_writes_nothing() {
    let (_, namespace, _nodes) = set_up("quiet").await;
    create(&namespace, job("j", namespace.name(), 2, 1))
        .await
        .unwrap();
    reaches(&namespace, "j", JobPhase::Running).await;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    let version = |j: TrainingJob| j.metadata.resource_version;
    let before = version(namespace.api::<TrainingJob>().get("j").await.unwrap());
    // A label of the user's own makes the operator look, and gives it nothing to do.
    namespace
        .api::<Pod>()
        .patch(
            "j-worker-0",
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": {"labels": {"mine": "yes"}}})),
        )
        .await
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(
        version(namespace.api::<TrainingJob>().get("j").await.unwrap()),
        before
    );
}

#[tokio::test]
async fn a_job_may_be_deleted_in_any_phase() {
    let (_, namespace, _nodes) = set_up("deleted").await;
    let api = namespace.api::<TrainingJob>();
    for millis in [0, 5, 20, 40, 60, 80, 120, 200, 400, 1500] {
        create(&namespace, job("j", namespace.name(), 8, 1))
            .await
            .unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        api.delete("j", &DeleteParams::default()).await.unwrap();
        wait_gone(&api, "j", SOON).await.unwrap();
        pods_become(&namespace, "j", 0).await.unwrap();
        for gone in [
            wait_gone(&namespace.api::<Service>(), "j", SOON).await,
            wait_gone(&namespace.api::<NetworkPolicy>(), "j", SOON).await,
            wait_gone(&namespace.api::<PodGroup>(), "j", SOON).await,
        ] {
            gone.unwrap_or_else(|e| panic!("deleted after {millis} ms: {e:#}"));
        }
    }
    // What they held is free.
    create(&namespace, job("j", namespace.name(), 2, 8))
        .await
        .unwrap();
    reaches(&namespace, "j", JobPhase::Running).await;
}

#[tokio::test]
async fn a_refused_pod_moves_the_gang_to_another_node() {
    let (control_plane, namespace, _nodes) = set_up("refused").await;
    let scope = namespace.name().to_owned();
    let _more = Nodes::new(1)
        .name(&format!("{scope}-more-{{i}}"))
        .gpus(8)
        .scope(&scope)
        .create(control_plane)
        .await
        .unwrap();
    // The annotation is not the user's to give: admission gives it.
    let policy = format!(
        "
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: {scope}}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {scope}}}}}
    resourceRules:
    - {{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >
        Object{{metadata: Object.metadata{{annotations: {{
          '{}': 'OutOfnvidia.com/gpu', '{}': '{scope}-0'}}}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: {scope}}}
spec: {{policyName: {scope}}}
",
        kubelet::REFUSE,
        kubelet::REFUSE_ON
    );
    control_plane.apply_yaml(&policy).await.unwrap();
    // A new policy takes a moment until every request sees it.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let spec = job("j", &scope, 2, 8);
    create(&namespace, spec).await.unwrap();
    let moved = reaches(&namespace, "j", JobPhase::Running).await;
    let status = moved.status.unwrap();
    assert_eq!(
        (status.restarts, status.disruptions),
        (Some(0), Some(1)),
        "{:?}",
        status.last_failure
    );
    let nodes: Vec<_> = pods(&namespace, "j")
        .await
        .into_iter()
        .filter_map(|p| p.spec?.node_name)
        .collect();
    assert!(!nodes.contains(&format!("{scope}-0")), "{nodes:?}");
}

#[tokio::test]
async fn a_deleted_node_does_not_hold_the_gang() {
    let (control_plane, namespace, _nodes) = set_up("lostnode").await;
    let scope = namespace.name().to_owned();
    create(&namespace, job("j", &scope, 2, 8)).await.unwrap();
    reaches(&namespace, "j", JobPhase::Running).await;
    let _more = Nodes::new(1)
        .name(&format!("{scope}-more-{{i}}"))
        .gpus(8)
        .scope(&scope)
        .create(control_plane)
        .await
        .unwrap();
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(control_plane.client());
    nodes
        .delete(&format!("{scope}-0"), &DeleteParams::default())
        .await
        .unwrap();
    let api = namespace.api::<TrainingJob>();
    let again = wait_for(&api, "j", 3 * SOON, |j: &TrainingJob| {
        j.status
            .as_ref()
            .is_some_and(|s| s.attempt == Some(2) && s.phase == Some(JobPhase::Running))
    })
    .await
    .unwrap();
    let status = again.status.unwrap();
    assert_eq!((status.restarts, status.disruptions), (Some(0), Some(1)));
}
