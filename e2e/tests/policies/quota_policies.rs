//! QuotaPolicies: how much the jobs of a subject may hold, and what becomes of those for
//! which there is no room.

use anyhow::ensure;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::quota_ledger::QuotaLedgerSpec;
use trellis_api::quota_policy::QuotaPolicyStatus;
use trellis_api::{QuotaLedger, QuotaPolicy, Reason};
use trellis_e2e::cluster::{NodeTemplate, SCOPE_LABEL};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::jobs::{SOON, message, phase, reason};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::pod_history::PodHistory;
use trellis_e2e::site::TestSite;
use trellis_e2e::wait::{eventually, wait_for};

use super::fixtures::create_job;
use super::{create_site, operator_program, shared_control_plane};

/// Limits of the site's jobs alone, by a policy of its name.
async fn apply_limit(
    control_plane: &ControlPlane,
    site: &TestSite,
    limits: Value,
    enforcement: &str,
) {
    write_policy(control_plane, site, limits, enforcement).await;
    wait_for_policy_status(control_plane, site, |_| true).await;
}

/// The same, before there is an operator.
async fn write_policy(
    control_plane: &ControlPlane,
    site: &TestSite,
    limits: Value,
    enforcement: &str,
) {
    let labels = json!({"kubernetes.io/metadata.name": site.name()});
    let policy = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
        "metadata": {"name": site.name()},
        "spec": {
            "subject": {"namespaceSelector": {"matchLabels": labels}},
            "limits": limits, "enforcement": enforcement,
        },
    });
    control_plane.apply_yaml(&policy.to_string()).await.unwrap();
}

async fn change_limits(control_plane: &ControlPlane, site: &TestSite, limits: Value) {
    let api: Api<QuotaPolicy> = Api::all(control_plane.client());
    let patch = Patch::Merge(json!({"spec": {"limits": limits}}));
    api.patch(site.name(), &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Waits until the status of the site's policy is as wanted.
async fn wait_for_policy_status(
    control_plane: &ControlPlane,
    site: &TestSite,
    wanted: impl Fn(&QuotaPolicyStatus) -> bool,
) -> QuotaPolicyStatus {
    let api: Api<QuotaPolicy> = Api::all(control_plane.client());
    let so = wait_for(&api, site.name(), SOON, |policy: &QuotaPolicy| {
        let of_now = policy.status.as_ref();
        let of_now = of_now.filter(|s| s.observed_generation == policy.metadata.generation);
        of_now.is_some_and(&wanted)
    });
    so.await.unwrap().status.unwrap()
}

/// Usage and maximum of each limit.
fn limit_usage(status: &QuotaPolicyStatus) -> Vec<(String, String, String)> {
    let uses = status.holders.iter().flat_map(|holder| &holder.uses);
    uses.map(|u| {
        let (used, max) = (u.used.as_str(), u.max.as_str());
        (u.limit.clone(), used.to_owned(), max.to_owned())
    })
    .collect()
}

fn single_usage(limit: &str, used: &str, max: &str) -> Vec<(String, String, String)> {
    vec![(limit.to_owned(), used.to_owned(), max.to_owned())]
}

#[tokio::test]
async fn jobs_within_a_limit_run_and_the_rest_wait() {
    let (control_plane, site) = (shared_control_plane().await, create_site("limit", 4).await);
    let gpus = |max: u32| json!({"resources": [{"resource": "nvidia.com/gpu", "max": max}]});
    apply_limit(control_plane, &site, gpus(16), "Queue").await;
    for job in ["a", "b"] {
        site.submit(job, 1, 8).await;
        site.wait_for_phase(job, JobPhase::Running).await;
    }
    site.submit("c", 1, 8).await;
    let waits = site
        .wait_until_queued_for("c", Reason::QuotaPolicyExceeded)
        .await;
    let says = message(&waits);
    let expected = format!(
        "quota policy {:?}, nvidia.com/gpu: needs 8, 16 of 16 are held: 8 are missing; held by 2 \
         gangs (",
        site.name()
    );
    assert!(says.starts_with(&expected), "{says}");
    let full = wait_for_policy_status(control_plane, &site, |s| s.full_count == Some(1)).await;
    assert_eq!(
        limit_usage(&full),
        single_usage("nvidia.com/gpu", "16", "16")
    );
    // A job that asks for more than the limit can never run.
    site.submit("large", 3, 8).await;
    let refused = site.wait_for_phase("large", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "QuotaPolicyExceeded");
    let says = message(&refused);
    assert!(
        says.contains("the job asks for 24 nvidia.com/gpu, of which 16 may be held"),
        "{says}"
    );
    // A raised limit admits pending jobs. A lowered limit stops no running job.
    change_limits(control_plane, &site, gpus(24)).await;
    site.wait_for_phase("c", JobPhase::Running).await;
    change_limits(control_plane, &site, gpus(8)).await;
    let full = wait_for_policy_status(control_plane, &site, |s| {
        limit_usage(s) == single_usage("nvidia.com/gpu", "24", "8")
    });
    full.await;
    site.submit("d", 1, 8).await;
    let waits = site
        .wait_until_queued_for("d", Reason::QuotaPolicyExceeded)
        .await;
    assert!(message(&waits).contains("24 of 8 are held"), "{waits:?}");
    for job in ["a", "b", "c"] {
        assert_eq!(site.list_pods(job).await.len(), 1);
        site.delete::<trellis_api::TrainingJob>(job).await;
    }
    site.wait_for_phase("d", JobPhase::Running).await;
}

#[tokio::test]
async fn ten_of_two_hundred_jobs_run_under_a_limit_of_ten() {
    let (control_plane, site) = (shared_control_plane().await, create_site("many", 8).await);
    apply_limit(control_plane, &site, json!({"runningJobs": 10}), "Queue").await;
    let history = PodHistory::record(site.api::<Pod>());
    let names: Vec<String> = (0..200).map(|n| format!("j{n:03}")).collect();
    join_all(names.iter().map(|name| site.submit(name, 1, 1))).await;
    let all = |s: &QuotaPolicyStatus| limit_usage(s) == single_usage("runningJobs", "10", "10");
    wait_for_policy_status(control_plane, &site, all).await;
    for name in &names {
        // Each has been decided on.
        site.wait_for_status(
            name,
            |s| matches!(s.phase, Some(p) if p != JobPhase::Waiting),
        )
        .await;
    }
    assert_eq!(
        history.uids_by_name().len(),
        10,
        "{:?}",
        history.uids_by_name()
    );
}

#[tokio::test]
async fn deny_policy_refuses_jobs_over_running_and_queued_limits() {
    let (control_plane, site) = (shared_control_plane().await, create_site("deny", 1).await);
    apply_limit(control_plane, &site, json!({"runningJobs": 1}), "Deny").await;
    site.submit("a", 1, 1).await;
    site.wait_for_phase("a", JobPhase::Running).await;
    site.submit("b", 1, 1).await;
    let refused = site.wait_for_phase("b", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "QuotaPolicyExceeded");
    let conditions = refused.status.unwrap().conditions;
    let accepted = conditions.iter().find(|c| c.type_ == "Accepted").unwrap();
    assert_eq!(accepted.status, "False");
    change_limits(
        control_plane,
        &site,
        json!({"runningJobs": 0, "queuedJobs": 1}),
    )
    .await;
    site.delete::<trellis_api::TrainingJob>("a").await;
    site.submit("c", 1, 1).await;
    let refused = site
        .wait_for_status("c", |s| {
            let says = s.full_message();
            says.contains("queuedJobs: 1 waits already, and 1 may")
        })
        .await;
    assert_eq!(phase(&refused), Some(JobPhase::Refused));
    change_limits(
        control_plane,
        &site,
        json!({"runningJobs": 2, "queuedJobs": 1}),
    )
    .await;
    for job in ["b", "c"] {
        site.wait_for_phase(job, JobPhase::Running).await;
    }
}

#[tokio::test]
async fn limits_and_used_gpu_hours_survive_a_restart() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "hours", NodeTemplate::new(3).gpus(8)).await;
    let limits =
        |hours: u32| json!({"runningJobs": 2, "gpuHours": {"limit": hours, "windowHours": 720}});
    write_policy(&control_plane, &site, limits(1), "Queue").await;
    // The ledger of a previous operator. Its entry is so old that it comes before all usage from
    // now on, whenever that is first written. Times are in whole seconds, as the operator writes
    // them.
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let start = now - SignedDuration::from_hours(10 * 24);
    let entries = json!([{"start": start.to_string(), "gpuSeconds": "3600"}]);
    write_ledger(&control_plane, &site, now, entries).await;
    let mut first = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    site.submit("a", 1, 8).await;
    let waits = site
        .wait_until_queued_for("a", Reason::QuotaPolicyExceeded)
        .await;
    let says = message(&waits);
    assert!(
        says.contains("its 1 GPU hour is burnt, and nothing starts until"),
        "{says}"
    );
    check_external_pod_waits(&site).await;
    // A job without GPUs uses no GPU hours.
    site.submit("none", 1, 0).await;
    site.wait_for_phase("none", JobPhase::Running).await;
    change_limits(&control_plane, &site, limits(100)).await;
    site.wait_for_phase("a", JobPhase::Running).await;
    wait_for_policy_status(&control_plane, &site, |s| limit_usage(s).len() == 2).await;
    let before = wait_for_ledger(&control_plane, &site, |_| true).await;
    first.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    site.submit("b", 1, 1).await;
    let _second = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    // The new leader counts the two running jobs.
    let waits = site
        .wait_until_queued_for("b", Reason::QuotaPolicyExceeded)
        .await;
    assert!(message(&waits).contains("2 of 2 are held"), "{waits:?}");
    assert_eq!(site.list_pods("b").await.len(), 0);
    // The new leader writes the ledger again, with the usage before.
    let is_later = |l: &QuotaLedgerSpec| l.until > before.until && l.entries.len() > 1;
    let after = wait_for_ledger(&control_plane, &site, is_later).await;
    assert_eq!(after.entries[0], before.entries[0]);
    // The policy owns the ledger of its name, and without GPU hours it has none.
    let policies: Api<QuotaPolicy> = Api::all(control_plane.client());
    let ledgers: Api<QuotaLedger> = Api::all(control_plane.client());
    let policy = policies.get(site.name()).await.unwrap();
    let ledger = ledgers.get(site.name()).await.unwrap();
    let owners = ledger.metadata.owner_references.unwrap_or_default();
    let owners: Vec<_> = owners.into_iter().map(|owner| Some(owner.uid)).collect();
    assert_eq!(owners, [policy.metadata.uid]);
    change_limits(
        &control_plane,
        &site,
        json!({"gpuHours": null, "runningJobs": 2}),
    )
    .await;
    let gone = eventually(SOON, || async {
        let ledger = ledgers.get_opt(site.name()).await?;
        ensure!(ledger.is_none(), "{ledger:?}");
        Ok(())
    });
    gone.await.unwrap();
}

/// A ledger of the site's policy, as an operator before has written it.
async fn write_ledger(
    control_plane: &ControlPlane,
    site: &TestSite,
    until: Timestamp,
    entries: Value,
) {
    let policies: Api<QuotaPolicy> = Api::all(control_plane.client());
    let policy = policies.get(site.name()).await.unwrap();
    let owner = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
        "name": site.name(), "uid": policy.metadata.uid, "controller": true});
    let ledger = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaLedger",
        "metadata": {"name": site.name(), "ownerReferences": [owner]},
        "spec": {"until": until.to_string(), "entries": entries},
    });
    control_plane.apply_yaml(&ledger.to_string()).await.unwrap();
}

/// A ledger is written once a minute.
const LEDGER_WRITE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(90);

/// Waits until the ledger of the site's policy is as wanted.
async fn wait_for_ledger(
    control_plane: &ControlPlane,
    site: &TestSite,
    wanted: impl Fn(&QuotaLedgerSpec) -> bool,
) -> QuotaLedgerSpec {
    let api: Api<QuotaLedger> = Api::all(control_plane.client());
    let so = wait_for(
        &api,
        site.name(),
        LEDGER_WRITE_TIMEOUT,
        |ledger: &QuotaLedger| wanted(&ledger.spec),
    );
    so.await.unwrap().spec
}

#[tokio::test]
async fn unreadable_ledger_blocks_gpu_jobs_until_it_is_deleted() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "spoilt", NodeTemplate::new(1).gpus(8)).await;
    let limits = json!({"gpuHours": {"limit": 100, "windowHours": 720}});
    write_policy(&control_plane, &site, limits, "Queue").await;
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let entries = json!([{"start": now.to_string(), "gpuSeconds": "-1"}]);
    write_ledger(&control_plane, &site, now, entries).await;
    let _operator = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    site.submit("a", 1, 8).await;
    site.wait_until_queued_for("a", Reason::QuotaPolicyExceeded)
        .await;
    let is_said = |s: &QuotaPolicyStatus| {
        let mut conditions = s.conditions.iter();
        let degraded = conditions.find(|c| c.type_ == "Degraded");
        degraded.is_some_and(|c| c.status == "True" && c.reason == "LedgerUnreadable")
    };
    wait_for_policy_status(&control_plane, &site, is_said).await;
    let ledgers: Api<QuotaLedger> = Api::all(control_plane.client());
    let deleted = ledgers.delete(site.name(), &DeleteParams::default()).await;
    deleted.unwrap();
    site.wait_for_phase("a", JobPhase::Running).await;
    wait_for_ledger(&control_plane, &site, |ledger| !ledger.entries.is_empty()).await;
}

/// External pods use GPU hours as jobs do, and report that they wait for them.
async fn check_external_pod_waits(site: &TestSite) {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "external"},
        "spec": {
            "schedulerName": "trellis", "nodeSelector": {SCOPE_LABEL: site.name()},
            "containers": [{"name": "main", "image": "registry.example/train:1.0",
                "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }))
    .unwrap();
    let pods = site.api::<Pod>();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let told = eventually(SOON, || async {
        let pod = pods.get("external").await?;
        let status = pod.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter().flatten();
        let said = conditions.find_map(|c| c.message).unwrap_or_default();
        let burnt = said.starts_with("QuotaPolicyExceeded: ") && said.contains("gpuHours");
        ensure!(burnt, "{said:?}");
        Ok(())
    });
    told.await.unwrap();
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("external", &at_once).await.unwrap();
}

/// The job's queue is gone, and the new leader does not know what the job was compiled into. A
/// policy that is newer than all of that counts its usage.
#[tokio::test]
async fn running_job_that_cannot_compile_is_charged_to_current_policies() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut first = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let site = TestSite::new(&control_plane, "kept", NodeTemplate::new(1).gpus(8)).await;
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": site.name()}, "spec": {"namespaceSelector": {}},
    });
    control_plane.apply_yaml(&queue.to_string()).await.unwrap();
    let mut job = site.job("a", 1, 4);
    job["spec"]["queueName"] = json!(site.name());
    create_job(&site, job).await;
    site.wait_for_phase("a", JobPhase::Running).await;
    first.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let queues: Api<trellis_api::TrainingQueue> = Api::all(control_plane.client());
    queues
        .delete(site.name(), &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let _second = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let gpus = json!({"resources": [{"resource": "nvidia.com/gpu", "max": 4}]});
    apply_limit(&control_plane, &site, gpus, "Queue").await;
    wait_for_policy_status(&control_plane, &site, |s| {
        limit_usage(s) == single_usage("nvidia.com/gpu", "4", "4")
    })
    .await;
    // In another queue there is room, and none below the limit.
    site.submit("b", 1, 1).await;
    let waits = site
        .wait_until_queued_for("b", Reason::QuotaPolicyExceeded)
        .await;
    assert!(message(&waits).contains("4 of 4 are held"), "{waits:?}");
}

#[tokio::test]
async fn policy_usage_agrees_with_its_recount() {
    let (control_plane, site) = (
        shared_control_plane().await,
        create_site("recount", 2).await,
    );
    let cpu = json!({"resource": "cpu", "max": "500"});
    let gpu = json!({"resource": "nvidia.com/gpu", "flavor": "default", "max": 8});
    let limits = json!({"resources": [cpu, gpu], "runningJobs": 3, "queuedJobs": 5});
    apply_limit(control_plane, &site, limits, "Queue").await;
    // One ends, one is suspended and comes back, one waits. One after the other: those of one
    // second have no order.
    for (job, phase) in [
        ("a", JobPhase::Running),
        ("b", JobPhase::Running),
        ("c", JobPhase::Queued),
    ] {
        site.submit(job, 2, 2).await;
        site.wait_for_phase(job, phase).await;
    }
    let suspend = |on: bool| json!({"spec": {"suspend": on}});
    site.patch("a", suspend(true)).await.unwrap();
    site.wait_for_phase("c", JobPhase::Running).await;
    site.patch("a", suspend(false)).await.unwrap();
    site.wait_for_phase("a", JobPhase::Queued).await;
    site.delete::<trellis_api::TrainingJob>("b").await;
    site.wait_for_phase("a", JobPhase::Running).await;
    // Longer than the operator takes to report a mismatch.
    tokio::time::sleep(std::time::Duration::from_secs(15)).await;
    let status = wait_for_policy_status(control_plane, &site, |_| true).await;
    let degraded = status.conditions.iter().find(|c| c.type_ == "Degraded");
    assert_eq!(
        degraded.map(|c| c.status.as_str()),
        Some("False"),
        "{status:?}"
    );
    let log = operator::shared_operator().unwrap().read_log().unwrap();
    assert!(!log.contains("not what is counted anew"), "{log}");
}
