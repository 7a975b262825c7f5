//! A denied job creates no objects, and starts by itself when policies allow it.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::site::jobs::{message, reason};

use super::fixtures::{
    FORBID_NO_IMAGE, apply_policy, cluster_policy_for, condition_of, create_job, delete_policy,
    namespace_policy, policy_decision, policy_verdict, wait_for_event, wait_for_own_condition,
    wait_for_policy_status, wait_until_active,
};
use super::{create_site, shared_control_plane};

#[tokio::test]
async fn denied_job_creates_nothing_and_names_policy_and_remedy() {
    let control_plane = shared_control_plane().await;
    let site = create_site("denied", 2).await;
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, json!({})),
    )
    .await;
    let status = wait_until_active(control_plane, site.name()).await;
    let id = format!("{}/no", site.name());
    assert_eq!(status.policy_ids, [id.as_str()]);
    let generation = create_job(&site, site.job("j", 2, 8)).await;
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    let status_message = message(&refused);
    let expected = format!(
        "the job runs the image \"registry.example/train:1.0\", which the policy \"{id}\" forbids: \
         use another image, or ask the owner of the policy"
    );
    assert_eq!(status_message, expected);
    let verdict = policy_verdict(&refused);
    assert_eq!(verdict.decision, Some(PolicyDecision::Denied));
    assert_eq!(verdict.policies, [id.as_str()]);
    assert!(verdict.set_hash.is_some());
    assert_eq!(wait_for_event(&site, "j", "PolicyDenied").await, expected);
    assert_eq!(site.list_pods("j").await.len(), 0);
    let services = site.api::<Service>().list(&Default::default()).await;
    assert_eq!(services.unwrap().items.len(), 0);
    // The policy is deleted. The job itself is not changed.
    delete_policy(control_plane, site.name()).await;
    let running = site.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(running.metadata.generation, generation);
    assert_eq!(policy_decision(&running), Some(PolicyDecision::Allowed));
    assert_eq!(
        policy_verdict(&running).missing_permits,
        Vec::<String>::new()
    );
    // Every pod can be traced to the policies that allowed it.
    let group = site.api::<PodGroup>().get("j").await.unwrap();
    let plan = group.status.unwrap().plan.unwrap();
    let set = plan.policy_set.unwrap();
    assert_ne!(
        Some(&set),
        verdict.set_hash.as_ref(),
        "the hash is that of the denying policies"
    );
    let starter =
        wait_for_policy_status(control_plane, "starter", |s| s.active_set_hash.is_some()).await;
    assert_eq!(starter.active_set_hash.unwrap().len(), set.len());
}

/// The suggested permit in the message allows the job.
#[tokio::test]
async fn later_permit_lets_the_denied_job_run() {
    let control_plane = shared_control_plane().await;
    let site = create_site("permit", 1).await;
    let mut job = site.job("j", 1, 8);
    job["spec"]["network"] =
        json!({"egress": [{"cidr": "203.0.113.0/24", "ports": [{"port": 443}]}]});
    create_job(&site, job).await;
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    let missing = policy_verdict(&refused).missing_permits;
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(
        message(&refused).contains(&missing[0]),
        "{}",
        message(&refused)
    );
    assert_eq!(site.list_pods("j").await.len(), 0);
    // A JobPolicy grants nothing.
    apply_policy(control_plane, &namespace_policy(&site, "own", &missing[0])).await;
    let status = wait_for_own_condition(&site, "own", "Active", "True").await;
    let (_, condition_message) = condition_of(&status, "Active");
    assert!(
        condition_message.contains("grants nothing"),
        "{condition_message}"
    );
    let job = site.api::<TrainingJob>().get("j").await.unwrap();
    assert_eq!(reason(&job), "PolicyDenied");
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, &missing[0], json!({})),
    )
    .await;
    site.wait_for_phase("j", JobPhase::Running).await;
    delete_policy(control_plane, site.name()).await;
}

#[tokio::test]
async fn namespace_policy_applies_only_to_its_own_jobs() {
    let control_plane = shared_control_plane().await;
    let (site, other_site) = (create_site("here", 1).await, create_site("there", 1).await);
    let forbid_all = "@id(\"all\") forbid(principal, action, resource);";
    apply_policy(control_plane, &namespace_policy(&site, "own", forbid_all)).await;
    wait_for_own_condition(&site, "own", "Ready", "True").await;
    create_job(&site, site.job("j", 1, 8)).await;
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert!(
        message(&refused).contains(&format!("\"{}/own/all\"", site.name())),
        "{}",
        message(&refused)
    );
    // This decision is made after the policy has taken effect.
    create_job(&other_site, other_site.job("j", 1, 8)).await;
    let running = other_site.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(policy_decision(&running), Some(PolicyDecision::Allowed));
}

#[tokio::test]
async fn warn_and_audit_policies_do_not_deny_jobs() {
    let control_plane = shared_control_plane().await;
    let warned = create_site("warned", 1).await;
    let audited = create_site("audited", 1).await;
    let policy_of = |site, enforcement: &str| {
        cluster_policy_for(site, FORBID_NO_IMAGE, json!({"enforcement": enforcement}))
    };
    apply_policy(control_plane, &policy_of(&warned, "Warn")).await;
    apply_policy(control_plane, &policy_of(&audited, "Audit")).await;
    wait_until_active(control_plane, warned.name()).await;
    wait_until_active(control_plane, audited.name()).await;
    create_job(&warned, warned.job("j", 1, 8)).await;
    create_job(&audited, audited.job("j", 1, 8)).await;
    let running = warned.wait_for_phase("j", JobPhase::Running).await;
    let expected = format!(
        "the job runs the image \"registry.example/train:1.0\", which the policy \"{}/no\" is to forbid",
        warned.name()
    );
    assert_eq!(policy_verdict(&running).warnings, [expected.as_str()]);
    assert_eq!(
        wait_for_event(&warned, "j", "PolicyWarning").await,
        expected
    );
    let running = audited.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(policy_verdict(&running).warnings, Vec::<String>::new());
    for site in [&warned, &audited] {
        let status =
            wait_for_policy_status(control_plane, site.name(), |s| s.violation_count == Some(1))
                .await;
        let violation = &status.violations[0];
        assert_eq!(
            (violation.namespace.as_str(), violation.job.as_str()),
            (site.name(), "j")
        );
        // The violation is no longer counted when the job is deleted.
        site.delete::<TrainingJob>("j").await;
        wait_for_policy_status(control_plane, site.name(), |s| s.violation_count == Some(0)).await;
        delete_policy(control_plane, site.name()).await;
    }
}
