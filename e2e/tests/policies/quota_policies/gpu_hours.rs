//! GPU hours: the ledger of a QuotaPolicy, after a restart and when it is unreadable.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::quota_ledger::QuotaLedgerSpec;
use trellis_api::quota_policy::QuotaPolicyStatus;
use trellis_api::{QuotaLedger, QuotaPolicy, Reason};
use trellis_e2e::cluster::{NodeTemplate, SCOPE_LABEL};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message};
use trellis_e2e::wait::{eventually, wait_for};

use crate::operator_program;
use crate::quota_policies::{change_limits, limit_usage, wait_for_policy_status, write_policy};

#[tokio::test]
async fn limits_and_used_gpu_hours_survive_a_restart() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "hours", NodeTemplate::new(3).gpus(8)).await;
    let limits =
        |hours: u32| json!({"runningJobs": 2, "gpuHours": {"limit": hours, "windowHours": 720}});
    write_policy(&control_plane, &site, limits(1), "Queue").await;
    // The ledger of a previous operator. Its entry is older than all usage from now on. Times are
    // in whole seconds, as the operator writes them.
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let start = now - SignedDuration::from_hours(10 * 24);
    let entries = json!([{"start": start.to_string(), "gpuSeconds": "3600"}]);
    write_ledger(&control_plane, &site, now, entries).await;
    let mut first = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    site.submit("a", 1, 8).await;
    let pending = site
        .wait_until_queued_for("a", Reason::QuotaPolicyExceeded)
        .await;
    let status_message = message(&pending);
    assert!(
        status_message.contains("its 1 GPU hour is used, and nothing starts until"),
        "{status_message}"
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
    let pending = site
        .wait_until_queued_for("b", Reason::QuotaPolicyExceeded)
        .await;
    assert!(message(&pending).contains("2 of 2 are held"), "{pending:?}");
    assert_eq!(site.list_pods("b").await.len(), 0);
    // The new leader writes the ledger again, including the earlier usage.
    let is_later = |l: &QuotaLedgerSpec| l.until > before.until && l.entries.len() > 1;
    let after = wait_for_ledger(&control_plane, &site, is_later).await;
    assert_eq!(after.entries[0], before.entries[0]);
    // The policy owns the ledger with its name. Without GPU hours, it has no ledger.
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
    let deletion = eventually(SOON, || async {
        let ledger = ledgers.get_opt(site.name()).await?;
        ensure!(ledger.is_none(), "{ledger:?}");
        Ok(())
    });
    deletion.await.unwrap();
}

/// Returns a ledger of the site's policy, as a previous operator has written it.
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

/// The operator writes a ledger once per minute.
const LEDGER_WRITE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(90);

/// Waits until the ledger of the site's policy satisfies the condition.
async fn wait_for_ledger(
    control_plane: &ControlPlane,
    site: &TestSite,
    condition: impl Fn(&QuotaLedgerSpec) -> bool,
) -> QuotaLedgerSpec {
    let api: Api<QuotaLedger> = Api::all(control_plane.client());
    let reached = wait_for(
        &api,
        site.name(),
        LEDGER_WRITE_TIMEOUT,
        |ledger: &QuotaLedger| condition(&ledger.spec),
    );
    reached.await.unwrap().spec
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

/// External pods use GPU hours like jobs, and report when they wait for them.
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
    let waiting_pod = eventually(SOON, || async {
        let pod = pods.get("external").await?;
        let status = pod.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter().flatten();
        let condition_message = conditions.find_map(|c| c.message).unwrap_or_default();
        let is_reported = condition_message.starts_with("QuotaPolicyExceeded: ")
            && condition_message.contains("gpuHours");
        ensure!(is_reported, "{condition_message:?}");
        Ok(())
    });
    waiting_pod.await.unwrap();
    let no_grace = DeleteParams::default().grace_period(0);
    pods.delete("external", &no_grace).await.unwrap();
}
