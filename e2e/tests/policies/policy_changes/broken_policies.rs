//! Invalid policies: their status has the position of the error, and they deny by default.

use std::time::{Duration, Instant};

use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_e2e::site::jobs::{message, reason};

use crate::fixtures::{
    FORBID_NO_IMAGE, apply_policy, cluster_policy_for, condition_of, create_job, delete_policy,
    namespace_policy, policy_decision, policy_verdict, wait_for_own_condition,
    wait_for_policy_status, wait_until_active,
};
use crate::{create_site, shared_control_plane};

#[tokio::test]
async fn broken_policy_reports_the_error_and_its_last_valid_version_decides() {
    let control_plane = shared_control_plane().await;
    let site = create_site("breaks", 1).await;
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, json!({})),
    )
    .await;
    wait_until_active(control_plane, site.name()).await;
    for (text, place) in [
        ("permit(principal, action,", "spec.cedar:1:"),
        (
            "permit(principal, action, resource)\nwhen { context.gpu > 8 };",
            "spec.cedar:2:",
        ),
    ] {
        apply_policy(control_plane, &cluster_policy_for(&site, text, json!({}))).await;
        let status = wait_for_policy_status(control_plane, site.name(), |s| {
            s.conditions
                .iter()
                .any(|c| c.type_ == "Degraded" && c.status == "True")
        })
        .await;
        let (active, condition_message) = condition_of(&status, "Active");
        assert_eq!(active, "True");
        assert!(condition_message.contains(place), "{condition_message}");
        assert!(condition_message.contains('^'), "{condition_message}");
        assert_eq!(condition_of(&status, "Stalled").0, "True");
        assert_eq!(status.policy_ids, [format!("{}/no", site.name())]);
    }
    create_job(&site, site.job("j", 1, 8)).await;
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    assert_eq!(site.list_pods("j").await.len(), 0);
    delete_policy(control_plane, site.name()).await;
    site.wait_for_phase("j", JobPhase::Running).await;
}

#[tokio::test]
async fn jobs_wait_while_a_policy_has_no_valid_version() {
    let control_plane = shared_control_plane().await;
    let (site, other) = (
        create_site("never", 1).await,
        create_site("beside", 1).await,
    );
    let fails = json!({"tests": [{
        "name": "denies", "decision": "Deny",
        "request": {
            "namespace": site.name(), "action": "UseImage", "resource": {"name": "i"},
            "namespaceLabels": {"kubernetes.io/metadata.name": site.name()},
        },
    }]});
    let permits = "permit(principal, action, resource);";
    apply_policy(control_plane, &cluster_policy_for(&site, permits, fails)).await;
    let status = wait_for_policy_status(control_plane, site.name(), |s| {
        s.conditions
            .iter()
            .any(|c| c.type_ == "Active" && c.status == "False")
    })
    .await;
    let (_, condition_message) = condition_of(&status, "Stalled");
    assert!(
        condition_message.contains("spec.tests[0]: the test \"denies\" fails"),
        "{condition_message}"
    );
    create_job(&site, site.job("j", 1, 8)).await;
    let pending = site.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&pending), "PolicyNotEvaluated");
    assert!(
        message(&pending).contains(site.name()),
        "{}",
        message(&pending)
    );
    assert_eq!(policy_decision(&pending), Some(PolicyDecision::Undecided));
    // The policy does not stop jobs outside its namespaces.
    create_job(&other, other.job("j", 1, 8)).await;
    other.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(site.list_pods("j").await.len(), 0);
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, permits, json!({})),
    )
    .await;
    site.wait_for_phase("j", JobPhase::Running).await;
    delete_policy(control_plane, site.name()).await;
}

/// Cedar skips a policy whose evaluation fails, so the other policies would allow the job. The
/// operator makes the job wait.
#[tokio::test]
async fn overflowing_policy_allows_no_job() {
    let control_plane = shared_control_plane().await;
    let site = create_site("overflow", 1).await;
    let text = "@id(\"sum\") forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                when { context.gpus * 9223372036854775807 < 0 };";
    apply_policy(control_plane, &cluster_policy_for(&site, text, json!({}))).await;
    wait_until_active(control_plane, site.name()).await;
    create_job(&site, site.job("j", 1, 8)).await;
    let pending = site.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&pending), "PolicyNotEvaluated");
    let errors = policy_verdict(&pending).errors;
    assert!(errors[0].contains("/sum"), "{errors:?}");
    assert!(errors[0].contains("overflow"), "{errors:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(site.list_pods("j").await.len(), 0);
    delete_policy(control_plane, site.name()).await;
    site.wait_for_phase("j", JobPhase::Running).await;
}

#[tokio::test]
async fn oversized_policies_are_rejected_in_bounded_time() {
    let control_plane = shared_control_plane().await;
    let (site, other) = (create_site("bomb", 0).await, create_site("calm", 1).await);
    // The API server refuses a megabyte of text, and names the rule.
    let large = format!("{FORBID_NO_IMAGE} //{}", "x".repeat(1 << 20));
    let error = control_plane
        .apply_yaml(&namespace_policy(&site, "large", &large).to_string())
        .await;
    let error = format!("{:#}", error.unwrap_err());
    assert!(
        error.contains("65536"),
        "{}",
        &error[..error.len().min(500)]
    );
    // The operator checks bounds on the text, such as its nesting, before it parses it.
    let nested = |open: &str, close: &str, depth: usize| {
        let (open, close) = (open.repeat(depth), close.repeat(depth));
        format!("forbid(principal, action, resource) when {{ {open}true{close} }};")
    };
    let bombs = [
        ("brackets", nested("(", ")", 30_000)),
        ("nots", nested("!", "", 60_000)),
        ("ifs", nested("if true then ", " else false", 2_500)),
        ("ors", nested("true || ", "", 8_000)),
        ("sets", nested("[", "]", 30_000)),
    ];
    let started = Instant::now();
    for (name, text) in &bombs {
        apply_policy(control_plane, &namespace_policy(&site, name, text)).await;
    }
    for (name, _) in &bombs {
        let status = wait_for_own_condition(&site, name, "Active", "False").await;
        let (_, condition_message) = condition_of(&status, "Active");
        assert!(
            condition_message.contains("spec.cedar:1:"),
            "{name}: {condition_message}"
        );
        assert!(
            condition_message.len() < 8_100,
            "{name}: {}",
            condition_message.len()
        );
    }
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
    other.submit("j", 1, 8).await;
    other.wait_for_phase("j", JobPhase::Running).await;
    // Jobs of the namespace wait, because it is unknown what its policies forbid.
    create_job(&site, site.job("j", 1, 0)).await;
    let pending = site.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&pending), "PolicyNotEvaluated");
    site.delete::<TrainingJob>("j").await;
}
