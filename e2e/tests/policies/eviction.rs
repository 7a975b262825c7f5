//! `onViolation: Evict`: its forbids stop running jobs, as whole gangs and with their grace period.
//! Without a certain decision, no job is stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, PolicyDecision, TrainingJobStatus};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message, phase, pod_uids, reason};
use trellis_e2e::wait::eventually;

use super::fixtures::{
    FORBID_NO_IMAGE, apply_policy, cluster_policy_for, delete_policy, namespace_policy,
    policy_decision, wait_for_event, wait_for_policy_status, wait_until_active,
};
use super::policy_tools::{json_report, run_policy_command};
use super::{create_site, operator_program, shared_control_plane};

/// Forbids jobs of several pods.
const FORBID_SEVERAL_PODS: &str = "@id(\"single\") forbid(principal, action == Trellis::Action::\"Submit\", \
                      resource) when { context.pods > 1 };";

fn evict_spec() -> Value {
    json!({"onViolation": "Evict"})
}

fn is_denied(status: &TrainingJobStatus) -> bool {
    let decided = status.policy.as_ref().and_then(|p| p.decision);
    decided == Some(PolicyDecision::Denied)
}

/// Checks that a job keeps running although a policy denies it.
async fn check_keeps_running(
    site: &TestSite,
    name: &str,
    before: &[k8s_openapi::api::core::v1::Pod],
) {
    let job = site.wait_for_status(name, is_denied).await;
    assert_eq!(phase(&job), Some(JobPhase::Running));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let job = site.api::<TrainingJob>().get(name).await.unwrap();
    assert_eq!(phase(&job), Some(JobPhase::Running), "{}", message(&job));
    let now = site.wait_for_whole_gang(name, before.len()).await;
    assert_eq!(pod_uids(&now), pod_uids(before));
}

#[tokio::test]
async fn forbidden_gang_is_evicted_whole_and_returns_once_allowed() {
    let control_plane = shared_control_plane().await;
    let site = create_site("stopped", 2).await;
    site.submit("gang", 2, 8).await;
    site.wait_for_phase("gang", JobPhase::Running).await;
    site.submit("single", 1, 8).await;
    site.wait_for_phase("single", JobPhase::Queued).await;
    let generation = site.list_pods("gang").await;
    site.delay_pod_stop("gang", "20s").await;

    // `trellis policy diff` shows beforehand which jobs the policy would stop.
    let change = cluster_policy_for(&site, FORBID_SEVERAL_PODS, evict_spec());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("single.yaml");
    std::fs::write(&file, change.to_string()).unwrap();
    let diff = ["diff", file.to_str().unwrap(), "--cluster"];
    let output = run_policy_command(&diff).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let output = run_policy_command(&[&diff[..], &["-o", "json"]].concat()).await;
    let id = format!("{}/single", site.name());
    let all = json_report(&output)["changed"].as_array().unwrap().clone();
    let changed: BTreeMap<_, _> = all
        .iter()
        .filter_map(|job| Some((job["job"].as_str()?.to_owned(), job["evicted"].clone())))
        .filter(|(job, _)| job.starts_with(&format!("{}/", site.name())))
        .collect();
    let expected = BTreeMap::from([(format!("{}/gang", site.name()), json!([id]))]);
    assert_eq!(changed, expected);
    let line = format!("  it is placed, and {id} stops it\n");
    assert!(text.contains(&line), "{text}");
    assert!(text.ends_with(" would be stopped\n"), "{text}");

    apply_policy(control_plane, &change).await;
    let victim = site
        .wait_for_status("gang", |s| s.phase == Some(JobPhase::Restarting))
        .await;
    assert_eq!(reason(&victim), "PolicyViolation");
    assert!(message(&victim).contains(&id), "{}", message(&victim));
    // All pods stop, with their grace period.
    eventually(SOON, || async {
        let pods = site.list_pods("gang").await;
        anyhow::ensure!(pod_uids(&pods) == pod_uids(&generation), "others: {pods:?}");
        for pod in &pods {
            let grace = pod.metadata.deletion_grace_period_seconds;
            anyhow::ensure!(
                grace.is_some_and(|s| s > 0),
                "{}: {grace:?}",
                pod.name_any()
            );
        }
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(
        site.list_pods("single").await.len(),
        0,
        "the evicted gang still holds its GPUs"
    );
    let event_note = wait_for_event(&site, "gang", "PolicyViolation").await;
    assert!(event_note.contains(&id), "{event_note}");
    let refused = site.wait_for_phase("gang", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    assert_eq!(site.list_pods("gang").await.len(), 0);
    let status = refused.status.unwrap();
    let counts = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counts, (Some(2), Some(0), Some(0)));
    let holds = |type_: &str| {
        let found = status.conditions.iter().find(|c| c.type_ == type_);
        found.map(|c| c.status.clone())
    };
    assert_eq!(holds("Accepted").as_deref(), Some("False"));
    assert_eq!(holds("Stalled").as_deref(), Some("True"));
    // Another job gets its devices.
    site.wait_for_phase("single", JobPhase::Running).await;

    site.delete::<TrainingJob>("single").await;
    delete_policy(control_plane, site.name()).await;
    let restarted = site.wait_for_running_attempt("gang", 2).await;
    assert_eq!(policy_decision(&restarted), Some(PolicyDecision::Allowed));
    site.wait_for_whole_gang("gang", 2).await;
}

#[tokio::test]
async fn policy_evicts_only_when_it_denies_and_sets_evict() {
    let control_plane = shared_control_plane().await;
    let site = create_site("reports", 1).await;
    site.submit("j", 1, 8).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let before = site.wait_for_whole_gang("j", 1).await;
    for enforcement in ["Warn", "Audit"] {
        let spec_fields = json!({"onViolation": "Evict", "enforcement": enforcement});
        apply_policy(
            control_plane,
            &cluster_policy_for(&site, FORBID_NO_IMAGE, spec_fields),
        )
        .await;
        wait_for_policy_status(control_plane, site.name(), |s| s.violation_count == Some(1)).await;
    }
    let report = json!({"onViolation": "Report", "enforcement": "Deny"});
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, report),
    )
    .await;
    check_keeps_running(&site, "j", &before).await;

    // The policy becomes invalid. Its last valid version stays in effect.
    let broken = json!({"onViolation": "Evict", "enforcement": "Deny"});
    let text = format!("{FORBID_NO_IMAGE} forbid(");
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, &text, broken.clone()),
    )
    .await;
    wait_for_policy_status(control_plane, site.name(), |s| {
        s.conditions
            .iter()
            .any(|c| c.type_ == "Degraded" && c.status == "True")
    })
    .await;
    check_keeps_running(&site, "j", &before).await;

    apply_policy(
        control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, broken),
    )
    .await;
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    site.wait_for_pod_count("j", 0).await;
    delete_policy(control_plane, site.name()).await;
    site.wait_for_running_attempt("j", 2).await;

    // A JobPolicy of the namespace evicts jobs too.
    let mut of_namespace = namespace_policy(&site, "own", FORBID_NO_IMAGE);
    of_namespace["spec"]["onViolation"] = json!("Evict");
    apply_policy(control_plane, &of_namespace).await;
    site.wait_for_phase("j", JobPhase::Refused).await;
    site.wait_for_pod_count("j", 0).await;
}

/// A client that replaces a policy may delete it for a moment.
#[tokio::test]
async fn missing_invalid_or_undecided_policy_evicts_no_gang() {
    let control_plane = shared_control_plane().await;
    let site = create_site("unsure", 1).await;
    let permit = "permit(principal, action == Trellis::Action::\"ConnectTo\", resource);";
    let policy_with = |cedar: &str| cluster_policy_for(&site, cedar, evict_spec());
    apply_policy(control_plane, &policy_with(permit)).await;
    wait_until_active(control_plane, site.name()).await;
    let mut job = site.job("j", 1, 8);
    job["spec"]["network"] = json!({"egress": [{"cidr": "203.0.113.0/24"}]});
    site.create(job).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    let before = site.wait_for_whole_gang("j", 1).await;
    delete_policy(control_plane, site.name()).await;
    check_keeps_running(&site, "j", &before).await;

    // The policy is back with an expression that overflows, so there is no decision.
    let overflow = format!(
        "{permit} forbid(principal, action, resource) when {{ context.gpus * 9223372036854775807 > 8 }};"
    );
    for text in [overflow.as_str(), "forbid(principal,"] {
        apply_policy(control_plane, &policy_with(text)).await;
        let undecided = |s: &TrainingJobStatus| {
            let decided = s.policy.as_ref().and_then(|p| p.decision);
            decided == Some(PolicyDecision::Undecided)
        };
        site.wait_for_status("j", undecided).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = site.wait_for_whole_gang("j", 1).await;
        assert_eq!(pod_uids(&now), pod_uids(&before));
        // A policy that was never valid has no last valid version.
        delete_policy(control_plane, site.name()).await;
        check_keeps_running(&site, "j", &before).await;
    }
}

#[tokio::test]
async fn eviction_rate_limit_lets_a_mistaken_policy_be_reverted() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let kubeconfig = operator::kubeconfig(&control_plane, operator::POD)
        .await
        .unwrap();
    // A new leader counts evictions from zero, so a busy machine must not cost this one its lease.
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let _operator =
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &launch)
            .unwrap();
    let site = TestSite::new(&control_plane, "mistake", NodeTemplate::new(2).gpus(8)).await;
    let names: Vec<String> = (0..12).map(|n| format!("j{n}")).collect();
    for name in &names {
        site.submit(name, 1, 1).await;
    }
    for name in &names {
        site.wait_for_phase(name, JobPhase::Running).await;
    }
    apply_policy(
        &control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, evict_spec()),
    )
    .await;
    let in_phase = async |expected: JobPhase| {
        let jobs = site.api::<TrainingJob>().list(&Default::default()).await?;
        let count = jobs
            .iter()
            .filter(|job| phase(job) == Some(expected))
            .count();
        anyhow::Ok(count)
    };
    eventually(SOON, || async {
        let refused = in_phase(JobPhase::Refused).await?;
        anyhow::ensure!(refused == 10, "{refused} are stopped");
        Ok(())
    })
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(in_phase(JobPhase::Running).await.unwrap(), 2);
    delete_policy(&control_plane, site.name()).await;
    let mut attempts: BTreeMap<Option<i64>, usize> = BTreeMap::new();
    for name in &names {
        let job = site.wait_for_phase(name, JobPhase::Running).await;
        let attempt = job.status.and_then(|s| s.attempt);
        *attempts.entry(attempt).or_default() += 1;
    }
    assert_eq!(attempts, BTreeMap::from([(Some(1), 2), (Some(2), 10)]));
}
