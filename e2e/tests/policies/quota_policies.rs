//! QuotaPolicies: the limits of a subject's jobs, and the jobs that exceed them.

pub(super) mod gpu_hours;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::quota_policy::QuotaPolicyStatus;
use trellis_api::{QuotaPolicy, Reason};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message, phase, reason};
use trellis_e2e::site::pod_history::PodHistory;
use trellis_e2e::wait::wait_for;

use super::fixtures::create_job;
use super::{create_site, operator_program, shared_control_plane};

/// Creates a policy with the name of the site that only limits the site's jobs.
async fn apply_limit(
    control_plane: &ControlPlane,
    site: &TestSite,
    limits: Value,
    enforcement: &str,
) {
    write_policy(control_plane, site, limits, enforcement).await;
    wait_for_policy_status(control_plane, site, |_| true).await;
}

/// Returns such a policy for a control plane without an operator.
pub(super) async fn write_policy(
    control_plane: &ControlPlane,
    site: &TestSite,
    limits: Value,
    enforcement: &str,
) {
    let labels = json!({"kubernetes.io/metadata.name": site.name()});
    let policy = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
        "metadata": {"name": site.name()},
        "spec": {
            "subject": {"namespaceSelector": {"matchLabels": labels}},
            "limits": limits, "enforcement": enforcement,
        },
    });
    control_plane.apply_yaml(&policy.to_string()).await.unwrap();
}

pub(super) async fn change_limits(control_plane: &ControlPlane, site: &TestSite, limits: Value) {
    let api: Api<QuotaPolicy> = Api::all(control_plane.client());
    let patch = Patch::Merge(json!({"spec": {"limits": limits}}));
    api.patch(site.name(), &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Waits until the status of the site's policy satisfies the condition.
pub(super) async fn wait_for_policy_status(
    control_plane: &ControlPlane,
    site: &TestSite,
    condition: impl Fn(&QuotaPolicyStatus) -> bool,
) -> QuotaPolicyStatus {
    let api: Api<QuotaPolicy> = Api::all(control_plane.client());
    let reached = wait_for(&api, site.name(), SOON, |policy: &QuotaPolicy| {
        let status = policy.status.as_ref();
        let status = status.filter(|s| s.observed_generation == policy.metadata.generation);
        status.is_some_and(&condition)
    });
    reached.await.unwrap().status.unwrap()
}

/// Returns usage and maximum of each limit.
pub(super) fn limit_usage(status: &QuotaPolicyStatus) -> Vec<(String, String, String)> {
    let uses = status.holders.iter().flat_map(|holder| &holder.uses);
    uses.map(|u| {
        let (used, max) = (u.used.as_str(), u.max.as_str());
        (u.limit.clone(), used.to_owned(), max.to_owned())
    })
    .collect()
}

fn single_usage(limit: &str, used: &str, max: &str) -> Vec<(String, String, String)> {
    vec![(limit.to_owned(), used.to_owned(), max.to_owned())]
}

#[tokio::test]
async fn jobs_within_a_limit_run_and_the_rest_wait() {
    let (control_plane, site) = (shared_control_plane().await, create_site("limit", 4).await);
    let gpus = |max: u32| json!({"resources": [{"resource": "nvidia.com/gpu", "max": max}]});
    apply_limit(control_plane, &site, gpus(16), "Queue").await;
    for job in ["a", "b"] {
        site.submit(job, 1, 8).await;
        site.wait_for_phase(job, JobPhase::Running).await;
    }
    site.submit("c", 1, 8).await;
    let pending = site
        .wait_until_queued_for("c", Reason::QuotaPolicyExceeded)
        .await;
    let status_message = message(&pending);
    let expected = format!(
        "quota policy {:?}, nvidia.com/gpu: needs 8, 16 of 16 are held: 8 are missing; held by 2 \
         gangs (",
        site.name()
    );
    assert!(status_message.starts_with(&expected), "{status_message}");
    let full = wait_for_policy_status(control_plane, &site, |s| s.full_count == Some(1)).await;
    assert_eq!(
        limit_usage(&full),
        single_usage("nvidia.com/gpu", "16", "16")
    );
    // A job that asks for more than the limit can never run.
    site.submit("large", 3, 8).await;
    let refused = site.wait_for_phase("large", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "QuotaPolicyExceeded");
    let status_message = message(&refused);
    assert!(
        status_message.contains("the job asks for 24 nvidia.com/gpu, of which 16 may be held"),
        "{status_message}"
    );
    // A raised limit admits pending jobs. A lowered limit stops no running job.
    change_limits(control_plane, &site, gpus(24)).await;
    site.wait_for_phase("c", JobPhase::Running).await;
    change_limits(control_plane, &site, gpus(8)).await;
    let full = wait_for_policy_status(control_plane, &site, |s| {
        limit_usage(s) == single_usage("nvidia.com/gpu", "24", "8")
    });
    full.await;
    site.submit("d", 1, 8).await;
    let pending = site
        .wait_until_queued_for("d", Reason::QuotaPolicyExceeded)
        .await;
    assert!(
        message(&pending).contains("24 of 8 are held"),
        "{pending:?}"
    );
    for job in ["a", "b", "c"] {
        assert_eq!(site.list_pods(job).await.len(), 1);
        site.delete::<trellis_api::TrainingJob>(job).await;
    }
    site.wait_for_phase("d", JobPhase::Running).await;
}

#[tokio::test]
async fn ten_of_a_hundred_jobs_run_under_a_limit_of_ten() {
    let (control_plane, site) = (shared_control_plane().await, create_site("many", 8).await);
    apply_limit(control_plane, &site, json!({"runningJobs": 10}), "Queue").await;
    let history = PodHistory::record(site.api::<Pod>());
    let names: Vec<String> = (0..100).map(|n| format!("j{n:03}")).collect();
    join_all(names.iter().map(|name| site.submit(name, 1, 1))).await;
    let all = |s: &QuotaPolicyStatus| limit_usage(s) == single_usage("runningJobs", "10", "10");
    wait_for_policy_status(control_plane, &site, all).await;
    for name in &names {
        // The operator has decided about each job.
        site.wait_for_status(
            name,
            |s| matches!(s.phase, Some(p) if p != JobPhase::Waiting),
        )
        .await;
    }
    assert_eq!(
        history.uids_by_name().len(),
        10,
        "{:?}",
        history.uids_by_name()
    );
}

#[tokio::test]
async fn deny_policy_refuses_jobs_over_running_and_queued_limits() {
    let (control_plane, site) = (shared_control_plane().await, create_site("deny", 1).await);
    apply_limit(control_plane, &site, json!({"runningJobs": 1}), "Deny").await;
    site.submit("a", 1, 1).await;
    site.wait_for_phase("a", JobPhase::Running).await;
    site.submit("b", 1, 1).await;
    let refused = site.wait_for_phase("b", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "QuotaPolicyExceeded");
    let conditions = refused.status.unwrap().conditions;
    let accepted = conditions.iter().find(|c| c.type_ == "Accepted").unwrap();
    assert_eq!(accepted.status, "False");
    change_limits(
        control_plane,
        &site,
        json!({"runningJobs": 0, "queuedJobs": 1}),
    )
    .await;
    site.delete::<trellis_api::TrainingJob>("a").await;
    site.submit("c", 1, 1).await;
    let refused = site
        .wait_for_status("c", |s| {
            let status_message = s.full_message();
            status_message.contains("queuedJobs: 1 waits already, and 1 may")
        })
        .await;
    assert_eq!(phase(&refused), Some(JobPhase::Refused));
    change_limits(
        control_plane,
        &site,
        json!({"runningJobs": 2, "queuedJobs": 1}),
    )
    .await;
    for job in ["b", "c"] {
        site.wait_for_phase(job, JobPhase::Running).await;
    }
}

/// The job's queue is deleted, and the new leader does not know the compiled job. A policy that is
/// newer than the job still counts its usage.
#[tokio::test]
async fn running_job_that_cannot_compile_is_charged_to_current_policies() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut first = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let site = TestSite::new(&control_plane, "kept", NodeTemplate::new(1).gpus(8)).await;
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": site.name()}, "spec": {"namespaceSelector": {}},
    });
    control_plane.apply_yaml(&queue.to_string()).await.unwrap();
    let mut job = site.job("a", 1, 4);
    job["spec"]["queueName"] = json!(site.name());
    create_job(&site, job).await;
    site.wait_for_phase("a", JobPhase::Running).await;
    first.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let queues: Api<trellis_api::TrainingQueue> = Api::all(control_plane.client());
    queues
        .delete(site.name(), &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let _second = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let gpus = json!({"resources": [{"resource": "nvidia.com/gpu", "max": 4}]});
    apply_limit(&control_plane, &site, gpus, "Queue").await;
    wait_for_policy_status(&control_plane, &site, |s| {
        limit_usage(s) == single_usage("nvidia.com/gpu", "4", "4")
    })
    .await;
    // Another queue has free quota, but the limit is reached.
    site.submit("b", 1, 1).await;
    let pending = site
        .wait_until_queued_for("b", Reason::QuotaPolicyExceeded)
        .await;
    assert!(message(&pending).contains("4 of 4 are held"), "{pending:?}");
}

#[tokio::test]
async fn policy_usage_agrees_with_its_recount() {
    let (control_plane, site) = (
        shared_control_plane().await,
        create_site("recount", 2).await,
    );
    let cpu = json!({"resource": "cpu", "max": "500"});
    let gpu = json!({"resource": "nvidia.com/gpu", "flavor": "default", "max": 8});
    let limits = json!({"resources": [cpu, gpu], "runningJobs": 3, "queuedJobs": 5});
    apply_limit(control_plane, &site, limits, "Queue").await;
    // One job ends, one is suspended and resumed, and one waits. They are created one after the
    // other, because jobs of the same second have no order.
    for (job, phase) in [
        ("a", JobPhase::Running),
        ("b", JobPhase::Running),
        ("c", JobPhase::Queued),
    ] {
        site.submit(job, 2, 2).await;
        site.wait_for_phase(job, phase).await;
    }
    let suspend = |on: bool| json!({"spec": {"suspend": on}});
    site.patch("a", suspend(true)).await.unwrap();
    site.wait_for_phase("c", JobPhase::Running).await;
    site.patch("a", suspend(false)).await.unwrap();
    site.wait_for_phase("a", JobPhase::Queued).await;
    site.delete::<trellis_api::TrainingJob>("b").await;
    site.wait_for_phase("a", JobPhase::Running).await;
    // Longer than the operator takes to report a mismatch.
    tokio::time::sleep(std::time::Duration::from_secs(15)).await;
    let status = wait_for_policy_status(control_plane, &site, |_| true).await;
    let degraded = status.conditions.iter().find(|c| c.type_ == "Degraded");
    assert_eq!(
        degraded.map(|c| c.status.as_str()),
        Some("False"),
        "{status:?}"
    );
    let log = operator::shared_operator().unwrap().read_log().unwrap();
    assert!(!log.contains("differs from a recount"), "{log}");
}
