use serde_json::{Value, json};
use trellis_api::{QuotaLedger, QuotaPolicy};
use trellis_policies::quota::{LimitHolder, QuotaPolicies};

use super::*;
use crate::quota::read_own_ledger;

const START: i64 = 1_000 * 3600;

/// The policy "p" and its ledger.
struct PolicyAndLedger {
    policy: QuotaPolicy,
    ledger: Option<QuotaLedger>,
}

impl PolicyAndLedger {
    fn policies(&self) -> QuotaPolicies {
        QuotaPolicies::load([&self.policy], [])
    }
}

fn policy_without_ledger() -> PolicyAndLedger {
    PolicyAndLedger {
        policy: policy("u", 1),
        ledger: None,
    }
}

fn policy(uid: &str, version: i64) -> QuotaPolicy {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
        "metadata": {"name": "p", "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"subject": {}, "limits": {"gpuHours": {"limit": 16, "windowHours": 48}}},
    }))
    .unwrap()
}

/// Stores the policy's ledger as the watch shows it in that version.
fn write_ledger(quotas: &mut PolicyAndLedger, until: i64, entries: Value) {
    let ledger = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaLedger",
        "metadata": {"name": "p", "uid": "l", "ownerReferences": [{
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy", "name": "p", "uid": "u"}]},
        "spec": {"until": time(until), "entries": entries},
    }))
    .unwrap();
    quotas.ledger = Some(ledger);
}

fn time(second: i64) -> String {
    let time = k8s_openapi::jiff::Timestamp::from_second(second);
    time.unwrap().to_string()
}

fn entry(start: i64, gpu_seconds: &str) -> Value {
    json!({"requester": "alice", "start": time(start), "gpuSeconds": gpu_seconds})
}

fn resume(hours: &mut GpuHourUsage, quotas: &PolicyAndLedger, now: i64) {
    let read_ledger = |policy: &QuotaPolicy| read_own_ledger(policy, quotas.ledger.as_ref());
    hours.read_ledgers([&quotas.policy], read_ledger, now);
}

/// Returns the gate of the limit of Alice, who holds so many GPUs.
fn closure(hours: &mut GpuHourUsage, quotas: &PolicyAndLedger, gpus: i64, now: i64) -> LimitGate {
    let gates = hours.count_until(&quotas.policies(), [(limit("alice"), gpus)], now);
    gates[0].1.clone()
}

/// Returns the gate of a limit of 16 hours that are all used.
fn closed_until(until: i64) -> LimitGate {
    Some(LimitClosure {
        why: "all 16 GPU hours are used".to_owned(),
        until: Some(Time::from_millis(until.saturating_mul(1_000))),
    })
}

/// Returns the gate of a limit whose ledger cannot be read.
fn closed_unreadable() -> LimitGate {
    Some(LimitClosure {
        why: "its QuotaLedger cannot be read, so all GPU hours count as used".to_owned(),
        until: None,
    })
}

fn limit(user: &str) -> LimitId {
    LimitId {
        policy: "p".to_owned(),
        holder: LimitHolder::from_status(Some(user)),
        quantity: LimitedQuantity::GpuHours,
    }
}

fn at(hours: i64) -> i64 {
    START.saturating_add(hours.saturating_mul(3600))
}

/// The time at which a closed limit opens depends on the current limit.
#[test]
fn raised_limit_opens_at_its_own_time() {
    let mut quotas = policy_without_ledger();
    let mut hours = GpuHourUsage::default();
    closure(&mut hours, &quotas, 8, at(0));
    // 24 hours are used: the limit is 16, then 20.
    let before = closure(&mut hours, &quotas, 8, at(3)).unwrap();
    let mut raised = policy("u", 2);
    raised.spec.limits.gpu_hours.as_mut().unwrap().limit = 20;
    quotas.policy = raised;
    let after = closure(&mut hours, &quotas, 0, at(3)).unwrap();
    assert_eq!(after.why, "all 20 GPU hours are used");
    assert!(after.until < before.until, "{before:?} {after:?}");
}

#[test]
fn used_hours_close_the_limit_until_the_window_moves() {
    let policies = policy_without_ledger().policies();
    let mut hours = GpuHourUsage::default();
    let mut gate = |gpus: i64, hour: i64| {
        let gpus_held = [(limit("alice"), gpus)];
        let gates = hours.count_until(&policies, gpus_held, at(hour));
        (
            gates[0].1.clone(),
            hours.next_change(&policies).map(|t| (t - START) / 3600),
        )
    };
    // 8 GPUs use 16 hours in two hours.
    assert_eq!(gate(8, 0), (None, Some(2)));
    assert_eq!(gate(8, 1), (None, Some(2)));
    let (closed, next) = gate(8, 2);
    assert_eq!((closed, next), (closed_until(at(49)), Some(49)));
    // Running jobs continue to use hours, so the limit stays closed for longer.
    assert_eq!(gate(8, 3).0, closed_until(at(49)));
    assert_eq!(gate(0, 4).0, closed_until(at(49)));
    assert_eq!(gate(0, 49).0, closed_until(at(51)));
    assert_eq!(gate(0, 51), (None, None));
    assert_eq!(gate(0, 100), (None, None));
    assert_eq!(
        hours.used_hours().count(),
        0,
        "a holder without usage is forgotten"
    );
}

#[test]
fn usage_during_a_restart_is_counted_from_the_ledger() {
    let policies = policy_without_ledger().policies();
    let mut hours = GpuHourUsage::default();
    hours.count_until(&policies, [(limit("alice"), 8)], at(0));
    hours.count_until(&policies, [(limit("alice"), 8)], at(1));
    let used_hours = hours.used_hours().flat_map(|(_, _, parts)| parts);
    let entries = used_hours.map(|part| entry(part.start, &part.gpu_seconds.to_string()));
    let entries: Vec<Value> = entries.collect();
    let mut quotas = policy_without_ledger();
    write_ledger(&mut quotas, at(1), json!(entries));
    let policies = quotas.policies();
    let mut successor = GpuHourUsage::default();
    resume(&mut successor, &quotas, at(1));
    // The job ran for half an hour without a leader.
    let half = at(1).saturating_add(1800);
    let gates = successor.count_until(&policies, [(limit("alice"), 8)], half);
    assert_eq!(gates, [(limit("alice"), None)]);
    assert_eq!(successor.next_change(&policies), Some(at(2)));
    let gates = successor.count_until(&policies, [(limit("alice"), 8)], at(2));
    assert!(gates[0].1.is_some());
}

#[test]
fn deleted_policy_closes_no_limit() {
    let policies = policy_without_ledger().policies();
    let mut hours = GpuHourUsage::default();
    hours.count_until(&policies, [(limit("alice"), 8)], at(0));
    assert!(
        hours.count_until(&policies, [(limit("alice"), 8)], at(3))[0]
            .1
            .is_some()
    );
    let no_policies = QuotaPolicies::default();
    let gates = hours.count_until(&no_policies, [(limit("alice"), 8)], at(4));
    assert_eq!(gates, [(limit("alice"), None)]);
}

#[test]
fn usage_still_counts_while_the_policy_is_unreadable() {
    let quotas = policy_without_ledger();
    let policies = quotas.policies();
    let mut hours = GpuHourUsage::default();
    let mut count = |policies: &QuotaPolicies, gpus: i64, hour: i64| {
        let gates = hours.count_until(policies, [(limit("alice"), gpus)], at(hour));
        gates.first().map(|(_, gate)| gate.is_some())
    };
    assert_eq!(count(&policies, 8, 0), Some(false));
    let unreadable = [("p".to_owned(), "no".to_owned())];
    let broken = QuotaPolicies::load([], unreadable);
    // No job starts meanwhile, and running jobs use hours.
    assert_eq!(count(&broken, 8, 1), Some(false));
    assert_eq!(count(&policies, 8, 2), Some(true));
    assert_eq!(count(&broken, 0, 3), Some(true));
    assert_eq!(count(&policies, 0, 4), Some(true));
}

#[test]
fn ledger_of_another_policy_of_that_name_is_ignored() {
    let mut quotas = policy_without_ledger();
    write_ledger(&mut quotas, at(0), json!([entry(at(0), "57600")]));
    let mut hours = GpuHourUsage::default();
    resume(&mut hours, &quotas, at(1));
    assert!(closure(&mut hours, &quotas, 0, at(1)).is_some());
    // The policy is deleted and created again: its usage is dropped.
    quotas.policy = policy("v", 2);
    resume(&mut hours, &quotas, at(1));
    assert_eq!(closure(&mut hours, &quotas, 8, at(1)), None);
    let mut successor = GpuHourUsage::default();
    resume(&mut successor, &quotas, at(1));
    assert_eq!(closure(&mut successor, &quotas, 8, at(1)), None);
}

#[test]
fn ledger_changes_after_the_first_read_return_no_hours() {
    let mut quotas = policy_without_ledger();
    write_ledger(&mut quotas, at(0), json!([entry(at(0), "57600")]));
    let mut hours = GpuHourUsage::default();
    resume(&mut hours, &quotas, at(1));
    for entries in [json!([]), json!([entry(at(0), "lots")])] {
        write_ledger(&mut quotas, at(0), entries);
        resume(&mut hours, &quotas, at(1));
        assert_eq!(closure(&mut hours, &quotas, 0, at(1)), closed_until(at(49)));
        assert!(hours.unreadable().is_empty());
    }
}

#[test]
fn future_times_of_a_ledger_count_as_now() {
    let mut quotas = policy_without_ledger();
    write_ledger(
        &mut quotas,
        at(1_000_000),
        json!([entry(at(2_000_000), "3600")]),
    );
    let mut hours = GpuHourUsage::default();
    resume(&mut hours, &quotas, at(0));
    // 8 GPUs use the other 15 hours in less than two, although the ledger's time is later.
    assert_eq!(closure(&mut hours, &quotas, 8, at(0)), None);
    assert!(closure(&mut hours, &quotas, 0, at(2)).is_some());
    // The entry leaves the window like any other.
    assert_eq!(closure(&mut hours, &quotas, 0, at(60)), None);
}

#[test]
fn old_ledger_is_read_quickly() {
    let mut quotas = policy_without_ledger();
    write_ledger(&mut quotas, -377_000_000_000, json!([entry(0, "3600")]));
    let mut hours = GpuHourUsage::default();
    resume(&mut hours, &quotas, at(0));
    // The jobs count as running since the time of the ledger.
    assert!(closure(&mut hours, &quotas, 8, at(0)).is_some());
}

#[test]
fn unreadable_ledger_closes_the_limit_until_corrected_or_deleted() {
    let mut quotas = policy_without_ledger();
    write_ledger(&mut quotas, at(0), json!([entry(at(0), "lots")]));
    let mut hours = GpuHourUsage::default();
    let look = |hours: &mut GpuHourUsage, quotas: &PolicyAndLedger, gpus: i64, hour: i64| {
        resume(hours, quotas, at(hour));
        closure(hours, quotas, gpus, at(hour))
    };
    // All users of the policy wait.
    assert_eq!(look(&mut hours, &quotas, 8, 0), closed_unreadable());
    assert!(hours.unreadable()["p"].contains("spec.entries[0].gpuSeconds"));
    // Running jobs use hours, which are added to the ledger once it can be read.
    assert_eq!(look(&mut hours, &quotas, 8, 1), closed_unreadable());
    write_ledger(&mut quotas, at(0), json!([entry(at(0), "28799")]));
    assert_eq!(look(&mut hours, &quotas, 0, 1), None);
    assert!(hours.unreadable().is_empty());
    assert_eq!(look(&mut hours, &quotas, 8, 1), None);
    assert!(look(&mut hours, &quotas, 8, 2).is_some());
    // Without a ledger, the operator starts from zero.
    let mut successor = GpuHourUsage::default();
    write_ledger(&mut quotas, at(0), json!([entry(at(0), "-5")]));
    assert_eq!(look(&mut successor, &quotas, 0, 2), closed_unreadable());
    quotas.ledger = None;
    assert_eq!(look(&mut successor, &quotas, 0, 2), None);
}
