//! Preemption between jobs and external pods, as whole gangs.

use anyhow::ensure;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_for};

use super::fixtures::{
    create_job, create_pod, create_pod_group, create_replica_set, list_pods, node_name,
    read_journal, scheduled_condition, wait_for_unschedulable, wait_until_bound, wait_until_placed,
};
use super::{create_site, shared_control_plane};

/// The operator retries the eviction of a protected victim after a minute.
const RETRY_TIMEOUT: Duration = Duration::from_secs(150);

/// A queue in which priority preempts, and the PriorityClass of the preemptor.
async fn create_priority_queue(site: &TestSite) -> (String, String) {
    let (queue, class) = (
        format!("{}-q", site.name()),
        format!("{}-high", site.name()),
    );
    let objects: [Value; 2] = [
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": queue},
            "spec": {"namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"}},
        }),
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": class}, "value": 1000,
        }),
    ];
    for object in objects {
        shared_control_plane()
            .await
            .apply_yaml(&object.to_string())
            .await
            .unwrap();
    }
    (queue, class)
}

/// Jobs have the preemption policy of their PriorityClass, and pods the one that admission has
/// copied. The cases run one after the other, because a gang behind another pending gang never
/// preempts.
#[tokio::test]
async fn non_preempting_gang_waits_for_free_capacity() {
    let site = create_site("never", 1).await;
    let (queue, _) = create_priority_queue(&site).await;
    let class = format!("{}-polite", site.name());
    let polite = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": class}, "value": 1000, "preemptionPolicy": "Never",
    });
    shared_control_plane()
        .await
        .apply_yaml(&polite.to_string())
        .await
        .unwrap();
    let in_queue = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({"trellis.dev/queue": queue});
    };
    create_pod(&site, "low", 8, in_queue).await;
    wait_until_bound(&site, "low").await;
    let mut polite = site.job("job", 1, 8);
    polite["spec"]["queueName"] = json!(queue);
    polite["spec"]["priorityClassName"] = json!(class);
    site.create(polite).await.unwrap();
    let is_waiting = |reason: Reason| reason == Reason::InsufficientCapacity;
    site.wait_for_status("job", |s| s.reason.is_some_and(is_waiting))
        .await;
    site.delete::<trellis_api::TrainingJob>("job").await;
    create_pod(&site, "high", 8, |pod| {
        in_queue(pod);
        pod["spec"]["priorityClassName"] = json!(class);
    })
    .await;
    wait_for_unschedulable(&site, "high", "InsufficientCapacity: ").await;
    wait_until_bound(&site, "low").await;
    site.delete::<Pod>("low").await;
    wait_until_bound(&site, "high").await;
}

#[tokio::test]
async fn external_gang_is_preempted_whole_by_a_job_and_returns() {
    let site = create_site("makeroom", 2).await;
    let (queue, class) = create_priority_queue(&site).await;
    create_pod_group(&site, "low", json!({"minMember": 4, "queueName": queue})).await;
    // A Job's controller would wait longer after each lost pod.
    create_replica_set(&site, "low", 4, 4).await;
    wait_until_placed(&site, "low", 4).await;
    let mut high = site.job("high", 1, 8);
    high["spec"]["queueName"] = json!(queue);
    high["spec"]["priorityClassName"] = json!(class);
    site.create(high).await.unwrap();
    site.wait_for_running_attempt("high", 1).await;
    // The controller has created the pods again, and none of them has a node.
    eventually(SOON, || async {
        let existing = list_pods(&site, "low").await;
        let bound = existing
            .iter()
            .filter(|pod| node_name(pod).is_some())
            .count();
        let existing_count = existing.len();
        ensure!(
            (existing_count, bound) == (4, 0),
            "{bound} of {existing_count} are bound"
        );
        Ok(())
    })
    .await
    .unwrap();
    site.delete::<trellis_api::TrainingJob>("high").await;
    wait_until_placed(&site, "low", 4).await;
}

#[tokio::test]
async fn single_pod_preempts_once_the_disruption_budget_allows() {
    let site = create_site("alone", 1).await;
    let (queue, class) = create_priority_queue(&site).await;
    let in_queue = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({"trellis.dev/queue": queue, "app": "low"});
    };
    create_pod(&site, "low", 8, in_queue).await;
    wait_until_bound(&site, "low").await;
    site.annotate_pod("low", trellis_e2e::kubelet::STOP_AFTER, "0s")
        .await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": site.name()},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}},
    });
    shared_control_plane()
        .await
        .apply_yaml(&budget.to_string())
        .await
        .unwrap();
    let budgets = site.api::<PodDisruptionBudget>();
    wait_for(&budgets, "keep", SOON, |b: &PodDisruptionBudget| {
        let healthy = b.status.as_ref().and_then(|s| s.current_healthy);
        healthy == Some(1)
    })
    .await
    .unwrap();
    create_pod(&site, "high", 8, |pod| {
        pod["metadata"]["labels"] = json!({"trellis.dev/queue": queue});
        pod["spec"]["priorityClassName"] = json!(class);
    })
    .await;
    let condition_message = wait_for_unschedulable(&site, "high", "ProtectedByBudget: ").await;
    assert!(condition_message.contains("/keep"), "{condition_message}");
    assert_eq!(
        wait_until_bound(&site, "low").await,
        site.nodes().names()[0]
    );
    site.delete::<PodDisruptionBudget>("keep").await;
    eventually(RETRY_TIMEOUT, || async {
        let high = site.api::<Pod>().get("high").await?;
        ensure!(
            node_name(&high).is_some(),
            "it waits: {:?}",
            scheduled_condition(&high)
        );
        Ok(())
    })
    .await
    .unwrap();
    assert!(site.api::<Pod>().get_opt("low").await.unwrap().is_none());
}

#[tokio::test]
async fn job_is_preempted_by_an_external_gang_of_higher_priority() {
    let site = create_site("taken", 1).await;
    let (queue, class) = create_priority_queue(&site).await;
    let mut low = site.job("low", 1, 8);
    low["spec"]["queueName"] = json!(queue);
    site.create(low).await.unwrap();
    site.wait_for_running_attempt("low", 1).await;
    site.delay_pod_stop("low", "15s").await;
    create_pod_group(
        &site,
        "high",
        json!({"minMember": 2, "queueName": queue, "priorityClassName": class}),
    )
    .await;
    create_job(&site, "high", 2, 4).await;
    eventually(SOON, || async {
        let journal = read_journal(&site, "high").await;
        ensure!(
            journal.phase == Some(PodGroupPhase::Nominated),
            "{journal:?}"
        );
        ensure!(journal.reason == Some(Reason::Preempting), "{journal:?}");
        Ok(())
    })
    .await
    .unwrap();
    wait_until_placed(&site, "high", 2).await;
    let victim = site.wait_for_phase("low", JobPhase::Queued).await;
    let status = victim.status.unwrap();
    assert_eq!((status.attempt, status.disruptions), (Some(2), Some(1)));
}
