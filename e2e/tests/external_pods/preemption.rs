//! External pods make room for jobs, and jobs for external pods: whole gangs.

use anyhow::ensure;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;
use trellis_e2e::jobs::SOON;
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_for};

use super::scene::{bound, group, job, journal, node, pod, pods, replicas, runs, scheduled, told};
use super::{shared, site};

/// A victim that a budget keeps is asked again after a minute.
const LATER: Duration = Duration::from_secs(150);

/// A queue in which priority preempts, and the PriorityClass of the preemptor.
async fn by_priority(site: &Site) -> (String, String) {
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
        shared()
            .await
            .apply_yaml(&object.to_string())
            .await
            .unwrap();
    }
    (queue, class)
}

/// Jobs take the preemption policy of their PriorityClass, pods the one that admission has copied
/// to them. The test runs them one after the other, because a gang behind another pending gang does
/// not preempt in any case.
#[tokio::test]
async fn who_never_preempts_waits_until_there_is_room() {
    let site = site("never", 1).await;
    let (queue, _) = by_priority(&site).await;
    let class = format!("{}-polite", site.name());
    let polite = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": class}, "value": 1000, "preemptionPolicy": "Never",
    });
    shared()
        .await
        .apply_yaml(&polite.to_string())
        .await
        .unwrap();
    let in_queue = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({"trellis.dev/queue": queue});
    };
    pod(&site, "low", 8, in_queue).await;
    bound(&site, "low").await;
    let mut polite = site.job("job", 1, 8);
    polite["spec"]["queueName"] = json!(queue);
    polite["spec"]["priorityClassName"] = json!(class);
    site.create(polite).await.unwrap();
    let waits = |reason: Reason| reason == Reason::InsufficientCapacity;
    site.becomes("job", |s| s.reason.is_some_and(waits)).await;
    site.delete::<trellis_api::TrainingJob>("job").await;
    pod(&site, "high", 8, |pod| {
        in_queue(pod);
        pod["spec"]["priorityClassName"] = json!(class);
    })
    .await;
    told(&site, "high", "InsufficientCapacity: ").await;
    bound(&site, "low").await;
    site.delete::<Pod>("low").await;
    bound(&site, "high").await;
}

#[tokio::test]
async fn an_external_gang_makes_room_whole_for_a_job_and_comes_back() {
    let site = site("makeroom", 2).await;
    let (queue, class) = by_priority(&site).await;
    group(&site, "low", json!({"minMember": 4, "queueName": queue})).await;
    // A Job's controller would wait, longer with each pod that it has lost.
    replicas(&site, "low", 4, 4).await;
    runs(&site, "low", 4).await;
    let mut high = site.job("high", 1, 8);
    high["spec"]["queueName"] = json!(queue);
    high["spec"]["priorityClassName"] = json!(class);
    site.create(high).await.unwrap();
    site.runs_again("high", 1).await;
    // Its controller has made its pods anew, and none of them has a node.
    eventually(SOON, || async {
        let there = pods(&site, "low").await;
        let bound = there.iter().filter(|pod| node(pod).is_some()).count();
        let here = there.len();
        ensure!((here, bound) == (4, 0), "{bound} of {here} are bound");
        Ok(())
    })
    .await
    .unwrap();
    site.delete::<trellis_api::TrainingJob>("high").await;
    runs(&site, "low", 4).await;
}

#[tokio::test]
async fn a_pod_alone_takes_the_place_of_another_once_its_budget_lets_it_go() {
    let site = site("alone", 1).await;
    let (queue, class) = by_priority(&site).await;
    let in_queue = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({"trellis.dev/queue": queue, "app": "low"});
    };
    pod(&site, "low", 8, in_queue).await;
    bound(&site, "low").await;
    site.annotate("low", trellis_e2e::kubelet::STOP_AFTER, "0s")
        .await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": site.name()},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}},
    });
    shared()
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
    pod(&site, "high", 8, |pod| {
        pod["metadata"]["labels"] = json!({"trellis.dev/queue": queue});
        pod["spec"]["priorityClassName"] = json!(class);
    })
    .await;
    let said = told(&site, "high", "ProtectedByBudget: ").await;
    assert!(said.contains("/keep"), "{said}");
    assert_eq!(bound(&site, "low").await, site.nodes().names()[0]);
    site.delete::<PodDisruptionBudget>("keep").await;
    eventually(LATER, || async {
        let high = site.api::<Pod>().get("high").await?;
        ensure!(node(&high).is_some(), "it waits: {:?}", scheduled(&high));
        Ok(())
    })
    .await
    .unwrap();
    assert!(site.api::<Pod>().get_opt("low").await.unwrap().is_none());
}

#[tokio::test]
async fn a_job_makes_room_for_a_external_gang_of_higher_priority() {
    let site = site("taken", 1).await;
    let (queue, class) = by_priority(&site).await;
    let mut low = site.job("low", 1, 8);
    low["spec"]["queueName"] = json!(queue);
    site.create(low).await.unwrap();
    site.runs_again("low", 1).await;
    site.stop_slowly("low", "15s").await;
    group(
        &site,
        "high",
        json!({"minMember": 2, "queueName": queue, "priorityClassName": class}),
    )
    .await;
    job(&site, "high", 2, 4).await;
    eventually(SOON, || async {
        let journal = journal(&site, "high").await;
        ensure!(
            journal.phase == Some(PodGroupPhase::Nominated),
            "{journal:?}"
        );
        ensure!(journal.reason == Some(Reason::Preempting), "{journal:?}");
        Ok(())
    })
    .await
    .unwrap();
    runs(&site, "high", 2).await;
    let left = site.reaches("low", JobPhase::Queued).await;
    let status = left.status.unwrap();
    assert_eq!((status.attempt, status.disruptions), (Some(2), Some(1)));
}
