//! Writes the status of QuotaPolicies: whether they take effect, and the usage of their holders.
//! Changes are collected, as for queues. The ledgers record the used GPU-hours.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tracing::{debug, warn};
use trellis_api::quantity::Amount;
use trellis_api::quota_policy::{QuotaHolder, QuotaPolicyStatus, QuotaUse};
use trellis_api::{Quantity, QuotaPolicy, Reason, names};
use trellis_cache::Cache;
use trellis_cache::watch::Undecodable;
use trellis_dispatch::SchedulerEvent;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_dispatch::context::Context;
use trellis_gang::conditions::ConditionUpdate;
use trellis_gang::key::Key;
use trellis_gang::quota::HOUR_SECONDS;
use trellis_gang::quota::{LimitsReport, base_units};
use trellis_gang::{engine, patch};
use trellis_machine::clock;
use trellis_policies::quota::{LimitId, LimitedQuantity, missing_flavors};

use super::ledger::{self, LEDGER_WRITE_INTERVAL};

/// Time between two rounds.
const UPDATE_INTERVAL: Duration = Duration::from_secs(2);
/// Most holders that the status names.
const MAX_SHOWN_HOLDERS: usize = 20;

/// Writes the status of QuotaPolicies, and their ledgers, until the process ends.
pub async fn maintain_quota_status(context: Arc<Context>, commands: Commands) {
    context.cache.wait_synced().await;
    // Objects that do not decode, once their status reports it.
    let mut reported: BTreeMap<String, Undecodable> = BTreeMap::new();
    // When each status was last written.
    let mut written: BTreeMap<String, Timestamp> = BTreeMap::new();
    loop {
        tokio::time::sleep(UPDATE_INTERVAL).await;
        if context.cache.quotas.objects.is_empty()
            && context.cache.quotas.undecodable_policies.read().is_empty()
        {
            continue;
        }
        let (answer, report) = oneshot::channel();
        context.send_event(SchedulerEvent::AskLimits(answer));
        let Ok(report) = report.await else { continue };
        let report = Arc::new(report);
        context.cache.quotas.set_report(report.clone());
        let unreadable = context.cache.quotas.undecodable_policies.read().clone();
        for (name, object) in &unreadable {
            if reported.get(name) != Some(object)
                && write_undecodable_status(&commands, name, object).await
            {
                reported.insert(name.clone(), object.clone());
            }
        }
        reported.retain(|name, _| unreadable.contains_key(name));
        let objects = context.cache.quotas.objects.all();
        let is_there = |name: &str| context.cache.quotas.get(name).is_some();
        written.retain(|name, _| is_there(name));
        for object in objects {
            let policy = object.metadata.name.clone().unwrap_or_default();
            let (_, policies) = context.cache.quotas.active();
            let unusable = policies.unusable().iter().find(|(of, _)| *of == policy);
            let fault = unusable.map(|(_, why)| why.to_string());
            if fault.is_none() {
                let ledger_write =
                    ledger::write_ledger(&context.cache, &commands, &object, &report).await;
                log_failed_write(ledger_write, &policy, "its ledger was not written");
            }
            let faults = PolicyFaults {
                spec: fault,
                flavor: missing_flavor_fault(&object, |flavor| context.cache.has_flavor(flavor)),
            };
            let now = clock::now();
            let before = written.get(&policy).copied();
            if let Some(patch) = status_patch(&policy, &object, faults, &report, (before, now)) {
                let answer = write_status(&context.cache, &commands, &policy, &patch).await;
                if answer.is_ok() {
                    written.insert(policy.clone(), now);
                }
                log_failed_write(answer, &policy, "its status was not written");
            }
        }
    }
}

/// Faults of a policy that do not depend on its usage.
#[derive(Default)]
struct PolicyFaults {
    /// Why the policy cannot be used at all.
    spec: Option<String>,
    /// The first limit of a flavor that does not exist.
    flavor: Option<String>,
}

/// Returns the fault of the first limit that names a flavor that does not exist.
fn missing_flavor_fault(object: &QuotaPolicy, exists: impl Fn(&str) -> bool) -> Option<String> {
    let (at, flavor) = missing_flavors(object, exists).next()?;
    Some(format!(
        "spec.limits.resources[{at}] limits nothing: there is no ResourceFlavor {flavor:?}; create it, or correct the name"
    ))
}

/// Logs a failed write.
fn log_failed_write(answer: Result<(), WriteError>, policy: &str, text: &str) {
    match answer {
        // The watch shows the newer version before the next round.
        Ok(())
        | Err(WriteError::Conflict(_) | WriteError::NotFound(_) | WriteError::AlreadyExists(_)) => {
        }
        Err(WriteError::Transient(error) | WriteError::Unanswered(error)) => {
            debug!(policy, %error, "{text}");
        }
        Err(error) => warn!(policy, %error, "{text}"),
    }
}

/// Reports in the status of an object that the object does not decode. Returns true if the write
/// need not be repeated.
async fn write_undecodable_status(commands: &Commands, name: &str, object: &Undecodable) -> bool {
    let message = format!("it cannot be read: {}", object.error);
    let conditions = build_conditions(None, Some(message), None, &[], clock::now());
    let patch = json!({"metadata": {"uid": object.uid}, "status": {"conditions": conditions}});
    let written: Result<PartialObjectMeta<QuotaPolicy>, WriteError> = commands
        .patch_cluster_status(name, names::STATUS_MANAGER, &patch)
        .await;
    // The API server refuses the write if the stored spec violates a rule that is newer than the
    // object.
    matches!(written, Ok(_) | Err(WriteError::Refused { .. }))
}

async fn write_status(
    cache: &Cache,
    commands: &Commands,
    name: &str,
    patch: &Value,
) -> Result<(), WriteError> {
    let written: QuotaPolicy = commands
        .patch_cluster_status(name, names::STATUS_MANAGER, patch)
        .await?;
    cache
        .quotas
        .objects
        .update_returned(Key::new("", name), written);
    Ok(())
}

/// Returns the patch of an object's status. None without a change, or if only GPU-hours have
/// changed and the last write is recent.
fn status_patch(
    name: &str,
    object: &QuotaPolicy,
    faults: PolicyFaults,
    report: &LimitsReport,
    (written, now): (Option<Timestamp>, Timestamp),
) -> Option<Value> {
    let before = object.status.clone().unwrap_or_default();
    let after = build_status(name, object, faults, report, now);
    let is_recent = written.is_some_and(|at| now.duration_since(at) < LEDGER_WRITE_INTERVAL);
    let has_changed = match is_recent {
        true => without_hours(&before) != without_hours(&after),
        false => before != after,
    };
    has_changed.then(|| {
        json!({
            "metadata": {
                "uid": object.metadata.uid,
                "resourceVersion": object.metadata.resource_version,
            },
            "status": patch::diff(&before, &after),
        })
    })
}

/// Returns the status without used GPU-hours, which change all the time and alone cause no write.
fn without_hours(status: &QuotaPolicyStatus) -> QuotaPolicyStatus {
    let mut status = status.clone();
    status.gpu_hours_left = None;
    let hours = LimitedQuantity::GpuHours.to_string();
    for holder in &mut status.holders {
        let uses = holder.uses.iter_mut().filter(|u| u.limit == hours);
        uses.for_each(|u| u.used = Quantity::from_units(0));
    }
    status
}

fn build_status(
    name: &str,
    object: &QuotaPolicy,
    faults: PolicyFaults,
    report: &LimitsReport,
    now: Timestamp,
) -> QuotaPolicyStatus {
    let before = object.status.iter().flat_map(|s| &s.conditions);
    let before: Vec<Condition> = before.cloned().collect();
    let mut holders: BTreeMap<Option<&str>, Vec<LimitUsage>> = BTreeMap::new();
    for (limit, (used, max)) in report.usage.iter().filter(|(l, _)| l.policy == name) {
        let holder = limit.holder.requester();
        let uses = holders.entry(holder).or_default();
        uses.push(LimitUsage::from_report(limit, *used, *max, report));
    }
    let count = |n: usize| i64::try_from(n).ok();
    let full = holders
        .values()
        .filter(|uses| uses.iter().any(LimitUsage::is_full));
    let full = full.count();
    let holder_count = holders.len();
    let mut holders: Vec<_> = holders.into_iter().collect();
    holders.sort_by_key(|(_, uses)| Reverse(uses.iter().map(LimitUsage::percent).max()));
    holders.truncate(MAX_SHOWN_HOLDERS);
    QuotaPolicyStatus {
        observed_generation: object.metadata.generation,
        holders: holders
            .into_iter()
            .map(|(requester, uses)| QuotaHolder {
                requester: requester.map(str::to_owned),
                uses: uses.into_iter().map(|u| u.status).collect(),
            })
            .collect(),
        holder_count: count(holder_count),
        full_count: count(full),
        gpu_hours_left: gpu_hours_left(name, report),
        conditions: build_conditions(
            object.metadata.generation,
            faults.spec,
            degraded_reason(name, faults.flavor, report),
            &before,
            now,
        ),
    }
}

/// Returns why limits of a policy are degraded: its ledger cannot be read, the usage of a limit
/// differs from a recount, or a limit names a flavor that does not exist.
fn degraded_reason(
    name: &str,
    missing_flavor: Option<String>,
    report: &LimitsReport,
) -> Option<(Reason, String)> {
    if let Some(why) = report.unreadable_ledgers.get(name) {
        let message = format!(
            "QuotaLedger {name:?} cannot be read ({why}): no job that needs GPUs starts; correct it, or delete it to drop the hours that it records"
        );
        return Some((Reason::LedgerUnreadable, message));
    }
    if let Some(limit) = report
        .inconsistent_limits
        .iter()
        .find(|limit| limit.policy == name)
    {
        let message =
            format!("{limit}: the held amount differs from a recount; report the operator's log");
        return Some((Reason::LedgerMismatch, message));
    }
    missing_flavor.map(|message| (Reason::FlavorNotFound, message))
}

/// Returns the whole GPU-hours that are left to the holder with the fewest. None without a limit of
/// GPU-hours.
fn gpu_hours_left(name: &str, report: &LimitsReport) -> Option<Quantity> {
    if report.unreadable_ledgers.contains_key(name) {
        return Some(whole_quantity(0));
    }
    let is_hours =
        |limit: &LimitId| limit.policy == name && limit.quantity == LimitedQuantity::GpuHours;
    let lines = report.usage.iter().filter(|(limit, _)| is_hours(limit));
    let hours_left = lines.map(|(limit, (_, max))| {
        let max_seconds =
            i128::from(base_units(&limit.quantity, *max)).saturating_mul(HOUR_SECONDS);
        let hours_left = max_seconds
            .saturating_sub(report.used_gpu_seconds(limit))
            .max(0);
        hours_left.checked_div(HOUR_SECONDS).unwrap_or_default()
    });
    hours_left.min().map(whole_quantity)
}

/// Usage of one limit by one holder.
struct LimitUsage {
    used: i128,
    max: i128,
    status: QuotaUse,
}

impl LimitUsage {
    fn from_report(limit: &LimitId, used: i128, max: Amount, report: &LimitsReport) -> Self {
        let used = match &limit.quantity {
            LimitedQuantity::GpuHours => {
                let used_seconds = report.used_gpu_seconds(limit);
                used_seconds.checked_div(HOUR_SECONDS).unwrap_or_default()
            }
            _ => used,
        };
        let max_units = i128::from(base_units(&limit.quantity, max));
        let shown = |amount| match &limit.quantity {
            LimitedQuantity::Resource { resource, .. } => engine::to_quantity(resource, amount),
            _ => whole_quantity(amount),
        };
        Self {
            used,
            max: max_units,
            status: QuotaUse {
                limit: limit.quantity.to_string(),
                used: shown(used),
                max: shown(max_units),
            },
        }
    }

    fn is_full(&self) -> bool {
        self.used >= self.max
    }

    /// Returns the usage in percent. 100 if the limit is zero.
    fn percent(&self) -> i128 {
        let hundredths = self.used.saturating_mul(100);
        hundredths.checked_div(self.max).unwrap_or(100)
    }
}

fn whole_quantity(number: i128) -> Quantity {
    Quantity::from_units(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Returns the message for a policy that cannot be used.
#[must_use]
pub fn no_effect_message(fault: &str) -> String {
    format!("the limits do not take effect, and until they do no job starts: {fault}")
}

fn build_conditions(
    generation: Option<i64>,
    fault: Option<String>,
    degraded: Option<(Reason, String)>,
    before: &[Condition],
    now: Timestamp,
) -> Vec<Condition> {
    let active = fault.is_none();
    let is_degraded = degraded.is_some();
    let (reason, message) = match (fault, degraded) {
        // The fault of a policy without effect takes precedence over a wrong count.
        (Some(fault), _) => (Reason::InvalidSpec, no_effect_message(&fault)),
        (None, Some(degraded)) => degraded,
        (None, None) => (Reason::Accepted, "the limits take effect".to_owned()),
    };
    let update = ConditionUpdate {
        generation,
        reason,
        message,
        previous: before,
        now,
    };
    update.conditions(&[
        ("Active", active),
        ("Degraded", is_degraded),
        ("Ready", active),
        ("Reconciling", false),
        ("Stalled", !active),
    ])
}

#[cfg(test)]
mod tests;
