//! Restart, completion, suspension, deletion and repair.

pub(super) mod checkpoints;
pub(super) mod failures;
pub(super) mod pod_recovery;
pub(super) mod runtime_prediction;
pub(super) mod stages;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::site::jobs::{SOON, message, phase, reason};
use trellis_e2e::wait::{eventually, wait_for, wait_until_deleted};

use super::{create_site, shared_control_plane};

/// The operator gives up the pods of a lost node after a minute.
const NODE_LOSS_TIMEOUT: Duration = Duration::from_secs(90);

#[tokio::test]
async fn failed_rank_restarts_the_gang_once_and_success_completes_it() {
    let site = create_site("restart", 2).await;
    site.submit("j", 4, 4).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    for i in 0..4 {
        site.end_pod(&format!("j-worker-{i}"), "1").await;
    }
    let second = site.wait_for_running_attempt("j", 2).await;
    let status = second.status.unwrap();
    assert_eq!((status.restarts, status.disruptions), (Some(1), Some(0)));
    let failure = status.last_failure.unwrap();
    assert_eq!((failure.exit_code, failure.attempt), (Some(1), 1));
    for i in 0..4 {
        site.end_pod(&format!("j-worker-{i}"), "0").await;
    }
    site.wait_for_phase("j", JobPhase::Complete).await;
    // Finished pods stay with their logs, and the journal has their nodes.
    assert_eq!(site.list_pods("j").await.len(), 4);
}

#[tokio::test]
async fn job_fails_at_its_restart_limit() {
    let site = create_site("limit", 2).await;
    let mut spec = site.job("j", 2, 1);
    spec["spec"]["restart"]["limit"] = json!(0);
    site.create(spec).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    site.end_pod("j-worker-1", "7").await;
    let failed = site.wait_for_phase("j", JobPhase::Failed).await;
    assert_eq!(reason(&failed), "RestartLimitReached");
    assert!(
        message(&failed).contains("exit code 7"),
        "{}",
        message(&failed)
    );
    // The operator deletes the rank that still ran. The failed one keeps its log.
    site.wait_for_pod_count("j", 1).await;
}

#[tokio::test]
async fn suspended_job_releases_its_resources_and_resumes_with_a_new_attempt() {
    let site = create_site("suspend", 2).await;
    site.submit("j", 2, 8).await;
    let running = site.wait_for_phase("j", JobPhase::Running).await;
    let closer = json!({"preferred": "rack"});
    let mut groups = site.job("j", 2, 8)["spec"]["taskGroups"].clone();
    groups[0]["topology"] = closer.clone();
    for change in [
        json!({"queueName": "other"}),
        json!({"placement": "Spread"}),
        json!({"preemptibility": "ProtectedWithinQuota"}),
        json!({"minRuntimeSeconds": 60}),
        json!({"topology": closer}),
        json!({"taskGroups": groups}),
    ] {
        let refused = site.patch("j", json!({"spec": change})).await;
        let refused = refused.expect_err(&change.to_string()).to_string();
        assert!(
            refused.contains("while the job is suspended"),
            "{change}: {refused}"
        );
        // The message names the changed field, and no other field of the rule.
        let field = change.as_object().unwrap().keys().next().unwrap();
        let named = match field.as_str() {
            "taskGroups" => "topology of a task group ".to_owned(),
            field => format!("spec.{field}: "),
        };
        assert!(refused.contains(&named), "{change}: {refused}");
        assert!(!refused.contains("<nil>"), "{change}: {refused}");
    }
    // Only the violated rule refuses the change.
    for (field, value, words) in [
        ("replicas", json!(3), "is fixed once"),
        ("env", json!([{"name": "A", "value": "b"}]), "is fixed once"),
        ("image", json!("other:1"), "while the job is suspended"),
        (
            "nodeSelector",
            json!({"a": "b"}),
            "while the job is suspended",
        ),
    ] {
        let mut groups = serde_json::to_value(&running.spec.task_groups).unwrap();
        groups[0][field] = value;
        let refused = site
            .patch("j", json!({"spec": {"taskGroups": groups}}))
            .await;
        let error = refused.expect_err(field).to_string();
        let rule_texts = ["is fixed once", "while the job is suspended"];
        let rule_texts: Vec<_> = rule_texts
            .into_iter()
            .filter(|w| error.contains(w))
            .collect();
        assert_eq!(rule_texts, [words], "{field}: {error}");
        assert!(error.contains("spec.taskGroups: Invalid value"), "{error}");
        let named = format!("{field} of a task group ");
        assert!(error.contains(&named), "{field}: {error}");
    }
    site.patch("j", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    site.wait_for_phase("j", JobPhase::Suspended).await;
    assert_eq!(site.list_pods("j").await.len(), 0);
    let changes = json!({"placement": "Spread", "preemptibility": "ProtectedWithinQuota", "minRuntimeSeconds": 60});
    site.patch("j", json!({"spec": changes})).await.unwrap();
    site.patch("j", json!({"spec": {"suspend": false}}))
        .await
        .unwrap();
    let resumed = site.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(resumed.status.unwrap().attempt, Some(2));
    let gang = site.api::<PodGroup>().get("j").await.unwrap().spec;
    let rule_texts = (gang.is_preemptible(), gang.min_runtime_seconds);
    assert_eq!(rule_texts, (false, Some(60)));
}

#[tokio::test]
async fn deleted_pod_counts_as_a_disruption() {
    let site = create_site("disrupt", 2).await;
    site.submit("j", 2, 8).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    site.delete::<Pod>("j-worker-0").await;
    let restarted = site.wait_for_running_attempt("j", 2).await;
    let status = restarted.status.unwrap();
    assert_eq!((status.restarts, status.disruptions), (Some(0), Some(1)));
}

#[tokio::test]
async fn children_are_repaired_and_are_deleted_with_their_job() {
    let site = create_site("children", 2).await;
    site.submit("j", 2, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let policies = site.api::<NetworkPolicy>();
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
    let services = site.api::<Service>();
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
    site.delete::<TrainingJob>("j").await;
    site.wait_for_pod_count("j", 0).await;
    wait_until_deleted(&services, "j", SOON).await.unwrap();
    wait_until_deleted(&policies, "j", SOON).await.unwrap();
    wait_until_deleted(&site.api::<PodGroup>(), "j", SOON)
        .await
        .unwrap();
}

#[tokio::test]
async fn job_can_be_deleted_in_any_phase() {
    let site = create_site("deleted", 2).await;
    let api = site.api::<TrainingJob>();
    for millis in [0, 5, 20, 40, 60, 80, 120, 200, 400, 1500] {
        site.submit("j", 8, 1).await;
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        api.delete("j", &DeleteParams::default()).await.unwrap();
        wait_until_deleted(&api, "j", SOON).await.unwrap();
        site.wait_for_pod_count("j", 0).await;
        for deletion in [
            wait_until_deleted(&site.api::<Service>(), "j", SOON).await,
            wait_until_deleted(&site.api::<NetworkPolicy>(), "j", SOON).await,
            wait_until_deleted(&site.api::<PodGroup>(), "j", SOON).await,
        ] {
            deletion.unwrap_or_else(|e| panic!("deleted after {millis} ms: {e:#}"));
        }
    }
    // The GPUs of the deleted jobs are free.
    site.submit("j", 2, 8).await;
    site.wait_for_phase("j", JobPhase::Running).await;
}

#[tokio::test]
async fn gang_moves_when_a_kubelet_refuses_its_pod() {
    let site = create_site("refused", 2).await;
    let _more = site
        .add_nodes(shared_control_plane().await, NodeTemplate::new(1).gpus(8))
        .await;
    let refusing = format!("{}-0", site.name());
    PodPolicy::refuse_by_kubelet(shared_control_plane().await, site.name(), &refusing)
        .await
        .unwrap();
    site.submit("j", 2, 8).await;
    let moved = site.wait_for_phase("j", JobPhase::Running).await;
    let status = moved.status.unwrap();
    assert_eq!(
        (status.restarts, status.disruptions),
        (Some(0), Some(1)),
        "{:?}",
        status.last_failure
    );
    let nodes: Vec<_> = site
        .list_pods("j")
        .await
        .into_iter()
        .filter_map(|p| p.spec?.node_name)
        .collect();
    assert!(!nodes.contains(&refusing), "{nodes:?}");
}

#[tokio::test]
async fn gang_moves_when_its_node_is_deleted() {
    let site = create_site("lostnode", 2).await;
    site.submit("j", 2, 8).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let _more = site
        .add_nodes(shared_control_plane().await, NodeTemplate::new(1).gpus(8))
        .await;
    let lost = &site.nodes().names()[0];
    let pods = site.wait_for_whole_gang("j", 2).await;
    let on = |pod: &&Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_ref()) == Some(lost);
    let pod = pods.iter().find(on).unwrap().clone();
    site.nodes().delete(lost).await.unwrap();
    let restarted = site.wait_for_status("j", |s| s.attempt == Some(2)).await;
    let failure = restarted.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.reason, "NodeLost");
    // Its kubelet may still run, so the operator deletes the pod, and does not force the deletion
    // at once.
    let api = site.api::<Pod>();
    let name = pod.metadata.name.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let remaining = api.get(&name).await.unwrap().metadata;
    assert_eq!(remaining.uid, pod.metadata.uid);
    assert!(remaining.deletion_timestamp.is_some());
    // After a minute the operator gives the node up.
    let jobs = site.api::<TrainingJob>();
    let running = wait_for(&jobs, "j", NODE_LOSS_TIMEOUT, |job: &TrainingJob| {
        phase(job) == Some(JobPhase::Running)
    });
    let status = running.await.unwrap().status.unwrap();
    assert_eq!(status.attempt, Some(2));
    assert_eq!((status.restarts, status.disruptions), (Some(0), Some(1)));
}
