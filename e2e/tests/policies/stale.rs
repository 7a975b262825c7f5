//! The watch of policies is late. A job that was applied after a policy is not placed before the
//! policy decides about it.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::{SOON, message, reason};
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::{Request, Verb};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::program;
use super::scene::{NO_IMAGE, about, active, apply, decision};

fn policies(request: &Request) -> bool {
    request.resource == "clusterjobpolicies.trellis.dev"
}

fn quota_policies(request: &Request) -> bool {
    request.resource == "quotapolicies.trellis.dev"
}

/// Applies a policy and a job while the watch of the policy's kind shows nothing for so long.
async fn is_refused_though_the_watch_is_late(
    (which, late): (fn(&Request) -> bool, Duration),
    policy: impl Fn(&Site) -> serde_json::Value,
    refusal: &str,
) {
    let control_plane = operator::control_plane().await.unwrap();
    let launch = Launch::named("operator").lease_seconds(60);
    let (_operator, proxy) = Operator::behind_proxy(&control_plane, program(), &launch)
        .await
        .unwrap();
    let site = Site::new(&control_plane, "stale", Nodes::new(1).gpus(8)).await;
    active(&control_plane, "starter").await;
    // Nothing keeps a job of before from its place.
    site.submit("before", 1, 1).await;
    site.reaches("before", JobPhase::Running).await;

    proxy.stall_watches(which);
    apply(&control_plane, &policy(&site)).await;
    let made = proxy.counts().of(Verb::Create, "pods");
    site.submit("j", 1, 1).await;
    let waits = eventually(SOON, || async {
        let job: TrainingJob = site.api().get("j").await?;
        ensure!(reason(&job) == "CacheNotReady", "{:?}", job.status);
        Ok(job)
    });
    let waits = waits.await.unwrap();
    let words = "and the watch has not shown it yet";
    assert!(message(&waits).contains(words), "{}", message(&waits));
    tokio::time::sleep(late).await;
    assert_eq!(proxy.counts().of(Verb::Create, "pods"), made);

    proxy.resume_watches();
    let refused = site.reaches("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), refusal);
    assert_eq!(proxy.counts().of(Verb::Create, "pods"), made);
    if refusal == "PolicyDenied" {
        assert_eq!(decision(&refused), Some(PolicyDecision::Denied));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_waits_for_a_policy_that_was_applied_before_it() {
    let policy = |site: &Site| about(site, NO_IMAGE, json!({}));
    let late = (policies as fn(&Request) -> bool, Duration::from_secs(60));
    is_refused_though_the_watch_is_late(late, policy, "PolicyDenied").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_waits_for_a_quota_policy_that_was_applied_before_it() {
    let policy = |site: &Site| {
        let labels = json!({"kubernetes.io/metadata.name": site.name()});
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
            "metadata": {"name": site.name()},
            "spec": {"subject": {"namespaceSelector": {"matchLabels": labels}},
                "limits": {"podsPerJob": 0, "gpusPerJob": 0}},
        })
    };
    let late = (
        quota_policies as fn(&Request) -> bool,
        Duration::from_secs(5),
    );
    is_refused_though_the_watch_is_late(late, policy, "QuotaPolicyExceeded").await;
}
