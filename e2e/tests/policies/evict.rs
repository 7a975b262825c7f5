//! `onViolation: Evict`: what its forbids deny is stopped where it runs, whole and in good order;
//! whatever is less sure stops nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, PolicyDecision, TrainingJobStatus};
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::{SOON, message, phase, reason, uids};
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::scene::{NO_IMAGE, about, active, apply, becomes, decision, delete, event, own};
use super::tools::{policy, report};
use super::{program, shared, site};

/// Forbids jobs of several pods.
const SINGLE: &str = "@id(\"single\") forbid(principal, action == Trellis::Action::\"Submit\", \
                      resource) when { context.pods > 1 };";

fn evict() -> Value {
    json!({"onViolation": "Evict"})
}

fn is_denied(status: &TrainingJobStatus) -> bool {
    let decided = status.policy.as_ref().and_then(|p| p.decision);
    decided == Some(PolicyDecision::Denied)
}

/// Checks that a job keeps running although a policy denies it.
async fn goes_on(site: &Site, name: &str, before: &[k8s_openapi::api::core::v1::Pod]) {
    let job = site.becomes(name, is_denied).await;
    assert_eq!(phase(&job), Some(JobPhase::Running));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let job = site.api::<TrainingJob>().get(name).await.unwrap();
    assert_eq!(phase(&job), Some(JobPhase::Running), "{}", message(&job));
    let now = site.whole(name, before.len()).await;
    assert_eq!(uids(&now), uids(before));
}

#[tokio::test]
async fn a_gang_that_is_forbidden_is_stopped_whole_and_runs_again_once_it_may() {
    let control_plane = shared().await;
    let site = site("stopped", 2).await;
    site.submit("gang", 2, 8).await;
    site.reaches("gang", JobPhase::Running).await;
    site.submit("single", 1, 8).await;
    site.reaches("single", JobPhase::Queued).await;
    let generation = site.pods("gang").await;
    site.stop_slowly("gang", "20s").await;

    // `trellis policy diff` shows beforehand which jobs the policy would stop.
    let change = about(&site, SINGLE, evict());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("single.yaml");
    std::fs::write(&file, change.to_string()).unwrap();
    let diff = ["diff", file.to_str().unwrap(), "--cluster"];
    let said = policy(&diff).await;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let said = policy(&[&diff[..], &["-o", "json"]].concat()).await;
    let id = format!("{}/single", site.name());
    let all = report(&said)["changed"].as_array().unwrap().clone();
    let changed: BTreeMap<_, _> = all
        .iter()
        .filter_map(|job| Some((job["job"].as_str()?.to_owned(), job["evicted"].clone())))
        .filter(|(job, _)| job.starts_with(&format!("{}/", site.name())))
        .collect();
    let wanted = BTreeMap::from([(format!("{}/gang", site.name()), json!([id]))]);
    assert_eq!(changed, wanted);
    let line = format!("  it has its place, and is stopped by {id}\n");
    assert!(text.contains(&line), "{text}");
    assert!(text.ends_with(" would be stopped\n"), "{text}");

    apply(control_plane, &change).await;
    let leaves = site
        .becomes("gang", |s| s.phase == Some(JobPhase::Restarting))
        .await;
    assert_eq!(reason(&leaves), "PolicyViolation");
    assert!(message(&leaves).contains(&id), "{}", message(&leaves));
    // All of them, with their grace.
    eventually(SOON, || async {
        let pods = site.pods("gang").await;
        anyhow::ensure!(uids(&pods) == uids(&generation), "others: {pods:?}");
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
    assert_eq!(site.pods("single").await.len(), 0, "its room is still held");
    let told = event(&site, "gang", "PolicyViolation").await;
    assert!(told.contains(&id), "{told}");
    let refused = site.reaches("gang", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    assert_eq!(site.pods("gang").await.len(), 0);
    let status = refused.status.unwrap();
    let counts = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counts, (Some(2), Some(0), Some(0)));
    let holds = |type_: &str| {
        let found = status.conditions.iter().find(|c| c.type_ == type_);
        found.map(|c| c.status.clone())
    };
    assert_eq!(holds("Accepted").as_deref(), Some("False"));
    assert_eq!(holds("Stalled").as_deref(), Some("True"));
    // Its devices are another's.
    site.reaches("single", JobPhase::Running).await;

    site.delete::<TrainingJob>("single").await;
    delete(control_plane, site.name()).await;
    let again = site.runs_again("gang", 2).await;
    assert_eq!(decision(&again), Some(PolicyDecision::Allowed));
    site.whole("gang", 2).await;
}

#[tokio::test]
async fn a_policy_that_only_reports_stops_nothing_until_it_says_so() {
    let control_plane = shared().await;
    let site = site("reports", 1).await;
    site.submit("j", 1, 8).await;
    site.reaches("j", JobPhase::Running).await;
    let before = site.whole("j", 1).await;
    for enforcement in ["Warn", "Audit"] {
        let beside = json!({"onViolation": "Evict", "enforcement": enforcement});
        apply(control_plane, &about(&site, NO_IMAGE, beside)).await;
        becomes(control_plane, site.name(), |s| s.violation_count == Some(1)).await;
    }
    let report = json!({"onViolation": "Report", "enforcement": "Deny"});
    apply(control_plane, &about(&site, NO_IMAGE, report)).await;
    goes_on(&site, "j", &before).await;

    // The policy becomes invalid. Its last valid version stays in effect.
    let broken = json!({"onViolation": "Evict", "enforcement": "Deny"});
    let text = format!("{NO_IMAGE} forbid(");
    apply(control_plane, &about(&site, &text, broken.clone())).await;
    becomes(control_plane, site.name(), |s| {
        s.conditions
            .iter()
            .any(|c| c.type_ == "Degraded" && c.status == "True")
    })
    .await;
    goes_on(&site, "j", &before).await;

    apply(control_plane, &about(&site, NO_IMAGE, broken)).await;
    let refused = site.reaches("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    site.pods_become("j", 0).await;
    delete(control_plane, site.name()).await;
    site.runs_again("j", 2).await;

    // A JobPolicy of the namespace evicts jobs too.
    let mut of_namespace = own(&site, "own", NO_IMAGE);
    of_namespace["spec"]["onViolation"] = json!("Evict");
    apply(control_plane, &of_namespace).await;
    site.reaches("j", JobPhase::Refused).await;
    site.pods_become("j", 0).await;
}

/// A client that replaces a policy may delete it for a moment.
#[tokio::test]
async fn what_is_missing_invalid_or_cannot_be_evaluated_stops_nothing() {
    let control_plane = shared().await;
    let site = site("unsure", 1).await;
    let permit = "permit(principal, action == Trellis::Action::\"ConnectTo\", resource);";
    let with = |cedar: &str| about(&site, cedar, evict());
    apply(control_plane, &with(permit)).await;
    active(control_plane, site.name()).await;
    let mut job = site.job("j", 1, 8);
    job["spec"]["network"] = json!({"egress": [{"cidr": "203.0.113.0/24"}]});
    site.create(job).await.unwrap();
    site.reaches("j", JobPhase::Running).await;
    let before = site.whole("j", 1).await;
    delete(control_plane, site.name()).await;
    goes_on(&site, "j", &before).await;

    // The policy is back with an expression that overflows, so there is no decision.
    let overflow = format!(
        "{permit} forbid(principal, action, resource) when {{ context.gpus * 9223372036854775807 > 8 }};"
    );
    for text in [overflow.as_str(), "forbid(principal,"] {
        apply(control_plane, &with(text)).await;
        let undecided = |s: &TrainingJobStatus| {
            let decided = s.policy.as_ref().and_then(|p| p.decision);
            decided == Some(PolicyDecision::Undecided)
        };
        site.becomes("j", undecided).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = site.whole("j", 1).await;
        assert_eq!(uids(&now), uids(&before));
        // A policy that was never valid has no last valid version.
        delete(control_plane, site.name()).await;
        goes_on(&site, "j", &before).await;
    }
}

#[tokio::test]
async fn a_mistake_can_be_taken_back_before_it_has_stopped_everything() {
    let control_plane = operator::control_plane().await.unwrap();
    let account = control_plane.service_account_kubeconfig(operator::NAMESPACE, operator::ACCOUNT);
    let kubeconfig = account.await.unwrap();
    // A new leader counts evictions from zero, so a busy machine must not cost this one its lease.
    let launch = Launch::named("operator").lease_seconds(60);
    let _operator = Operator::launch(&control_plane, program(), &kubeconfig, &launch).unwrap();
    let site = Site::new(&control_plane, "mistake", Nodes::new(2).gpus(8)).await;
    let names: Vec<String> = (0..12).map(|n| format!("j{n}")).collect();
    for name in &names {
        site.submit(name, 1, 1).await;
    }
    for name in &names {
        site.reaches(name, JobPhase::Running).await;
    }
    apply(&control_plane, &about(&site, NO_IMAGE, evict())).await;
    let in_phase = async |wanted: JobPhase| {
        let jobs = site.api::<TrainingJob>().list(&Default::default()).await?;
        let so = jobs.iter().filter(|job| phase(job) == Some(wanted)).count();
        anyhow::Ok(so)
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
    delete(&control_plane, site.name()).await;
    let mut attempts: BTreeMap<Option<i64>, usize> = BTreeMap::new();
    for name in &names {
        let job = site.reaches(name, JobPhase::Running).await;
        let attempt = job.status.and_then(|s| s.attempt);
        *attempts.entry(attempt).or_default() += 1;
    }
    assert_eq!(attempts, BTreeMap::from([(Some(1), 2), (Some(2), 10)]));
}
