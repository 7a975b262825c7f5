//! An operator that has not read all policies neither allows nor refuses jobs.

use std::time::Duration;

use serde_json::json;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_api::{ClusterJobPolicy, TrainingJob};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{Proxy, ProxyFault, Verb};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{message, phase, pod_uids, reason};

use crate::fixtures::{
    FORBID_NO_IMAGE, apply_policy, cluster_policy_for, create_job, delete_policy, namespace_policy,
    policy_decision, policy_verdict, wait_until_active,
};
use crate::operator_program;

#[tokio::test]
async fn unread_policies_neither_allow_nor_refuse_jobs() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let proxy = Proxy::start(&control_plane).await.unwrap();
    let site = TestSite::new(&control_plane, "unread", NodeTemplate::new(1).gpus(8)).await;
    apply_policy(
        &control_plane,
        &namespace_policy(&site, "own", FORBID_NO_IMAGE),
    )
    .await;
    // The operator has read the permits of the cluster, but not the forbid of the namespace.
    proxy.on_request(|request| {
        let hidden = request.resource == "jobpolicies.trellis.dev";
        match request.verb {
            Verb::List | Verb::Watch if hidden => ProxyFault::internal_error(),
            _ => ProxyFault::Pass,
        }
    });
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let _operator =
        Operator::start_behind_proxy(&control_plane, operator_program(), &proxy, &launch)
            .await
            .unwrap();
    create_job(&site, site.job("j", 1, 8)).await;
    let pending = site.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&pending), "CacheNotReady");
    assert_eq!(message(&pending), "the policies have not been read yet");
    assert_eq!(policy_decision(&pending), Some(PolicyDecision::Undecided));
    assert_eq!(site.list_pods("j").await.len(), 0);
    proxy.remove_faults();
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    assert_eq!(site.list_pods("j").await.len(), 0);
}

/// This also holds without the starter set.
#[tokio::test]
async fn no_job_is_allowed_without_policies() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let _operator = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let site = TestSite::new(&control_plane, "bare", NodeTemplate::new(1).gpus(8)).await;
    wait_until_active(&control_plane, "starter").await;
    let api: kube::Api<ClusterJobPolicy> = kube::Api::all(control_plane.client());
    let starter = api.get("starter").await.unwrap();
    delete_policy(&control_plane, "starter").await;
    // The operator has listed and loaded the policies.
    tokio::time::sleep(Duration::from_secs(2)).await;
    create_job(&site, site.job("j", 1, 8)).await;
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    assert!(
        message(&refused).contains("which no policy permits"),
        "{}",
        message(&refused)
    );
    let missing = policy_verdict(&refused).missing_permits;
    let is_missing = |action: &str| missing.iter().any(|permit| permit.contains(action));
    for action in ["Submit", "UseQueue", "UseImage", "UsePrivilege"] {
        assert!(
            is_missing(&format!("\"{action}\"")),
            "{action}: {missing:?}"
        );
    }
    assert_eq!(site.list_pods("j").await.len(), 0);
    // A plan shows the same result.
    let input = site.job("j", 1, 8).to_string();
    let file = control_plane.folder().join("job.json");
    std::fs::write(&file, input).unwrap();
    let plan = tokio::process::Command::new(operator_program())
        .args(["plan", "-n", site.name(), "--kubeconfig"])
        .arg(control_plane.kubeconfig())
        .arg("-f")
        .arg(&file)
        .output()
        .await
        .unwrap();
    let stdout = String::from_utf8_lossy(&plan.stdout);
    assert_eq!(plan.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("PolicyDenied"), "{stdout}");
    assert!(stdout.contains(&message(&refused)), "{stdout}");
    apply_policy(
        &control_plane,
        &json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
            "metadata": {"name": "starter"}, "spec": starter.spec,
        }),
    )
    .await;
    site.wait_for_phase("j", JobPhase::Running).await;
}

#[tokio::test]
async fn policies_apply_throughout_a_restart() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut operator = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let site = TestSite::new(&control_plane, "again", NodeTemplate::new(2).gpus(8)).await;
    // Jobs with the label are refused.
    let text = "@id(\"no\") forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                when { context.job.hasTag(\"refused\") };";
    apply_policy(&control_plane, &cluster_policy_for(&site, text, json!({}))).await;
    wait_until_active(&control_plane, site.name()).await;
    let bad = |name: &str| {
        let mut job = site.job(name, 1, 8);
        job["metadata"]["labels"] = json!({"refused": "yes"});
        job
    };
    site.submit("runs", 1, 8).await;
    create_job(&site, bad("bad")).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let refused = site.wait_for_phase("bad", JobPhase::Refused).await;
    let before = pod_uids(&site.list_pods("runs").await);
    operator.kill().unwrap();
    create_job(&site, bad("bad-later")).await;
    site.submit("good-later", 1, 8).await;
    operator::release_lease(&control_plane).await.unwrap();
    let _operator = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    site.wait_for_phase("good-later", JobPhase::Running).await;
    let later = site.wait_for_phase("bad-later", JobPhase::Refused).await;
    assert_eq!(reason(&later), "PolicyDenied");
    // The conditions have not changed in between: the job passed through no other state.
    let conditions = |job: &TrainingJob| job.status.clone().unwrap().conditions;
    let now = site.api::<TrainingJob>().get("bad").await.unwrap();
    assert_eq!(conditions(&now), conditions(&refused));
    let first = |job: &TrainingJob| {
        let all = conditions(job);
        let times: std::collections::BTreeSet<_> =
            all.iter().map(|c| c.last_transition_time.0).collect();
        times.len()
    };
    assert_eq!(first(&later), 1, "the state of the job has changed");
    let running = site.api::<TrainingJob>().get("runs").await.unwrap();
    assert_eq!(phase(&running), Some(JobPhase::Running));
    assert_eq!(pod_uids(&site.list_pods("runs").await), before);
    for name in ["bad", "bad-later"] {
        assert_eq!(site.list_pods(name).await.len(), 0);
    }
}
