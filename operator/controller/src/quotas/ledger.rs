//! Writes used GPU time into QuotaLedgers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Resource;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use trellis_api::quantity::Amount;
use trellis_api::quota_ledger::{LedgerEntry, QuotaLedger, QuotaLedgerSpec};
use trellis_api::{Quantity, QuotaPolicy};
use trellis_cache::Cache;
use trellis_cache::watch::Undecodable;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_gang::key::Key;
use trellis_gang::patch;
use trellis_gang::quota::LimitsReport;
use trellis_gang::quota::is_ledger_owned_by;
use trellis_machine::clock;

/// Field manager of the ledgers.
const MANAGER: &str = trellis_api::names::STATUS_MANAGER;
/// Least time between two writes of a ledger. After a restart, the GPUs of running jobs count from
/// the last write on.
pub(super) const LEDGER_WRITE_INTERVAL: SignedDuration = SignedDuration::from_secs(60);
/// Most entries of a ledger: 100 holders with all parts of the window. A ledger with more holders
/// has one entry for each holder.
const MAX_ENTRIES: usize = 5_000;

/// The ledger of a policy, as the watch shows it.
#[derive(Clone, Copy, Debug, Default)]
struct StoredLedger<'a> {
    ledger: Option<&'a QuotaLedger>,
    undecodable: Option<&'a Undecodable>,
}

/// A write of a ledger.
#[derive(Clone, Debug, PartialEq)]
enum LedgerWrite {
    Create(Box<QuotaLedger>),
    Patch(Value),
    Delete { uid: String },
}

/// Writes the ledger of a policy, if that is due.
pub(super) async fn write_ledger(
    cache: &Cache,
    commands: &Commands,
    policy: &QuotaPolicy,
    report: &LimitsReport,
) -> Result<(), WriteError> {
    let name = policy.metadata.name.as_deref().unwrap_or_default();
    let key = Key::new("", name);
    let ledger = cache.quotas.ledgers.get(&key);
    let undecodable = cache.quotas.undecodable_ledgers.read().get(name).cloned();
    let stored = StoredLedger {
        ledger: ledger.as_deref(),
        undecodable: undecodable.as_ref(),
    };
    match due_write(policy, stored, report, clock::now()) {
        None => {}
        Some(LedgerWrite::Create(ledger)) => {
            let written = commands.create_cluster(MANAGER, &*ledger).await?;
            cache.quotas.ledgers.insert_returned(key, written);
        }
        Some(LedgerWrite::Patch(patch)) => {
            let path = QuotaLedger::url_path(&(), None);
            let written = commands.patch_as(&path, name, MANAGER, &patch).await?;
            cache.quotas.ledgers.update_returned(key, written);
        }
        Some(LedgerWrite::Delete { uid }) => {
            commands.delete_cluster::<QuotaLedger>(name, &uid).await?
        }
    }
    Ok(())
}

/// Returns the write that is due. An unreadable ledger stays as it is.
fn due_write(
    policy: &QuotaPolicy,
    stored: StoredLedger<'_>,
    report: &LimitsReport,
    now: Timestamp,
) -> Option<LedgerWrite> {
    let name = policy.metadata.name.as_deref().unwrap_or_default();
    if report.unreadable_ledgers.contains_key(name) {
        return None;
    }
    let uid = |meta: &ObjectMeta| meta.uid.clone().unwrap_or_default();
    if policy.spec.limits.gpu_hours.is_none() {
        let ledger_uid = stored.ledger.map(|ledger| uid(&ledger.metadata));
        let uid = ledger_uid.or(stored.undecodable.map(|object| object.uid.clone()))?;
        return Some(LedgerWrite::Delete { uid });
    }
    let spec = ledger_spec(name, report, now);
    if let Some(ledger) = stored.ledger {
        if !is_ledger_owned_by(ledger, policy) {
            // The owner of the ledger is deleted and the garbage collector is late, or another
            // client wrote the ledger.
            let uid = uid(&ledger.metadata);
            return Some(LedgerWrite::Delete { uid });
        }
        // The operator never writes a time in the future, so such a ledger is overwritten.
        let age = now.duration_since(ledger.spec.until.0);
        let is_recent = !age.is_negative() && age < LEDGER_WRITE_INTERVAL;
        let is_idle = spec.entries.is_empty() && ledger.spec.entries.is_empty();
        let patch = || {
            json!({
                "metadata": {
                    "uid": ledger.metadata.uid,
                    "resourceVersion": ledger.metadata.resource_version,
                },
                "spec": patch::diff(&ledger.spec, &spec),
            })
        };
        return (!is_recent && !is_idle).then(|| LedgerWrite::Patch(patch()));
    }
    if let Some(object) = stored.undecodable {
        // The operator read the ledger before another client damaged it, and has counted since.
        return Some(LedgerWrite::Patch(json!({
            "metadata": {"uid": object.uid, "ownerReferences": [owner_reference(policy)]},
            "spec": {"until": spec.until, "entries": spec.entries},
        })));
    }
    let ledger = || QuotaLedger {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: Some(vec![owner_reference(policy)]),
            ..ObjectMeta::default()
        },
        spec: spec.clone(),
    };
    (!spec.entries.is_empty()).then(|| LedgerWrite::Create(Box::new(ledger())))
}

fn owner_reference(policy: &QuotaPolicy) -> OwnerReference {
    OwnerReference {
        api_version: QuotaPolicy::api_version(&()).into_owned(),
        kind: QuotaPolicy::kind(&()).into_owned(),
        name: policy.metadata.name.clone().unwrap_or_default(),
        uid: policy.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Returns the used GPU time of a policy, by holder and part of the window.
fn ledger_spec(policy: &str, report: &LimitsReport, now: Timestamp) -> QuotaLedgerSpec {
    let limits = report
        .used_gpu_hours
        .iter()
        .filter(|(l, _)| l.policy == policy);
    let mut entries = Vec::new();
    let mut last = None;
    for (limit, (until, parts)) in limits {
        last = last.max(Some(*until));
        for part in parts {
            let Ok(start) = Timestamp::from_second(part.start) else {
                continue;
            };
            let seconds = i64::try_from(part.gpu_seconds).unwrap_or(i64::MAX);
            entries.push(LedgerEntry {
                requester: limit.holder.requester().map(str::to_owned),
                start: Time(start),
                gpu_seconds: Quantity::from_units(seconds),
            });
        }
    }
    if entries.len() > MAX_ENTRIES {
        entries = merge_by_holder(entries);
    }
    let until = last.and_then(|until| Timestamp::from_second(until).ok());
    // Ledgers have whole seconds.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    QuotaLedgerSpec {
        until: Time(until.unwrap_or(now)),
        entries,
    }
}

/// Merges the entries of each holder into one entry with the latest start. After a restart, such an
/// entry stays in the window for longer than its parts would.
fn merge_by_holder(entries: Vec<LedgerEntry>) -> Vec<LedgerEntry> {
    let mut merged: Vec<LedgerEntry> = Vec::new();
    // INVARIANT: the entries are sorted by holder and time.
    for entry in entries {
        match merged.last_mut() {
            Some(last) if last.requester == entry.requester => {
                let seconds = |q: &Quantity| q.amount().map_or(0, Amount::floor_units);
                let sum = seconds(&last.gpu_seconds).saturating_add(seconds(&entry.gpu_seconds));
                last.gpu_seconds = Quantity::from_units(sum);
                last.start = entry.start;
            }
            _ => merged.push(entry),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
