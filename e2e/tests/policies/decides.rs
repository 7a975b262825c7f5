//! A denied job creates no objects, and starts by itself once it is allowed.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::jobs::{message, reason};

use super::scene::{
    NO_IMAGE, about, active, apply, becomes, condition, create, decision, delete, event, own,
    own_is, policy,
};
use super::{shared, site};

#[tokio::test]
async fn a_denied_job_makes_nothing_and_names_policy_and_way_out() {
    let control_plane = shared().await;
    let site = site("denied", 2).await;
    apply(control_plane, &about(&site, NO_IMAGE, json!({}))).await;
    let status = active(control_plane, site.name()).await;
    let id = format!("{}/no", site.name());
    assert_eq!(status.policy_ids, [id.as_str()]);
    let generation = create(&site, site.job("j", 2, 8)).await;
    let refused = site.reaches("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    let said = message(&refused);
    let expected = format!(
        "the job runs the image \"registry.example/train:1.0\", which the policy \"{id}\" forbids: \
         use another image, or ask whoever owns the policy"
    );
    assert_eq!(said, expected);
    let told = policy(&refused);
    assert_eq!(told.decision, Some(PolicyDecision::Denied));
    assert_eq!(told.policies, [id.as_str()]);
    assert!(told.set_hash.is_some());
    assert_eq!(event(&site, "j", "PolicyDenied").await, expected);
    assert_eq!(site.pods("j").await.len(), 0);
    let services = site.api::<Service>().list(&Default::default()).await;
    assert_eq!(services.unwrap().items.len(), 0);
    // The policy is deleted. The job itself is not changed.
    delete(control_plane, site.name()).await;
    let runs = site.reaches("j", JobPhase::Running).await;
    assert_eq!(runs.metadata.generation, generation);
    assert_eq!(decision(&runs), Some(PolicyDecision::Allowed));
    assert_eq!(policy(&runs).missing_permits, Vec::<String>::new());
    // Every pod can be traced to the policies that allowed it.
    let group = site.api::<PodGroup>().get("j").await.unwrap();
    let plan = group.status.unwrap().plan.unwrap();
    let set = plan.policy_set.unwrap();
    assert_ne!(Some(&set), told.set_hash.as_ref(), "those that denied it");
    let starter = becomes(control_plane, "starter", |s| s.active_set_hash.is_some()).await;
    assert_eq!(starter.active_set_hash.unwrap().len(), set.len());
}

/// The permit in the message is the one that lets the job run.
#[tokio::test]
async fn a_permit_that_is_applied_later_lets_the_job_run() {
    let control_plane = shared().await;
    let site = site("permit", 1).await;
    let mut job = site.job("j", 1, 8);
    job["spec"]["network"] =
        json!({"egress": [{"cidr": "203.0.113.0/24", "ports": [{"port": 443}]}]});
    create(&site, job).await;
    let refused = site.reaches("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    let missing = policy(&refused).missing_permits;
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(
        message(&refused).contains(&missing[0]),
        "{}",
        message(&refused)
    );
    assert_eq!(site.pods("j").await.len(), 0);
    // A JobPolicy grants nothing.
    apply(control_plane, &own(&site, "own", &missing[0])).await;
    let status = own_is(&site, "own", "Active", "True").await;
    let (_, said) = condition(&status, "Active");
    assert!(said.contains("grants nothing"), "{said}");
    let job = site.api::<TrainingJob>().get("j").await.unwrap();
    assert_eq!(reason(&job), "PolicyDenied");
    apply(control_plane, &about(&site, &missing[0], json!({}))).await;
    site.reaches("j", JobPhase::Running).await;
    delete(control_plane, site.name()).await;
}

#[tokio::test]
async fn a_namespaces_policy_decides_about_its_own_jobs_alone() {
    let control_plane = shared().await;
    let (here, there) = (site("here", 1).await, site("there", 1).await);
    let everybody = "@id(\"all\") forbid(principal, action, resource);";
    apply(control_plane, &own(&here, "own", everybody)).await;
    own_is(&here, "own", "Ready", "True").await;
    create(&here, here.job("j", 1, 8)).await;
    let refused = here.reaches("j", JobPhase::Refused).await;
    assert!(
        message(&refused).contains(&format!("\"{}/own/all\"", here.name())),
        "{}",
        message(&refused)
    );
    // Decided after the policy has taken effect.
    create(&there, there.job("j", 1, 8)).await;
    let runs = there.reaches("j", JobPhase::Running).await;
    assert_eq!(decision(&runs), Some(PolicyDecision::Allowed));
}

#[tokio::test]
async fn warn_tells_and_audit_counts_and_neither_stops_anybody() {
    let control_plane = shared().await;
    let warned = site("warned", 1).await;
    let audited = site("audited", 1).await;
    let policy_of =
        |site, enforcement: &str| about(site, NO_IMAGE, json!({"enforcement": enforcement}));
    apply(control_plane, &policy_of(&warned, "Warn")).await;
    apply(control_plane, &policy_of(&audited, "Audit")).await;
    active(control_plane, warned.name()).await;
    active(control_plane, audited.name()).await;
    create(&warned, warned.job("j", 1, 8)).await;
    create(&audited, audited.job("j", 1, 8)).await;
    let runs = warned.reaches("j", JobPhase::Running).await;
    let said = format!(
        "the job runs the image \"registry.example/train:1.0\", which the policy \"{}/no\" is to forbid",
        warned.name()
    );
    assert_eq!(policy(&runs).warnings, [said.as_str()]);
    assert_eq!(event(&warned, "j", "PolicyWarning").await, said);
    let runs = audited.reaches("j", JobPhase::Running).await;
    assert_eq!(policy(&runs).warnings, Vec::<String>::new());
    for site in [&warned, &audited] {
        let status = becomes(control_plane, site.name(), |s| s.violation_count == Some(1)).await;
        let violation = &status.violations[0];
        assert_eq!(
            (violation.namespace.as_str(), violation.job.as_str()),
            (site.name(), "j")
        );
        // The violation is no longer counted when the job is deleted.
        site.delete::<TrainingJob>("j").await;
        becomes(control_plane, site.name(), |s| s.violation_count == Some(0)).await;
        delete(control_plane, site.name()).await;
    }
}
