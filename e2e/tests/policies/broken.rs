//! Policies that are wrong: they say where, and let nothing through.

use std::time::{Duration, Instant};

use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_e2e::jobs::{message, reason};

use super::scene::{
    NO_IMAGE, about, active, apply, becomes, condition, create, decision, delete, own, own_is,
    policy,
};
use super::{shared, site};

#[tokio::test]
async fn a_policy_that_breaks_says_where_and_its_last_good_version_decides() {
    let control_plane = shared().await;
    let site = site("breaks", 1).await;
    apply(control_plane, &about(&site, NO_IMAGE, json!({}))).await;
    active(control_plane, site.name()).await;
    for (text, place) in [
        ("permit(principal, action,", "spec.cedar:1:"),
        (
            "permit(principal, action, resource)\nwhen { context.gpu > 8 };",
            "spec.cedar:2:",
        ),
    ] {
        apply(control_plane, &about(&site, text, json!({}))).await;
        let status = becomes(control_plane, site.name(), |s| {
            s.conditions
                .iter()
                .any(|c| c.type_ == "Degraded" && c.status == "True")
        })
        .await;
        let (active, said) = condition(&status, "Active");
        assert_eq!(active, "True");
        assert!(said.contains(place), "{said}");
        assert!(said.contains('^'), "{said}");
        assert_eq!(condition(&status, "Stalled").0, "True");
        assert_eq!(status.policy_ids, [format!("{}/no", site.name())]);
    }
    create(&site, site.job("j", 1, 8)).await;
    let refused = site.reaches("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    assert_eq!(site.pods("j").await.len(), 0);
    delete(control_plane, site.name()).await;
    site.reaches("j", JobPhase::Running).await;
}

#[tokio::test]
async fn where_a_policy_never_was_good_jobs_wait_until_it_is() {
    let control_plane = shared().await;
    let (site, other) = (site("never", 1).await, site("beside", 1).await);
    let fails = json!({"tests": [{
        "name": "denies", "decision": "Deny",
        "request": {
            "namespace": site.name(), "action": "UseImage", "resource": {"name": "i"},
            "namespaceLabels": {"kubernetes.io/metadata.name": site.name()},
        },
    }]});
    let permits = "permit(principal, action, resource);";
    apply(control_plane, &about(&site, permits, fails)).await;
    let status = becomes(control_plane, site.name(), |s| {
        s.conditions
            .iter()
            .any(|c| c.type_ == "Active" && c.status == "False")
    })
    .await;
    let (_, said) = condition(&status, "Stalled");
    assert!(
        said.contains("spec.tests[0]: the test \"denies\" fails"),
        "{said}"
    );
    create(&site, site.job("j", 1, 8)).await;
    let waits = site.reaches("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waits), "PolicyNotEvaluated");
    assert!(message(&waits).contains(site.name()), "{}", message(&waits));
    assert_eq!(decision(&waits), Some(PolicyDecision::Undecided));
    // The policy does not stop jobs outside its namespaces.
    create(&other, other.job("j", 1, 8)).await;
    other.reaches("j", JobPhase::Running).await;
    assert_eq!(site.pods("j").await.len(), 0);
    apply(control_plane, &about(&site, permits, json!({}))).await;
    site.reaches("j", JobPhase::Running).await;
    delete(control_plane, site.name()).await;
}

/// Cedar skips a policy whose evaluation fails, and would allow the job by the other policies. The
/// operator makes the job wait.
#[tokio::test]
async fn a_policy_that_overflows_lets_nothing_through() {
    let control_plane = shared().await;
    let site = site("overflow", 1).await;
    let text = "@id(\"sum\") forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                when { context.gpus * 9223372036854775807 < 0 };";
    apply(control_plane, &about(&site, text, json!({}))).await;
    active(control_plane, site.name()).await;
    create(&site, site.job("j", 1, 8)).await;
    let waits = site.reaches("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waits), "PolicyNotEvaluated");
    let errors = policy(&waits).errors;
    assert!(errors[0].contains("/sum"), "{errors:?}");
    assert!(errors[0].contains("overflow"), "{errors:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(site.pods("j").await.len(), 0);
    delete(control_plane, site.name()).await;
    site.reaches("j", JobPhase::Running).await;
}

#[tokio::test]
async fn bombs_take_a_bounded_time_and_stop_nobody_else() {
    let control_plane = shared().await;
    let (site, other) = (site("bomb", 0).await, site("calm", 1).await);
    // A megabyte is refused by the API server, with the rule.
    let large = format!("{NO_IMAGE} //{}", "x".repeat(1 << 20));
    let error = control_plane
        .apply_yaml(&own(&site, "large", &large).to_string())
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
        apply(control_plane, &own(&site, name, text)).await;
    }
    for (name, _) in &bombs {
        let status = own_is(&site, name, "Active", "False").await;
        let (_, said) = condition(&status, "Active");
        assert!(said.contains("spec.cedar:1:"), "{name}: {said}");
        assert!(said.len() < 8_100, "{name}: {}", said.len());
    }
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
    other.submit("j", 1, 8).await;
    other.reaches("j", JobPhase::Running).await;
    // Jobs of the namespace wait, because it is unknown what its policies forbid.
    create(&site, site.job("j", 1, 0)).await;
    let waits = site.reaches("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waits), "PolicyNotEvaluated");
    site.delete::<TrainingJob>("j").await;
}
