//! Preemption of whole gangs. No gang is preempted without need.

use std::time::Duration;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::{Reason, TrainingJob, TrainingQueue};
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message, pod_uids};
use trellis_e2e::site::queues::resource_groups;
use trellis_e2e::wait::wait_for;

use crate::{create_site, shared_control_plane};

/// The operator retries the eviction of a protected victim after a minute.
const EVICTION_RETRY_TIMEOUT: Duration = Duration::from_secs(150);

/// Creates a queue for the site.
async fn create_queue(site: &TestSite, name: &str, mut spec: Value) -> String {
    let name = format!("{}-{name}", site.name());
    spec["namespaceSelector"] = json!({});
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": name}, "spec": spec,
    });
    let control_plane = shared_control_plane().await;
    control_plane.apply_yaml(&queue.to_string()).await.unwrap();
    name
}

/// A queue in which priority preempts, and the PriorityClass of the preemptor.
pub(crate) async fn create_priority_queue(site: &TestSite) -> (String, String) {
    let preemption = json!({"preemption": {"withinClusterQueue": "LowerPriority"}});
    (
        create_queue(site, "q", preemption).await,
        create_high_class(site).await,
    )
}

/// A queue without preemption, and a PriorityClass with a higher value.
pub(crate) async fn create_ordered_queue(site: &TestSite) -> (String, String) {
    (
        create_queue(site, "q", json!({})).await,
        create_high_class(site).await,
    )
}

async fn create_high_class(site: &TestSite) -> String {
    let class = format!("{}-high", site.name());
    let priority = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": class}, "value": 1000,
    });
    let control_plane = shared_control_plane().await;
    control_plane
        .apply_yaml(&priority.to_string())
        .await
        .unwrap();
    class
}

/// Submits a job of `nodes` nodes in a queue and with a PriorityClass.
pub(crate) async fn submit_to_queue(
    site: &TestSite,
    name: &str,
    nodes: u32,
    queue: &str,
    class: Option<&str>,
) {
    let mut job = site.job(name, nodes, 8);
    job["spec"]["queueName"] = json!(queue);
    if let Some(class) = class {
        job["spec"]["priorityClassName"] = json!(class);
    }
    site.create(job).await.unwrap();
}

/// Waits until the job runs in its first attempt.
pub(crate) async fn wait_for_first_attempt(site: &TestSite, name: &str) {
    site.wait_for_running_attempt(name, 1).await;
}

pub(crate) fn has_reason(reason: Reason) -> impl Fn(&TrainingJobStatus) -> bool {
    move |status| status.reason == Some(reason)
}

fn attempt_counts(job: &TrainingJob) -> (Option<i64>, Option<i64>, Option<i64>) {
    let status = job.status.clone().unwrap_or_default();
    (status.attempt, status.restarts, status.disruptions)
}

#[tokio::test]
async fn queue_takes_its_fair_share_and_loses_none_of_it_again() {
    let site = create_site("fair-share", 2).await;
    let lab = create_queue(&site, "lab", json!({})).await;
    let fair = json!({"parentName": lab, "preemption": {"fairShare": "LowerOrEqualPriority"}});
    let vision = create_queue(&site, "vision", fair.clone()).await;
    let speech = create_queue(&site, "speech", fair).await;
    submit_to_queue(&site, "large", 2, &vision, None).await;
    wait_for_first_attempt(&site, "large").await;
    submit_to_queue(&site, "small", 1, &speech, None).await;
    let victim = site
        .wait_for_status("large", has_reason(Reason::Preempted))
        .await;
    let expected = format!(
        "\"{}/small\" of queue {speech:?} with priority 0: its own queue has the larger share of borrowed quota",
        site.name()
    );
    let status_message = message(&victim);
    assert!(status_message.contains(&expected), "{status_message}");
    wait_for_first_attempt(&site, "small").await;
    // With both nodes, vision would have the larger share again.
    let pending = site
        .wait_for_status("large", has_reason(Reason::InsufficientCapacity))
        .await;
    assert_eq!(attempt_counts(&pending), (Some(2), Some(0), Some(1)));
    let queues: Api<TrainingQueue> = Api::all(shared_control_plane().await.client());
    wait_for(&queues, &speech, SOON, |queue: &TrainingQueue| {
        let share = queue
            .status
            .as_ref()
            .and_then(|s| s.borrowed_share.as_deref());
        share.is_some_and(|share| share != "0.000")
    })
    .await
    .unwrap();
    site.delete::<TrainingJob>("small").await;
    site.wait_for_running_attempt("large", 2).await;
}

#[tokio::test]
async fn job_of_higher_priority_preempts_a_whole_gang() {
    let site = create_site("preempt", 2).await;
    let (queue, class) = create_priority_queue(&site).await;
    submit_to_queue(&site, "low", 2, &queue, None).await;
    wait_for_first_attempt(&site, "low").await;
    site.delay_pod_stop("low", "15s").await;
    // The preemptor needs one node, but its victim releases both.
    submit_to_queue(&site, "high", 1, &queue, Some(&class)).await;
    let follows = site
        .wait_for_status("high", has_reason(Reason::Preempting))
        .await;
    let status_message = message(&follows);
    assert!(
        status_message.contains(&format!("\"{}/low\"", site.name()))
            && status_message.contains("1 node"),
        "{status_message}"
    );
    let victim = site
        .wait_for_status("low", has_reason(Reason::Preempted))
        .await;
    let status_message = message(&victim);
    let expected = format!(
        "\"{}/high\" of queue {queue:?} with priority 1000",
        site.name()
    );
    assert!(status_message.contains(&expected), "{status_message}");
    assert!(
        site.list_pods("high").await.is_empty(),
        "the GPUs are not free yet"
    );
    wait_for_first_attempt(&site, "high").await;
    site.wait_for_pod_count("low", 0).await;
    let pending = site
        .wait_for_status("low", has_reason(Reason::InsufficientCapacity))
        .await;
    assert_eq!(attempt_counts(&pending), (Some(2), Some(0), Some(1)));
    let status = pending.status.unwrap();
    assert_eq!(status.phase, Some(JobPhase::Queued));
    assert_eq!(
        status.last_preemption.map(|last| last.attempt),
        Some(1),
        "the status must keep the last preemption"
    );
    site.delete::<TrainingJob>("high").await;
    let back = site.wait_for_running_attempt("low", 2).await;
    assert_eq!(attempt_counts(&back), (Some(2), Some(0), Some(1)));
    site.wait_for_whole_gang("low", 2).await;
}

#[tokio::test]
async fn disruption_budget_protects_the_victim_and_the_preemptor_reports_it() {
    let site = create_site("budget", 2).await;
    let (queue, class) = create_priority_queue(&site).await;
    submit_to_queue(&site, "low", 2, &queue, None).await;
    wait_for_first_attempt(&site, "low").await;
    let before = pod_uids(&site.wait_for_whole_gang("low", 2).await);
    // The budget allows each pod to go alone, but not both.
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": site.name()},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"trellis.dev/job": "low"}}},
    });
    let control_plane = shared_control_plane().await;
    control_plane.apply_yaml(&budget.to_string()).await.unwrap();
    let budgets = site.api::<PodDisruptionBudget>();
    wait_for(&budgets, "keep", SOON, |b: &PodDisruptionBudget| {
        let allowed = b.status.as_ref().and_then(|s| s.disruptions_allowed);
        allowed == Some(1)
    })
    .await
    .unwrap();
    submit_to_queue(&site, "high", 2, &queue, Some(&class)).await;
    let refused = site
        .wait_for_status("high", has_reason(Reason::ProtectedByBudget))
        .await;
    let status_message = message(&refused);
    assert!(
        status_message.contains(&format!("\"{}/keep\"", site.name()))
            && status_message.contains("/low\""),
        "{status_message}"
    );
    assert_eq!(pod_uids(&site.wait_for_whole_gang("low", 2).await), before);
    let low = site.api::<TrainingJob>().get("low").await.unwrap();
    assert_eq!(attempt_counts(&low), (Some(1), Some(0), Some(0)));
    // After the budget is deleted, the operator tries the same eviction again.
    site.delete::<PodDisruptionBudget>("keep").await;
    let running = |job: &TrainingJob| {
        let phase = job.status.as_ref().and_then(|s| s.phase);
        phase == Some(JobPhase::Running)
    };
    wait_for(&site.api(), "high", EVICTION_RETRY_TIMEOUT, running)
        .await
        .unwrap();
    site.wait_for_pod_count("low", 0).await;
}

#[tokio::test]
async fn queue_reclaims_lent_quota() {
    let site = create_site("reclaim", 2).await;
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
    let parent = create_queue(&site, "all", json!({"resourceGroups": quotas(0)})).await;
    let child = |gpus| json!({"parentName": parent, "resourceGroups": quotas(gpus), "preemption": {"reclaimWithinCohort": "Any"}});
    let (lender, borrower) = (
        create_queue(&site, "lender", child(8)).await,
        create_queue(&site, "borrower", child(8)).await,
    );
    submit_to_queue(&site, "first", 1, &borrower, None).await;
    wait_for_first_attempt(&site, "first").await;
    submit_to_queue(&site, "second", 1, &borrower, None).await;
    wait_for_first_attempt(&site, "second").await;
    submit_to_queue(&site, "own", 1, &lender, None).await;
    wait_for_first_attempt(&site, "own").await;
    // Both candidates were equal, and the newer one has lost less work.
    let gave = site
        .wait_for_status("second", has_reason(Reason::QuotaExceeded))
        .await;
    assert_eq!(attempt_counts(&gave), (Some(2), Some(0), Some(1)));
    let preemption_message = gave.status.unwrap().last_preemption.unwrap().message;
    assert!(
        preemption_message.contains("holds more than its quota"),
        "{preemption_message}"
    );
    let first = site.api::<TrainingJob>().get("first").await.unwrap();
    assert_eq!(attempt_counts(&first), (Some(1), Some(0), Some(0)));
}

#[tokio::test]
async fn drained_queue_evicts_its_gangs_and_resumes_them() {
    let site = create_site("drain", 2).await;
    let name = create_queue(&site, "q", json!({})).await;
    submit_to_queue(&site, "j", 2, &name, None).await;
    wait_for_first_attempt(&site, "j").await;
    let stop = async |policy: &str| {
        let queues: Api<TrainingQueue> = Api::all(shared_control_plane().await.client());
        let patch = json!({"spec": {"stopPolicy": policy}});
        let params = PatchParams::default();
        let stopped = queues.patch(&name, &params, &Patch::Merge(&patch)).await;
        stopped.unwrap();
    };
    stop("HoldAndDrain").await;
    site.wait_for_pod_count("j", 0).await;
    let pending = site
        .wait_for_status("j", has_reason(Reason::QueueStopped))
        .await;
    assert_eq!(attempt_counts(&pending), (Some(2), Some(0), Some(1)));
    let preemption_message = pending.status.unwrap().last_preemption.unwrap().message;
    assert!(
        preemption_message.contains("is being drained"),
        "{preemption_message}"
    );
    stop("None").await;
    site.wait_for_running_attempt("j", 2).await;
}

#[tokio::test]
async fn victim_returns_when_its_preemptor_is_deleted() {
    let site = create_site("gone", 2).await;
    let (queue, class) = create_priority_queue(&site).await;
    submit_to_queue(&site, "low", 2, &queue, None).await;
    wait_for_first_attempt(&site, "low").await;
    site.delay_pod_stop("low", "15s").await;
    submit_to_queue(&site, "high", 2, &queue, Some(&class)).await;
    site.wait_for_status("high", has_reason(Reason::Preempting))
        .await;
    site.wait_for_status("low", has_reason(Reason::Preempted))
        .await;
    site.delete::<TrainingJob>("high").await;
    let back = site.wait_for_running_attempt("low", 2).await;
    assert_eq!(attempt_counts(&back), (Some(2), Some(0), Some(1)));
    // A suspension by the user releases the GPUs in the same way.
    submit_to_queue(&site, "other", 2, &queue, Some(&class)).await;
    site.wait_for_status("other", |s| s.attempt.is_some()).await;
    site.patch("other", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    site.wait_for_phase("other", JobPhase::Suspended).await;
    site.wait_for_phase("low", JobPhase::Running).await;
    site.wait_for_whole_gang("low", 2).await;
}

#[tokio::test]
async fn gang_refused_by_admission_preempts_no_gang() {
    let site = create_site("barred", 1).await;
    let (queue, class) = create_priority_queue(&site).await;
    submit_to_queue(&site, "low", 1, &queue, None).await;
    wait_for_first_attempt(&site, "low").await;
    let before = pod_uids(&site.wait_for_whole_gang("low", 1).await);
    PodPolicy::refuse_unless(
        shared_control_plane().await,
        site.name(),
        "false",
        "not today",
    )
    .await
    .unwrap();
    submit_to_queue(&site, "high", 1, &queue, Some(&class)).await;
    let refused = site
        .wait_for_status("high", has_reason(Reason::PodRefused))
        .await;
    assert!(message(&refused).contains("not today"));
    assert_eq!(pod_uids(&site.wait_for_whole_gang("low", 1).await), before);
    let low = site.api::<TrainingJob>().get("low").await.unwrap();
    assert_eq!(attempt_counts(&low), (Some(1), Some(0), Some(0)));
}

/// A job that is suspended or deleted keeps its quota until its pods have stopped.
#[tokio::test]
async fn quota_is_released_when_the_last_pod_has_stopped() {
    let site = create_site("stops", 3).await;
    let queue = create_queue(
        &site,
        "q",
        json!({"resourceGroups": resource_groups(&[("default", 8)])}),
    )
    .await;
    let stop = json!({"spec": {"suspend": true}});
    submit_to_queue(&site, "suspended", 1, &queue, None).await;
    wait_for_first_attempt(&site, "suspended").await;
    site.delay_pod_stop("suspended", "4s").await;
    submit_to_queue(&site, "deleted", 1, &queue, None).await;
    let pending = site
        .wait_for_status("deleted", has_reason(Reason::QuotaExceeded))
        .await;
    assert!(
        message(&pending).contains("suspended"),
        "{}",
        message(&pending)
    );
    site.patch("suspended", stop).await.unwrap();
    check_starts_after_end_of(&site, "deleted", "suspended").await;
    wait_for_first_attempt(&site, "deleted").await;
    site.delay_pod_stop("deleted", "4s").await;
    submit_to_queue(&site, "last", 1, &queue, None).await;
    site.wait_for_status("last", has_reason(Reason::QuotaExceeded))
        .await;
    site.delete::<TrainingJob>("deleted").await;
    check_starts_after_end_of(&site, "last", "deleted").await;
    wait_for_first_attempt(&site, "last").await;
}

/// Checks that no pod of `other` exists when the first pod of `job` exists.
async fn check_starts_after_end_of(site: &TestSite, job: &str, other: &str) {
    while site.list_pods(job).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        site.list_pods(other).await.is_empty(),
        "pods of {other} still exist"
    );
}
