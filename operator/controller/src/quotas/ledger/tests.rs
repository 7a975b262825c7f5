use trellis_gang::quota::{read_ledger, read_own_ledger};
use trellis_policies::quota::{GpuTimeUsage, LimitHolder, LimitId, LimitedQuantity};

use super::*;

const START: i64 = 1_000 * 3600;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(START.saturating_add(second)).unwrap()
}

fn policy(uid: &str, limits: Value) -> QuotaPolicy {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
        "metadata": {"name": "p", "uid": uid},
        "spec": {"subject": {}, "limits": limits},
    }))
    .unwrap()
}

fn policy_with_gpu_hours(uid: &str) -> QuotaPolicy {
    policy(uid, json!({"gpuHours": {"limit": 16, "windowHours": 48}}))
}

/// Returns a ledger of the policy with that uid, written at that second.
fn ledger(owner: &str, second: i64, entries: Value) -> QuotaLedger {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaLedger",
        "metadata": {"name": "p", "uid": "ledger", "resourceVersion": "7", "ownerReferences": [{
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy", "name": "p", "uid": owner}]},
        "spec": {"until": at(second).to_string(), "entries": entries},
    }))
    .unwrap()
}

fn entry(seconds: &str) -> Value {
    json!({"requester": "ada", "start": at(0).to_string(), "gpuSeconds": seconds})
}

/// Returns a report in which ada has used so many GPU-seconds at that second.
fn report(gpu_seconds: i128, second: i64) -> LimitsReport {
    let limit = LimitId {
        policy: "p".to_owned(),
        holder: LimitHolder::Requester("ada".to_owned()),
        quantity: LimitedQuantity::GpuHours,
    };
    let part = GpuTimeUsage {
        start: START,
        gpu_seconds,
    };
    let mut report = LimitsReport::default();
    let until = START.saturating_add(second);
    report.used_gpu_hours.insert(limit, (until, vec![part]));
    report
}

fn stored(ledger: &QuotaLedger) -> StoredLedger<'_> {
    StoredLedger {
        ledger: Some(ledger),
        undecodable: None,
    }
}

#[test]
fn ledger_is_created_with_its_first_entry() {
    let policy = policy_with_gpu_hours("u");
    let no_ledger = StoredLedger::default();
    assert_eq!(
        due_write(&policy, no_ledger, &LimitsReport::default(), at(0)),
        None
    );
    let Some(LedgerWrite::Create(created)) = due_write(&policy, no_ledger, &report(90, 5), at(5))
    else {
        panic!("nothing is created");
    };
    assert!(is_ledger_owned_by(&created, &policy));
    assert!(!is_ledger_owned_by(
        &created,
        &policy_with_gpu_hours("another")
    ));
    let usage = read_own_ledger(&policy, Some(&created)).unwrap().unwrap();
    assert_eq!(usage.until, at(5).as_second());
    let part = GpuTimeUsage {
        start: START,
        gpu_seconds: 90,
    };
    let holder = LimitHolder::Requester("ada".to_owned());
    assert_eq!(usage.holders, [(holder, vec![part])].into());
}

#[test]
fn ledger_is_patched_once_a_minute_with_its_resource_version() {
    let policy = policy_with_gpu_hours("u");
    let stored_ledger = ledger("u", 0, json!([entry("90")]));
    let write = |second| {
        due_write(
            &policy,
            stored(&stored_ledger),
            &report(180, second),
            at(second),
        )
    };
    assert_eq!(write(1), None);
    assert_eq!(write(59), None);
    let Some(LedgerWrite::Patch(patch)) = write(60) else {
        panic!("nothing is written");
    };
    assert_eq!(
        patch["metadata"],
        json!({"uid": "ledger", "resourceVersion": "7"})
    );
    assert_eq!(patch["spec"]["until"], json!(at(60).to_string()));
    assert_eq!(patch["spec"]["entries"][0]["gpuSeconds"], "180");
    // An entry that has left the window is removed, once.
    let no_usage = LimitsReport::default();
    let Some(LedgerWrite::Patch(patch)) =
        due_write(&policy, stored(&stored_ledger), &no_usage, at(60))
    else {
        panic!("nothing is written");
    };
    assert_eq!(patch["spec"]["entries"], Value::Null);
    let empty = ledger("u", 0, json!([]));
    assert_eq!(due_write(&policy, stored(&empty), &no_usage, at(600)), None);
}

#[test]
fn ledger_with_a_future_time_is_overwritten() {
    let future = ledger("u", 1_000_000, json!([entry("90")]));
    let write = due_write(
        &policy_with_gpu_hours("u"),
        stored(&future),
        &report(90, 1),
        at(1),
    );
    assert!(matches!(write, Some(LedgerWrite::Patch(_))), "{write:?}");
}

#[test]
fn ledger_is_deleted_without_gpu_hours_or_with_another_owner() {
    let deleted = Some(LedgerWrite::Delete {
        uid: "ledger".to_owned(),
    });
    let without_gpu_hours = policy("u", json!({"runningJobs": 1}));
    let ledger_of_u = ledger("u", 0, json!([entry("90")]));
    let no_usage = LimitsReport::default();
    assert_eq!(
        due_write(&without_gpu_hours, stored(&ledger_of_u), &no_usage, at(1)),
        deleted
    );
    assert_eq!(
        due_write(
            &without_gpu_hours,
            StoredLedger::default(),
            &no_usage,
            at(1)
        ),
        None
    );
    let recreated_policy = policy_with_gpu_hours("another");
    assert_eq!(
        read_own_ledger(&recreated_policy, Some(&ledger_of_u)),
        Ok(None)
    );
    assert_eq!(
        due_write(
            &recreated_policy,
            stored(&ledger_of_u),
            &report(90, 1),
            at(1)
        ),
        deleted
    );
    // A policy from a file has no uid.
    let mut policy_from_file = policy_with_gpu_hours("u");
    policy_from_file.metadata.uid = None;
    assert!(
        read_own_ledger(&policy_from_file, Some(&ledger_of_u))
            .unwrap()
            .is_some()
    );
}

#[test]
fn ledger_with_an_invalid_entry_is_unreadable_and_stays() {
    let policy = policy_with_gpu_hours("u");
    for (amount, expected) in [
        ("lots", "spec.entries[1].gpuSeconds is not a number"),
        ("", "spec.entries[1].gpuSeconds is empty"),
        ("-1", "spec.entries[1].gpuSeconds is negative"),
        ("9e30", "spec.entries[1].gpuSeconds is too large"),
    ] {
        let invalid = ledger("u", 0, json!([entry("1"), entry(amount)]));
        let error = read_own_ledger(&policy, Some(&invalid)).unwrap_err();
        assert!(error.starts_with(expected), "{amount}: {error}");
        // A ledger that the policy does not own is ignored.
        assert_eq!(
            read_own_ledger(&policy_with_gpu_hours("another"), Some(&invalid)),
            Ok(None)
        );
        let mut report = report(1, 1);
        report.unreadable_ledgers.insert("p".to_owned(), error);
        assert_eq!(due_write(&policy, stored(&invalid), &report, at(600)), None);
    }
    // A part of a second counts as a second.
    let part = ledger("u", 0, json!([entry("500m")]));
    let usage = read_ledger(&part).unwrap();
    let parts: Vec<_> = usage.holders.values().flatten().collect();
    assert_eq!(parts[0].gpu_seconds, 1);
}

#[test]
fn undecodable_ledger_that_was_read_before_is_overwritten() {
    let undecodable = Undecodable {
        uid: "ledger".to_owned(),
        generation: None,
        error: "no".to_owned(),
    };
    let stored = StoredLedger {
        ledger: None,
        undecodable: Some(&undecodable),
    };
    let write = due_write(&policy_with_gpu_hours("u"), stored, &report(90, 1), at(1));
    let Some(LedgerWrite::Patch(patch)) = write else {
        panic!("{write:?}");
    };
    assert_eq!(patch["metadata"]["uid"], "ledger");
    assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "u");
    assert_eq!(patch["spec"]["entries"][0]["gpuSeconds"], "90");
}

#[test]
fn ledger_of_many_holders_has_one_entry_per_holder() {
    let mut report = LimitsReport::default();
    for user in 0..200 {
        let limit = LimitId {
            policy: "p".to_owned(),
            holder: LimitHolder::Requester(format!("user-{user:03}")),
            quantity: LimitedQuantity::GpuHours,
        };
        let parts = (0..48).map(|part| GpuTimeUsage {
            start: START + part * 3600,
            gpu_seconds: 10,
        });
        report
            .used_gpu_hours
            .insert(limit, (START, parts.collect()));
    }
    let spec = ledger_spec("p", &report, at(0));
    assert_eq!(spec.entries.len(), 200);
    let last = Time(at(47 * 3600));
    assert!(spec.entries.iter().all(|e| e.start == last));
    assert!(spec.entries.iter().all(|e| e.gpu_seconds.as_str() == "480"));
}
