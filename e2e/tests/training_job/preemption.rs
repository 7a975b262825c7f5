//! Preemption of whole gangs. No gang is preempted in vain.

use std::time::Duration;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::{Reason, TrainingJob, TrainingQueue};
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::jobs::{SOON, message, uids};
use trellis_e2e::queues::resource_groups;
use trellis_e2e::site::Site;
use trellis_e2e::wait::wait_for;

use super::{shared, site};

/// A victim that a budget keeps is asked again after a minute.
const ASKED_AGAIN: Duration = Duration::from_secs(150);

/// A queue of the site's own.
async fn queue(site: &Site, name: &str, mut spec: Value) -> String {
    let name = format!("{}-{name}", site.name());
    spec["namespaceSelector"] = json!({});
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": name}, "spec": spec,
    });
    let control_plane = shared().await;
    control_plane.apply_yaml(&queue.to_string()).await.unwrap();
    name
}

/// A queue in which priority preempts, and the PriorityClass of the preemptor.
pub(super) async fn by_priority(site: &Site) -> (String, String) {
    let preemption = json!({"preemption": {"withinClusterQueue": "LowerPriority"}});
    (queue(site, "q", preemption).await, high(site).await)
}

/// A queue without preemption, and a PriorityClass that goes first.
pub(super) async fn in_order(site: &Site) -> (String, String) {
    (queue(site, "q", json!({})).await, high(site).await)
}

async fn high(site: &Site) -> String {
    let class = format!("{}-high", site.name());
    let priority = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": class}, "value": 1000,
    });
    let control_plane = shared().await;
    control_plane
        .apply_yaml(&priority.to_string())
        .await
        .unwrap();
    class
}

/// Submits a job of `nodes` nodes in a queue and with a PriorityClass.
pub(super) async fn submit(site: &Site, name: &str, nodes: u32, queue: &str, class: Option<&str>) {
    let mut job = site.job(name, nodes, 8);
    job["spec"]["queueName"] = json!(queue);
    if let Some(class) = class {
        job["spec"]["priorityClassName"] = json!(class);
    }
    site.create(job).await.unwrap();
}

/// Waits until the job runs in its first attempt.
pub(super) async fn runs(site: &Site, name: &str) {
    site.runs_again(name, 1).await;
}

pub(super) fn says(reason: Reason) -> impl Fn(&TrainingJobStatus) -> bool {
    move |status| status.reason == Some(reason)
}

fn counts(job: &TrainingJob) -> (Option<i64>, Option<i64>, Option<i64>) {
    let status = job.status.clone().unwrap_or_default();
    (status.attempt, status.restarts, status.disruptions)
}

#[tokio::test]
async fn a_job_of_higher_priority_takes_the_place_of_a_lower_one_whole() {
    let site = site("preempt", 2).await;
    let (queue, class) = by_priority(&site).await;
    submit(&site, "low", 2, &queue, None).await;
    runs(&site, "low").await;
    site.stop_slowly("low", "15s").await;
    // The preemptor needs one node. Its victim leaves both.
    submit(&site, "high", 1, &queue, Some(&class)).await;
    let follows = site.becomes("high", says(Reason::Preempting)).await;
    let said = message(&follows);
    assert!(
        said.contains(&format!("\"{}/low\"", site.name())) && said.contains("1 node"),
        "{said}"
    );
    let leaves = site.becomes("low", says(Reason::Preempted)).await;
    let said = message(&leaves);
    let by = format!(
        "\"{}/high\" of queue {queue:?} with priority 1000",
        site.name()
    );
    assert!(said.contains(&by), "{said}");
    assert!(
        site.pods("high").await.is_empty(),
        "the room is not free yet"
    );
    runs(&site, "high").await;
    site.pods_become("low", 0).await;
    let waits = site
        .becomes("low", says(Reason::InsufficientCapacity))
        .await;
    assert_eq!(counts(&waits), (Some(2), Some(0), Some(1)));
    let status = waits.status.unwrap();
    assert_eq!(status.phase, Some(JobPhase::Queued));
    assert_eq!(
        status.last_preemption.map(|last| last.attempt),
        Some(1),
        "it is told after the reason has gone"
    );
    site.delete::<TrainingJob>("high").await;
    let back = site.runs_again("low", 2).await;
    assert_eq!(counts(&back), (Some(2), Some(0), Some(1)));
    site.whole("low", 2).await;
}

#[tokio::test]
async fn a_budget_keeps_its_pods_and_the_one_who_asked_says_so() {
    let site = site("budget", 2).await;
    let (queue, class) = by_priority(&site).await;
    submit(&site, "low", 2, &queue, None).await;
    runs(&site, "low").await;
    let before = uids(&site.whole("low", 2).await);
    // The budget allows each pod to go alone, but not both.
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": site.name()},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"trellis.dev/job": "low"}}},
    });
    let control_plane = shared().await;
    control_plane.apply_yaml(&budget.to_string()).await.unwrap();
    let budgets = site.api::<PodDisruptionBudget>();
    wait_for(&budgets, "keep", SOON, |b: &PodDisruptionBudget| {
        let allowed = b.status.as_ref().and_then(|s| s.disruptions_allowed);
        allowed == Some(1)
    })
    .await
    .unwrap();
    submit(&site, "high", 2, &queue, Some(&class)).await;
    let refused = site.becomes("high", says(Reason::ProtectedByBudget)).await;
    let said = message(&refused);
    assert!(
        said.contains(&format!("\"{}/keep\"", site.name())) && said.contains("/low\""),
        "{said}"
    );
    assert_eq!(uids(&site.whole("low", 2).await), before);
    let low = site.api::<TrainingJob>().get("low").await.unwrap();
    assert_eq!(counts(&low), (Some(1), Some(0), Some(0)));
    // Once it is gone the same is asked again.
    site.delete::<PodDisruptionBudget>("keep").await;
    let running = |job: &TrainingJob| {
        let phase = job.status.as_ref().and_then(|s| s.phase);
        phase == Some(JobPhase::Running)
    };
    wait_for(&site.api(), "high", ASKED_AGAIN, running)
        .await
        .unwrap();
    site.pods_become("low", 0).await;
}

#[tokio::test]
async fn a_queue_takes_back_what_it_lent() {
    let site = site("reclaim", 2).await;
    let quotas = |gpus: i64| {
        json!([{
            "coveredResources": ["cpu", "memory", "nvidia.com/gpu"],
            "flavors": [{"name": "default", "resources": [
                {"name": "cpu", "nominalQuota": 100},
                {"name": "memory", "nominalQuota": "100Gi"},
                {"name": "nvidia.com/gpu", "nominalQuota": gpus},
            ]}],
        }])
    };
    let parent = queue(&site, "all", json!({"resourceGroups": quotas(0)})).await;
    let child = |gpus| json!({"parentName": parent, "resourceGroups": quotas(gpus), "preemption": {"reclaimWithinCohort": "Any"}});
    let (lender, borrower) = (
        queue(&site, "lender", child(8)).await,
        queue(&site, "borrower", child(8)).await,
    );
    submit(&site, "first", 1, &borrower, None).await;
    runs(&site, "first").await;
    submit(&site, "second", 1, &borrower, None).await;
    runs(&site, "second").await;
    submit(&site, "own", 1, &lender, None).await;
    runs(&site, "own").await;
    // Both were equals; the newer has lost less.
    let gave = site.becomes("second", says(Reason::QuotaExceeded)).await;
    assert_eq!(counts(&gave), (Some(2), Some(0), Some(1)));
    let said = gave.status.unwrap().last_preemption.unwrap().message;
    assert!(said.contains("holds more than its quota"), "{said}");
    let first = site.api::<TrainingJob>().get("first").await.unwrap();
    assert_eq!(counts(&first), (Some(1), Some(0), Some(0)));
}

#[tokio::test]
async fn a_queue_that_is_drained_lets_go_of_all_and_takes_it_back() {
    let site = site("drain", 2).await;
    let name = queue(&site, "q", json!({})).await;
    submit(&site, "j", 2, &name, None).await;
    runs(&site, "j").await;
    let stop = async |policy: &str| {
        let queues: Api<TrainingQueue> = Api::all(shared().await.client());
        let patch = json!({"spec": {"stopPolicy": policy}});
        let params = PatchParams::default();
        let stopped = queues.patch(&name, &params, &Patch::Merge(&patch)).await;
        stopped.unwrap();
    };
    stop("HoldAndDrain").await;
    site.pods_become("j", 0).await;
    let waits = site.becomes("j", says(Reason::QueueStopped)).await;
    assert_eq!(counts(&waits), (Some(2), Some(0), Some(1)));
    let said = waits.status.unwrap().last_preemption.unwrap().message;
    assert!(said.contains("is being drained"), "{said}");
    stop("None").await;
    site.runs_again("j", 2).await;
}

#[tokio::test]
async fn who_was_told_to_leave_comes_back_if_the_other_is_gone() {
    let site = site("gone", 2).await;
    let (queue, class) = by_priority(&site).await;
    submit(&site, "low", 2, &queue, None).await;
    runs(&site, "low").await;
    site.stop_slowly("low", "15s").await;
    submit(&site, "high", 2, &queue, Some(&class)).await;
    site.becomes("high", says(Reason::Preempting)).await;
    site.becomes("low", says(Reason::Preempted)).await;
    site.delete::<TrainingJob>("high").await;
    let back = site.runs_again("low", 2).await;
    assert_eq!(counts(&back), (Some(2), Some(0), Some(1)));
    // Its own suspension gives the room up in the same way.
    submit(&site, "other", 2, &queue, Some(&class)).await;
    site.becomes("other", |s| s.attempt.is_some()).await;
    site.patch("other", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    site.reaches("other", JobPhase::Suspended).await;
    site.reaches("low", JobPhase::Running).await;
    site.whole("low", 2).await;
}

#[tokio::test]
async fn nobody_leaves_for_a_gang_that_admission_refuses() {
    let site = site("barred", 1).await;
    let (queue, class) = by_priority(&site).await;
    submit(&site, "low", 1, &queue, None).await;
    runs(&site, "low").await;
    let before = uids(&site.whole("low", 1).await);
    PodPolicy::refuse_unless(shared().await, site.name(), "false", "not today")
        .await
        .unwrap();
    submit(&site, "high", 1, &queue, Some(&class)).await;
    let refused = site.becomes("high", says(Reason::PodRefused)).await;
    assert!(message(&refused).contains("not today"));
    assert_eq!(uids(&site.whole("low", 1).await), before);
    let low = site.api::<TrainingJob>().get("low").await.unwrap();
    assert_eq!(counts(&low), (Some(1), Some(0), Some(0)));
}

/// A job that is suspended or deleted keeps its quota until its pods have stopped.
#[tokio::test]
async fn quota_is_free_when_the_last_pod_has_stopped_and_not_before() {
    let site = site("stops", 3).await;
    let queue = queue(
        &site,
        "q",
        json!({"resourceGroups": resource_groups(&[("default", 8)])}),
    )
    .await;
    let stop = json!({"spec": {"suspend": true}});
    submit(&site, "suspended", 1, &queue, None).await;
    runs(&site, "suspended").await;
    site.stop_slowly("suspended", "4s").await;
    submit(&site, "deleted", 1, &queue, None).await;
    let waits = site.becomes("deleted", says(Reason::QuotaExceeded)).await;
    assert!(message(&waits).contains("suspended"), "{}", message(&waits));
    site.patch("suspended", stop).await.unwrap();
    comes_after(&site, "deleted", "suspended").await;
    runs(&site, "deleted").await;
    site.stop_slowly("deleted", "4s").await;
    submit(&site, "last", 1, &queue, None).await;
    site.becomes("last", says(Reason::QuotaExceeded)).await;
    site.delete::<TrainingJob>("deleted").await;
    comes_after(&site, "last", "deleted").await;
    runs(&site, "last").await;
}

/// The first pod of a job comes, and then none of the other is there any more.
async fn comes_after(site: &Site, job: &str, other: &str) {
    while site.pods(job).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(site.pods(other).await.is_empty(), "{other} runs still");
}
