//! Writes the status of queues: the numbers of pending and admitted jobs, the usage, and whether
//! the queue is active. The changes of two seconds are one write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::core::PartialObjectMeta;
use serde_json::json;
use tokio::sync::oneshot;
use tracing::{debug, warn};
use trellis_api::queue::{DecayedUsage, FlavorUsage, InternalQueueStatus, QueueStatus, StopPolicy};
use trellis_api::{Reason, TrainingQueue, names};
use trellis_cache::Cache;
use trellis_cache::watch::Undecodable;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_dispatch::context::Context;
use trellis_dispatch::{QueueReport, SchedulerEvent};
use trellis_gang::key::Key;
use trellis_gang::{engine, patch};
use trellis_machine::clock;
use trellis_scheduler::{QueueName, QueueUsage};

use super::quota_bypass;

/// Time between two rounds.
const UPDATE_INTERVAL: Duration = Duration::from_secs(2);
/// The condition that shows whether the queue starts jobs, as in Kueue.
const ACTIVE: &str = "Active";
/// The condition that shows that users may have forged a part of the usage.
const DEGRADED: &str = "Degraded";

/// Writes the status of queues until the process ends.
pub async fn maintain_queue_status(context: Arc<Context>, commands: Commands) {
    context.cache.wait_synced().await;
    // Queues that do not decode, once their status reports it.
    let mut reported = BTreeMap::new();
    loop {
        tokio::time::sleep(UPDATE_INTERVAL).await;
        let (answer, reports) = oneshot::channel();
        context.send_event(SchedulerEvent::AskQueues(answer));
        let Ok(reports) = reports.await else { continue };
        report_undecodable(&context.cache, &commands, &mut reported).await;
        let bypasses = find_bypasses(&context.cache);
        for queue in context.cache.queues.all() {
            let name = queue.metadata.name.as_deref().unwrap_or_default();
            let Some(report) = reports.get(&QueueName::new(name)) else {
                continue;
            };
            let bypassed_by = bypasses.get(name).map_or(&[][..], Vec::as_slice);
            match write_status(&context.cache, &commands, &queue, (report, bypassed_by)).await {
                // The watch shows the newer version before the next round.
                Ok(()) | Err(WriteError::Conflict(_) | WriteError::NotFound(_)) => {}
                Err(WriteError::Transient(error) | WriteError::Unanswered(error)) => {
                    debug!(queue = name, %error, "its status was not written");
                }
                Err(error) => warn!(queue = name, %error, "its status was not written"),
            }
        }
    }
}

/// Returns the namespaces that may evade their quota, by the queue without quota that they may use.
fn find_bypasses(cache: &Cache) -> BTreeMap<String, Vec<String>> {
    static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
    let namespaces = cache.namespaces.all();
    let namespaces = namespaces.iter().filter_map(|namespace| {
        let meta = &namespace.metadata;
        let labels = meta.labels.as_ref().unwrap_or(&NO_LABELS);
        Some((meta.name.as_deref()?, labels))
    });
    // Sorted by name.
    let namespaces: BTreeMap<_, _> = namespaces.collect();
    quota_bypass::find_bypasses(&cache.queues.all(), namespaces.into_iter())
}

async fn write_status(
    cache: &Cache,
    commands: &Commands,
    queue: &TrainingQueue,
    (report, bypassed_by): (&QueueReport, &[String]),
) -> Result<(), WriteError> {
    let name = queue.metadata.name.as_deref().unwrap_or_default();
    let before = queue.status.clone().unwrap_or_default();
    let flavor_exists = |flavor: &str| cache.has_flavor(flavor);
    let now = clock::now();
    let mut after = build_status(queue, (report, bypassed_by), flavor_exists, now);
    after
        .conditions
        .extend(degraded_condition(queue, cache.guards.problem(), now));
    // The past usage changes all the time, so it alone causes no write.
    after.internal.clone_from(&before.internal);
    if before == after {
        return Ok(());
    }
    add_past_usage(&mut after, report);
    let patch = json!({
        "metadata": {
            "uid": queue.metadata.uid,
            "resourceVersion": queue.metadata.resource_version,
        },
        "status": patch::diff(&before, &after),
    });
    let written: TrainingQueue = commands
        .patch_cluster_status(name, names::STATUS_MANAGER, &patch)
        .await?;
    cache.queues.update_returned(Key::new("", name), written);
    Ok(())
}

/// Reports each queue that does not decode in its status, once for each change of the queue. The
/// API server refuses the write if the stored spec violates a rule that is newer than the queue.
/// Then the write is not repeated.
async fn report_undecodable(
    cache: &Cache,
    commands: &Commands,
    reported: &mut BTreeMap<String, Undecodable>,
) {
    let undecodable = cache.undecodable_queues.read().clone();
    for (name, queue) in &undecodable {
        if reported.get(name) == Some(queue) {
            continue;
        }
        match write_undecodable_status(commands, name, queue).await {
            Ok(()) => {}
            Err(error @ WriteError::Refused { .. }) => {
                warn!(queue = name, %error, "its status cannot be written");
            }
            Err(error) => {
                debug!(queue = name, %error, "its status was not written");
                continue;
            }
        }
        reported.insert(name.clone(), queue.clone());
    }
    reported.retain(|name, _| undecodable.contains_key(name));
}

/// Reports in the status of a queue that the queue does not decode.
async fn write_undecodable_status(
    commands: &Commands,
    name: &str,
    queue: &Undecodable,
) -> Result<(), WriteError> {
    let message = format!("the object does not decode: {}", queue.error);
    let patch = json!({"metadata": {"uid": queue.uid}, "status": {"conditions": [Condition {
        type_: ACTIVE.to_owned(),
        status: "False".to_owned(),
        reason: Reason::InvalidSpec.as_str().to_owned(),
        message,
        observed_generation: None,
        last_transition_time: Time(clock::now()),
    }]}});
    let written: Result<PartialObjectMeta<TrainingQueue>, WriteError> = commands
        .patch_cluster_status(name, names::STATUS_MANAGER, &patch)
        .await;
    written.map(|_| ())
}

fn build_status(
    queue: &TrainingQueue,
    (report, bypassed_by): (&QueueReport, &[String]),
    is_there: impl Fn(&str) -> bool,
    now: Timestamp,
) -> QueueStatus {
    let fault = report.usage.as_ref().and_then(|s| s.fault.clone());
    let (undefined, is_useless) = find_missing_flavors(queue, is_there);
    let (active, reason, message) = match (queue.spec.stop_policy, fault) {
        (_, Some(fault)) => (
            "False",
            Reason::QueueMisconfigured,
            format!("the queue {fault}"),
        ),
        (Some(StopPolicy::Hold), None) => (
            "False",
            Reason::QueueStopped,
            "spec.stopPolicy is Hold: nothing of the queue is started".to_owned(),
        ),
        (Some(StopPolicy::HoldAndDrain), None) => (
            "False",
            Reason::QueueStopped,
            "spec.stopPolicy is HoldAndDrain: nothing of the queue is started, and what runs is preempted"
                .to_owned(),
        ),
        (Some(StopPolicy::None) | None, None) if is_useless => (
            "False",
            Reason::FlavorNotFound,
            format!("the queue starts no job: {}", missing_flavors_message(&undefined)),
        ),
        (Some(StopPolicy::None) | None, None) if !undefined.is_empty() => (
            "True",
            Reason::FlavorNotFound,
            format!("the queue starts jobs on its other flavors: {}", missing_flavors_message(&undefined)),
        ),
        (Some(StopPolicy::None) | None, None) if !bypassed_by.is_empty() => (
            "True",
            Reason::QuotaBypassed,
            bypass_message(bypassed_by),
        ),
        (Some(StopPolicy::None) | None, None) => {
            ("True", Reason::Accepted, "the queue starts jobs".to_owned())
        }
    };
    let before = queue.status.iter().flat_map(|s| &s.conditions);
    let since = before
        .filter(|c| c.type_ == ACTIVE && c.status == active)
        .map(|c| c.last_transition_time.clone())
        .next();
    QueueStatus {
        observed_generation: queue.metadata.generation,
        pending: i64::try_from(report.counts.pending).ok(),
        admitted: i64::try_from(report.counts.admitted).ok(),
        usage: report.usage.iter().flat_map(flavor_usage).collect(),
        share: report.usage.as_ref().map(|s| format_share(s.share)),
        borrowed_share: report
            .usage
            .as_ref()
            .and_then(|s| Some(s.borrowed_share?.to_string())),
        internal: InternalQueueStatus::default(),
        conditions: vec![Condition {
            type_: ACTIVE.to_owned(),
            status: active.to_owned(),
            reason: reason.as_str().to_owned(),
            message,
            observed_generation: queue.metadata.generation,
            last_transition_time: since.unwrap_or(Time(now)),
        }],
    }
}

/// Returns the condition for a missing admission policy. None if all admission policies exist.
fn degraded_condition(
    queue: &TrainingQueue,
    problem: Option<String>,
    now: Timestamp,
) -> Option<Condition> {
    let before = queue.status.iter().flat_map(|s| &s.conditions);
    let mut since = before.filter(|c| c.type_ == DEGRADED && c.status == "True");
    let since = since.next().map(|c| c.last_transition_time.clone());
    Some(Condition {
        type_: DEGRADED.to_owned(),
        status: "True".to_owned(),
        reason: Reason::AdmissionPolicyMissing.as_str().to_owned(),
        message: problem?,
        observed_generation: queue.metadata.generation,
        last_transition_time: since.unwrap_or(Time(now)),
    })
}

/// Returns the queue's flavors that do not exist, and whether a resource group has only such
/// flavors.
fn find_missing_flavors(
    queue: &TrainingQueue,
    exists: impl Fn(&str) -> bool,
) -> (BTreeSet<&str>, bool) {
    let mut undefined = BTreeSet::new();
    let mut is_useless = false;
    for group in &queue.spec.resource_groups {
        let names = group.flavors.iter().map(|flavor| flavor.name.as_str());
        let (_, missing): (Vec<&str>, Vec<&str>) = names.partition(|name| exists(name));
        is_useless |= missing.len() == group.flavors.len() && !missing.is_empty();
        undefined.extend(missing);
    }
    (undefined, is_useless)
}

/// Most namespaces that a message names.
const MAX_NAMED_NAMESPACES: usize = 3;

/// Returns the message for a queue without quota that these namespaces may use.
fn bypass_message(namespaces: &[String]) -> String {
    let names: Vec<String> = namespaces
        .iter()
        .take(MAX_NAMED_NAMESPACES)
        .map(|name| format!("{name:?}"))
        .collect();
    let more = match namespaces.len().saturating_sub(MAX_NAMED_NAMESPACES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "the queue has no quota, and namespaces that have quota in another queue may use it: {}{more}; narrow its namespaceSelector",
        names.join(", ")
    )
}

/// Returns the message that names the ResourceFlavors to create.
fn missing_flavors_message(flavors: &BTreeSet<&str>) -> String {
    let names: Vec<String> = flavors.iter().map(|name| format!("{name:?}")).collect();
    format!(
        "spec.resourceGroups names what does not exist: create ResourceFlavor {}, or name another",
        names.join(", ")
    )
}

/// Adds the past usage of the queue to its status.
fn add_past_usage(status: &mut QueueStatus, report: &QueueReport) {
    let Some(memory) = &report.memory else { return };
    let at = Timestamp::from_millisecond(memory.at.as_millis());
    status.internal.decayed_time = at.ok().map(Time);
    status.internal.decayed_usage = memory
        .usage
        .iter()
        .map(|(resource, decayed)| DecayedUsage {
            resource: resource.as_str().to_owned(),
            amount: engine::decayed_quantity(resource.as_str(), *decayed),
        })
        .collect();
}

/// Returns the usage of the queue. The number of pods is included only if it is limited.
fn flavor_usage(usage: &QueueUsage) -> impl Iterator<Item = FlavorUsage> {
    let shown = usage
        .lines
        .iter()
        .filter(|l| l.nominal > 0 || l.resource.as_str() != "pods");
    shown.map(|line| {
        let resource = line.resource.as_str();
        FlavorUsage {
            flavor: line.flavor.as_str().to_owned(),
            resource: resource.to_owned(),
            used: engine::to_quantity(resource, line.usage),
            borrowed: engine::to_quantity(resource, line.borrowed),
        }
    })
}

/// Returns the share with three digits. The share changes all the time, and each change causes a
/// write.
pub fn format_share(share: f64) -> String {
    if share.is_finite() {
        format!("{share:.3}")
    } else {
        "unweighted".to_owned()
    }
}

#[cfg(test)]
mod tests;
