//! The watch of policies is late. A job that was applied after a policy is placed only after this
//! policy has judged it.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{Request, Verb};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message, reason};
use trellis_e2e::wait::eventually;

use crate::fixtures::{
    FORBID_NO_IMAGE, apply_policy, cluster_policy_for, policy_decision, wait_until_active,
};
use crate::operator_program;

fn is_policy_request(request: &Request) -> bool {
    request.resource == "clusterjobpolicies.trellis.dev"
}

fn is_quota_policy_request(request: &Request) -> bool {
    request.resource == "quotapolicies.trellis.dev"
}

/// Applies a policy and a job while the watch of the policy's kind stalls for this time.
async fn check_refused_behind_late_watch(
    (is_delayed_request, delay): (fn(&Request) -> bool, Duration),
    policy: impl Fn(&TestSite) -> serde_json::Value,
    refusal: &str,
) {
    let control_plane = operator::start_control_plane().await.unwrap();
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let (_operator, proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();
    let site = TestSite::new(&control_plane, "stale", NodeTemplate::new(1).gpus(8)).await;
    wait_until_active(&control_plane, "starter").await;
    // An earlier job is placed without delay.
    site.submit("before", 1, 1).await;
    site.wait_for_phase("before", JobPhase::Running).await;

    proxy.stall_watches(is_delayed_request);
    apply_policy(&control_plane, &policy(&site)).await;
    let created_pods = proxy.counts().count_of(Verb::Create, "pods");
    site.submit("j", 1, 1).await;
    let pending = eventually(SOON, || async {
        let job: TrainingJob = site.api().get("j").await?;
        ensure!(reason(&job) == "CacheNotReady", "{:?}", job.status);
        Ok(job)
    });
    let pending = pending.await.unwrap();
    let words = "and the watch has not shown it yet";
    assert!(message(&pending).contains(words), "{}", message(&pending));
    tokio::time::sleep(delay).await;
    assert_eq!(proxy.counts().count_of(Verb::Create, "pods"), created_pods);

    proxy.resume_watches();
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), refusal);
    assert_eq!(proxy.counts().count_of(Verb::Create, "pods"), created_pods);
    if refusal == "PolicyDenied" {
        assert_eq!(policy_decision(&refused), Some(PolicyDecision::Denied));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_waits_for_a_policy_that_was_applied_before_it() {
    let policy = |site: &TestSite| cluster_policy_for(site, FORBID_NO_IMAGE, json!({}));
    let late_kind = (
        is_policy_request as fn(&Request) -> bool,
        Duration::from_secs(60),
    );
    check_refused_behind_late_watch(late_kind, policy, "PolicyDenied").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_waits_for_a_quota_policy_that_was_applied_before_it() {
    let policy = |site: &TestSite| {
        let labels = json!({"kubernetes.io/metadata.name": site.name()});
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
            "metadata": {"name": site.name()},
            "spec": {"subject": {"namespaceSelector": {"matchLabels": labels}},
                "limits": {"podsPerJob": 0, "gpusPerJob": 0}},
        })
    };
    let late_kind = (
        is_quota_policy_request as fn(&Request) -> bool,
        Duration::from_secs(5),
    );
    check_refused_behind_late_watch(late_kind, policy, "QuotaPolicyExceeded").await;
}
