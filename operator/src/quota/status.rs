//! What is written about QuotaPolicies: whether they take effect, who holds what, and what is
//! burnt, which is counted on from after a restart. Gathered, as for queues.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::core::PartialObjectMeta;
use serde_json::json;
use tokio::sync::oneshot;
use tracing::{debug, warn};
use trellis_api::quantity::Amount;
use trellis_api::quota_policy::{BurntGpuTime, QuotaHolder, QuotaPolicyStatus, QuotaUse};
use trellis_api::{Quantity, QuotaPolicy, Reason, names};
use trellis_policies::quota::{LimitId, What};

use super::hours::HOUR;
use super::{LimitsReport, base_units};
use crate::commands::{Commands, WriteError};
use crate::conditions::Said;
use crate::key::Key;
use crate::patch;
use crate::scheduling::{Feed, gang};
use crate::world::{Undecodable, World};

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(2);
/// What is burnt alone is written that often. After a restart what is held is counted from
/// the last time on.
const BURNT_EVERY: SignedDuration = SignedDuration::from_secs(60);
/// Holders that are told.
const TOLD: usize = 20;
/// Parts of burnt time that are kept in one object: of 100 holders with all of theirs. Of more
/// one part each is.
const PARTS: usize = 5_000;
/// Writes the status of QuotaPolicies until the process ends.
pub async fn keep_quota_status(world: Arc<World>, commands: Commands) {
    world.synced().await;
    // What was said of objects that do not decode.
    let mut told: BTreeMap<String, Undecodable> = BTreeMap::new();
    loop {
        tokio::time::sleep(EVERY).await;
        if world.quotas.objects.is_empty() && world.quotas.unreadable.read().is_empty() {
            continue;
        }
        let (answer, report) = oneshot::channel();
        world.tell(Feed::AskLimits(answer));
        let Ok(report) = report.await else { continue };
        let report = Arc::new(report);
        world.quotas.stand(report.clone());
        let unreadable = world.quotas.unreadable.read().clone();
        for (name, object) in &unreadable {
            if told.get(name) != Some(object) && refuse(&commands, name, object).await {
                told.insert(name.clone(), object.clone());
            }
        }
        told.retain(|name, _| unreadable.contains_key(name));
        for object in world.quotas.objects.all() {
            let policy = object.metadata.name.clone().unwrap_or_default();
            match write(&world, &commands, &policy, &object, &report).await {
                // The watch brings the newer version, and the next look is soon.
                Ok(()) | Err(WriteError::Conflict(_) | WriteError::NotFound(_)) => {}
                Err(WriteError::Transient(error) | WriteError::Unanswered(error)) => {
                    debug!(policy, %error, "its status was not written");
                }
                Err(error) => warn!(policy, %error, "its status was not written"),
            }
        }
    }
}

/// Says of an object that does not decode that it does not. True if that need not be said again.
async fn refuse(commands: &Commands, name: &str, object: &Undecodable) -> bool {
    let message = format!("it cannot be read: {}", object.error);
    let conditions = conditions(None, Some(message), None, &[], Timestamp::now());
    let patch = json!({"metadata": {"uid": object.uid}, "status": {"conditions": conditions}});
    let written: Result<PartialObjectMeta<QuotaPolicy>, WriteError> = commands
        .patch_cluster_status(name, names::STATUS_MANAGER, &patch)
        .await;
    // The API server refuses its status where the stored spec breaks a rule of today.
    matches!(written, Ok(_) | Err(WriteError::Refused { .. }))
}

async fn write(
    world: &World,
    commands: &Commands,
    name: &str,
    object: &QuotaPolicy,
    report: &LimitsReport,
) -> Result<(), WriteError> {
    let (_, policies) = world.quotas.active();
    let unusable = policies.unusable().iter().find(|(of, _)| of == name);
    let fault = unusable.map(|(_, why)| why.to_string());
    let is_usable = fault.is_none();
    let before = object.status.clone().unwrap_or_default();
    let now = Timestamp::now();
    let mut after = status(name, object, fault, report, now);
    let written = before.burnt_until.as_ref().map(|t| t.0);
    let is_recent = written.is_some_and(|at| now.duration_since(at) < BURNT_EVERY);
    let burnt = (after.burnt.clone(), after.burnt_until.clone());
    (after.burnt, after.burnt_until) = (before.burnt.clone(), before.burnt_until.clone());
    let is_news = without_hours(&before) != without_hours(&after);
    // Of one that takes no effect nothing is counted that is not written already.
    let keeps_burnt = is_usable && !(burnt.0.is_empty() && before.burnt.is_empty());
    if !is_news && (is_recent || !keeps_burnt) {
        return Ok(());
    }
    if keeps_burnt {
        (after.burnt, after.burnt_until) = burnt;
    }
    let patch = json!({
        "metadata": {
            "uid": object.metadata.uid,
            "resourceVersion": object.metadata.resource_version,
        },
        "status": patch::between(&before, &after),
    });
    let written: QuotaPolicy = commands
        .patch_cluster_status(name, names::STATUS_MANAGER, &patch)
        .await?;
    world.quotas.objects.answered(Key::new("", name), written);
    Ok(())
}

/// The hours that are burnt change all the while: alone they are no news.
fn without_hours(status: &QuotaPolicyStatus) -> QuotaPolicyStatus {
    let mut status = status.clone();
    status.gpu_hours_left = None;
    let hours = What::GpuHours.to_string();
    for holder in &mut status.holders {
        let uses = holder.uses.iter_mut().filter(|u| u.limit == hours);
        uses.for_each(|u| u.used = Quantity::from_units(0));
    }
    status
}

fn status(
    name: &str,
    object: &QuotaPolicy,
    fault: Option<String>,
    report: &LimitsReport,
    now: Timestamp,
) -> QuotaPolicyStatus {
    let before = object.status.iter().flat_map(|s| &s.conditions);
    let before: Vec<Condition> = before.cloned().collect();
    let mut holders: BTreeMap<Option<&str>, Vec<Use>> = BTreeMap::new();
    for (limit, (used, max)) in report.lines.iter().filter(|(l, _)| l.policy == name) {
        let holder = limit.holder.requester();
        let uses = holders.entry(holder).or_default();
        uses.push(Use::of(limit, *used, *max, report));
    }
    let count = |n: usize| i64::try_from(n).ok();
    let full = holders
        .values()
        .filter(|uses| uses.iter().any(Use::is_full));
    let full = full.count();
    let all = holders.len();
    let mut holders: Vec<_> = holders.into_iter().collect();
    holders.sort_by_key(|(_, uses)| Reverse(uses.iter().map(Use::percent).max()));
    holders.truncate(TOLD);
    let (burnt, until) = burnt(name, report);
    QuotaPolicyStatus {
        observed_generation: object.metadata.generation,
        holders: holders
            .into_iter()
            .map(|(requester, uses)| QuotaHolder {
                requester: requester.map(str::to_owned),
                uses: uses.into_iter().map(|u| u.told).collect(),
            })
            .collect(),
        holder_count: count(all),
        full_count: count(full),
        gpu_hours_left: hours_left(name, report),
        burnt,
        burnt_until: until,
        conditions: conditions(
            object.metadata.generation,
            fault,
            wrong(name, report),
            &before,
            now,
        ),
    }
}

/// That what is held of a limit is not what is counted anew.
fn wrong(name: &str, report: &LimitsReport) -> Option<String> {
    let limit = report.wrong.iter().find(|limit| limit.policy == name)?;
    Some(format!(
        "{limit}: what is held of it is not what is counted anew; the operator's log has it too"
    ))
}

/// Whole GPU-hours that are left to the holder that has least. None: they are not limited.
fn hours_left(name: &str, report: &LimitsReport) -> Option<Quantity> {
    let is_hours = |limit: &LimitId| limit.policy == name && limit.what == What::GpuHours;
    let lines = report.lines.iter().filter(|(limit, _)| is_hours(limit));
    let left = lines.map(|(limit, (_, max))| {
        let most = i128::from(base_units(&limit.what, *max)).saturating_mul(HOUR);
        let left = most.saturating_sub(burnt_seconds(limit, report)).max(0);
        left.checked_div(HOUR).unwrap_or_default()
    });
    left.min().map(whole)
}

/// GPU-seconds that are burnt of a limit.
fn burnt_seconds(limit: &LimitId, report: &LimitsReport) -> i128 {
    let parts = report.burnt.get(limit).into_iter();
    let parts = parts.flat_map(|(_, parts)| parts);
    parts.fold(0, |sum, part| sum.saturating_add(part.gpu_seconds))
}

/// What is held of one limit.
struct Use {
    used: i128,
    most: i128,
    told: QuotaUse,
}

impl Use {
    fn of(limit: &LimitId, used: i128, max: Amount, report: &LimitsReport) -> Self {
        let used = match &limit.what {
            What::GpuHours => {
                let burnt = burnt_seconds(limit, report);
                burnt.checked_div(HOUR).unwrap_or_default()
            }
            _ => used,
        };
        let most = i128::from(base_units(&limit.what, max));
        let shown = |amount| match &limit.what {
            What::Resource { resource, .. } => gang::quantity(resource, amount),
            _ => whole(amount),
        };
        Self {
            used,
            most,
            told: QuotaUse {
                limit: limit.what.to_string(),
                used: shown(used),
                max: shown(most),
            },
        }
    }

    fn is_full(&self) -> bool {
        self.used >= self.most
    }

    /// Hundredths of it that are held; of nothing, all.
    fn percent(&self) -> i128 {
        let hundredths = self.used.saturating_mul(100);
        hundredths.checked_div(self.most).unwrap_or(100)
    }
}

fn whole(number: i128) -> Quantity {
    Quantity::from_units(i64::try_from(number).unwrap_or(i64::MAX))
}

/// What is burnt of a policy, by holder and part of the window.
fn burnt(name: &str, report: &LimitsReport) -> (Vec<BurntGpuTime>, Option<Time>) {
    let limits = report.burnt.iter().filter(|(l, _)| l.policy == name);
    let mut all = Vec::new();
    let mut last = None;
    for (limit, (until, parts)) in limits {
        last = last.max(Some(*until));
        for part in parts {
            let Ok(start) = Timestamp::from_second(part.start) else {
                continue;
            };
            all.push(BurntGpuTime {
                requester: limit.holder.requester().map(str::to_owned),
                start: Time(start),
                gpu_seconds: whole(part.gpu_seconds),
            });
        }
    }
    if all.len() > PARTS {
        all = coarser(all);
    }
    let until = last.and_then(|until| Timestamp::from_second(until).ok());
    (all, until.map(Time))
}

/// One part a holder, of all that it has burnt, as late as the last of it: it counts longer
/// after a restart than it should, and never less.
fn coarser(parts: Vec<BurntGpuTime>) -> Vec<BurntGpuTime> {
    let mut merged: Vec<BurntGpuTime> = Vec::new();
    // They come by holder, and by time.
    for part in parts {
        match merged.last_mut() {
            Some(last) if last.requester == part.requester => {
                let seconds = |q: &Quantity| q.amount().map_or(0, Amount::units_down);
                let sum = seconds(&last.gpu_seconds).saturating_add(seconds(&part.gpu_seconds));
                last.gpu_seconds = Quantity::from_units(sum);
                last.start = part.start;
            }
            _ => merged.push(part),
        }
    }
    merged
}

/// What is said of a policy that cannot be used.
#[must_use]
pub fn takes_no_effect(fault: &str) -> String {
    format!("the limits do not take effect, and until they do no job starts: {fault}")
}

fn conditions(
    generation: Option<i64>,
    fault: Option<String>,
    wrong: Option<String>,
    before: &[Condition],
    now: Timestamp,
) -> Vec<Condition> {
    let active = fault.is_none();
    let (reason, message) = match fault {
        None => (Reason::Accepted, "the limits take effect".to_owned()),
        Some(fault) => (Reason::InvalidSpec, takes_no_effect(&fault)),
    };
    let is_wrong = wrong.is_some();
    let (reason, message) = match wrong {
        Some(wrong) => (Reason::LedgerMismatch, wrong),
        None => (reason, message),
    };
    let said = Said {
        generation,
        reason,
        message,
        before,
        now,
    };
    said.conditions(&[
        ("Active", active),
        ("Degraded", is_wrong),
        ("Ready", active),
        ("Reconciling", false),
        ("Stalled", !active),
    ])
}

#[cfg(test)]
mod tests {
    use trellis_policies::quota::{Burnt, Holder};

    use super::*;

    #[test]
    fn hours_that_are_left_are_those_of_the_holder_that_has_least_and_never_rounded_up() {
        let of = |policy: &str, user: &str| LimitId {
            policy: policy.to_owned(),
            holder: Holder::Requester(user.to_owned()),
            what: What::GpuHours,
        };
        let hundred = Quantity::new("100").amount().unwrap();
        let mut report = LimitsReport::default();
        for (limit, gpu_seconds) in [
            (of("a", "ada"), 3_600),
            (of("a", "bob"), 90 * 3_600 + 1),
            (of("b", "ada"), 500 * 3_600),
        ] {
            report.lines.insert(limit.clone(), (0, hundred));
            let parts = [(0, gpu_seconds - 1), (3_600, 1)];
            let parts = parts.map(|(start, gpu_seconds)| Burnt { start, gpu_seconds });
            report.burnt.insert(limit, (7_200, parts.to_vec()));
        }
        let left = |policy| hours_left(policy, &report).map(|left| left.as_str().to_owned());
        assert_eq!(left("a").as_deref(), Some("9"));
        assert_eq!(left("b").as_deref(), Some("0"));
        assert_eq!(left("c"), None);
    }
}
