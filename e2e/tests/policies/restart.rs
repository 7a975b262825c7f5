//! An operator that has not read all policies allows nothing and refuses nothing.

use std::time::Duration;

use serde_json::json;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_api::{ClusterJobPolicy, TrainingJob};
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::{message, phase, reason, uids};
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::{Fault, Proxy, Verb};
use trellis_e2e::site::Site;

use super::program;
use super::scene::{NO_IMAGE, about, active, apply, create, decision, delete, own, policy};

#[tokio::test]
async fn what_cannot_be_read_yet_allows_nothing_and_refuses_nothing() {
    let control_plane = operator::control_plane().await.unwrap();
    let proxy = Proxy::start(&control_plane).await.unwrap();
    let site = Site::new(&control_plane, "unread", Nodes::new(1).gpus(8)).await;
    apply(&control_plane, &own(&site, "own", NO_IMAGE)).await;
    // The permits of the cluster are read, and the forbid of the namespace is not.
    proxy.on_request(|request| {
        let hidden = request.resource == "jobpolicies.trellis.dev";
        match request.verb {
            Verb::List | Verb::Watch if hidden => Fault::internal_error(),
            _ => Fault::Pass,
        }
    });
    let launch = Launch::named("operator").lease_seconds(60);
    let _operator = Operator::behind(&control_plane, program(), &proxy, &launch)
        .await
        .unwrap();
    create(&site, site.job("j", 1, 8)).await;
    let waits = site.reaches("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waits), "CacheNotReady");
    assert_eq!(message(&waits), "the policies have not been read yet");
    assert_eq!(decision(&waits), Some(PolicyDecision::Undecided));
    assert_eq!(site.pods("j").await.len(), 0);
    proxy.heal();
    let refused = site.reaches("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    assert_eq!(site.pods("j").await.len(), 0);
}

/// Also without the starter set, which nothing takes the place of.
#[tokio::test]
async fn without_any_policy_nothing_is_allowed() {
    let control_plane = operator::control_plane().await.unwrap();
    let _operator = Operator::start(&control_plane, program()).await.unwrap();
    let site = Site::new(&control_plane, "bare", Nodes::new(1).gpus(8)).await;
    active(&control_plane, "starter").await;
    let api: kube::Api<ClusterJobPolicy> = kube::Api::all(control_plane.client());
    let starter = api.get("starter").await.unwrap();
    delete(&control_plane, "starter").await;
    // Gathered, loaded.
    tokio::time::sleep(Duration::from_secs(2)).await;
    create(&site, site.job("j", 1, 8)).await;
    let refused = site.reaches("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    assert!(
        message(&refused).contains("which no policy permits"),
        "{}",
        message(&refused)
    );
    let missing = policy(&refused).missing_permits;
    let of = |action: &str| missing.iter().any(|permit| permit.contains(action));
    for action in ["Submit", "UseQueue", "UseImage", "UsePrivilege"] {
        assert!(of(&format!("\"{action}\"")), "{action}: {missing:?}");
    }
    assert_eq!(site.pods("j").await.len(), 0);
    // A plan says the same.
    let input = site.job("j", 1, 8).to_string();
    let file = control_plane.folder().join("job.json");
    std::fs::write(&file, input).unwrap();
    let plan = tokio::process::Command::new(program())
        .args(["plan", "-n", site.name(), "--kubeconfig"])
        .arg(control_plane.kubeconfig())
        .arg("-f")
        .arg(&file)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&plan.stdout);
    assert_eq!(plan.status.code(), Some(1), "{said}");
    assert!(said.contains("PolicyDenied"), "{said}");
    assert!(said.contains(&message(&refused)), "{said}");
    apply(
        &control_plane,
        &json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
            "metadata": {"name": "starter"}, "spec": starter.spec,
        }),
    )
    .await;
    site.reaches("j", JobPhase::Running).await;
}

#[tokio::test]
async fn a_restart_is_no_moment_without_policies() {
    let control_plane = operator::control_plane().await.unwrap();
    let mut operator = Operator::start(&control_plane, program()).await.unwrap();
    let site = Site::new(&control_plane, "again", Nodes::new(2).gpus(8)).await;
    // Jobs that bear the label are refused.
    let text = "@id(\"no\") forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                when { context.job.hasTag(\"refused\") };";
    apply(&control_plane, &about(&site, text, json!({}))).await;
    active(&control_plane, site.name()).await;
    let bad = |name: &str| {
        let mut job = site.job(name, 1, 8);
        job["metadata"]["labels"] = json!({"refused": "yes"});
        job
    };
    site.submit("runs", 1, 8).await;
    create(&site, bad("bad")).await;
    site.reaches("runs", JobPhase::Running).await;
    let refused = site.reaches("bad", JobPhase::Refused).await;
    let before = uids(&site.pods("runs").await);
    operator.kill().unwrap();
    create(&site, bad("bad-later")).await;
    site.submit("good-later", 1, 8).await;
    operator::give_lease_back(&control_plane).await.unwrap();
    let _operator = Operator::start(&control_plane, program()).await.unwrap();
    site.reaches("good-later", JobPhase::Running).await;
    let later = site.reaches("bad-later", JobPhase::Refused).await;
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
    assert_eq!(first(&later), 1, "its first state is its last");
    let runs = site.api::<TrainingJob>().get("runs").await.unwrap();
    assert_eq!(phase(&runs), Some(JobPhase::Running));
    assert_eq!(uids(&site.pods("runs").await), before);
    for name in ["bad", "bad-later"] {
        assert_eq!(site.pods(name).await.len(), 0);
    }
}
