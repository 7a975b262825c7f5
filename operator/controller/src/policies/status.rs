//! Writes the status of policy objects: whether they take effect, their problems, and the jobs that
//! they would deny. Changes are collected, as for queues.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use tracing::{debug, warn};
use trellis_api::job_policy::JobPolicyStatus;
use trellis_api::{ClusterJobPolicy, JobPolicy, Reason, names};
use trellis_cache::Cache;
use trellis_cache::policy::ObjectViolations;
use trellis_cache::watch::Undecodable;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_gang::conditions::ConditionUpdate;
use trellis_gang::key::Key;
use trellis_gang::patch;
use trellis_machine::clock;
use trellis_policies::cedar::{ObjectKey, ObjectLoadResult, Policies, PolicyObjectState};

/// Time between two rounds.
const UPDATE_INTERVAL: Duration = Duration::from_secs(2);
/// Longest message of a condition.
const MAX_MESSAGE_LENGTH: usize = 8_000;

/// Writes the status of policy objects until the process ends.
pub async fn maintain_policy_status(cache: Arc<Cache>, commands: Commands) {
    cache.wait_synced().await;
    cache.policies.wait_loaded().await;
    // Objects that do not decode, once their status reports it.
    let mut reported = BTreeMap::new();
    loop {
        if let Some(policies) = cache.policies.active() {
            write_statuses(&cache, &commands, &policies, &mut reported).await;
        }
        tokio::time::sleep(UPDATE_INTERVAL).await;
    }
}

async fn write_statuses(
    cache: &Cache,
    commands: &Commands,
    policies: &Policies,
    reported: &mut BTreeMap<ObjectKey, Undecodable>,
) {
    let mut violations = cache.policies.violations.by_object();
    for verdict in policies.load_results() {
        // Ten thousand objects without a change must not block the worker thread.
        tokio::task::consume_budget().await;
        let violations = violations
            .remove(&verdict.key.to_string())
            .unwrap_or_default();
        let written = write_status(
            cache,
            commands,
            policies.hash(),
            &verdict,
            violations,
            reported,
        )
        .await;
        let policy = &verdict.key;
        match written {
            // The watch shows the newer version before the next round.
            Ok(()) | Err(WriteError::Conflict(_) | WriteError::NotFound(_)) => {}
            Err(WriteError::Transient(error) | WriteError::Unanswered(error)) => {
                debug!(%policy, %error, "its status was not written");
            }
            Err(error) => warn!(%policy, %error, "its status was not written"),
        }
    }
    let unreadable = cache.policies.undecodable.read();
    reported.retain(|key, _| unreadable.contains_key(key));
}

async fn write_status(
    cache: &Cache,
    commands: &Commands,
    hash: &str,
    verdict: &ObjectLoadResult,
    violations: ObjectViolations,
    reported: &mut BTreeMap<ObjectKey, Undecodable>,
) -> Result<(), WriteError> {
    let ObjectKey { namespace, name } = &verdict.key;
    let now = clock::now();
    let unknown = cache.stamping.unknown_reason();
    let unknown = unknown.as_deref().filter(|_| verdict.reads_requester);
    let unreadable = cache.policies.undecodable.read().get(&verdict.key).cloned();
    if let Some(object) = unreadable {
        if reported.get(&verdict.key) == Some(&object) {
            return Ok(());
        }
        let status = build_status(verdict, unknown, None, &[], (hash, violations), now);
        let patch = json!({"metadata": {"uid": object.uid}, "status": status});
        let written = match namespace {
            Some(namespace) => {
                patch_namespaced::<JobPolicy>(commands, namespace, name, &patch).await
            }
            None => patch_cluster::<ClusterJobPolicy>(commands, name, &patch).await,
        };
        // The API server refuses the write if the stored spec violates a rule that is newer than
        // the object. Then the write is repeated only after the object has changed.
        if matches!(written, Ok(()) | Err(WriteError::Refused { .. })) {
            reported.insert(verdict.key.clone(), object);
        }
        return written;
    }
    let key = Key::new(namespace.as_deref().unwrap_or_default(), name);
    match namespace {
        Some(namespace) => {
            let Some(object) = cache.policies.namespaced.get(&key) else {
                return Ok(());
            };
            let before = object.status.clone().unwrap_or_default();
            let set = (hash, violations);
            let patch = status_patch(&object.metadata, &before, verdict, unknown, set, now);
            let Some(patch) = patch else {
                return Ok(());
            };
            let written: JobPolicy = commands
                .patch_status(namespace, name, names::STATUS_MANAGER, &patch)
                .await?;
            cache.policies.namespaced.update_returned(key, written);
        }
        None => {
            let Some(object) = cache.policies.cluster.get(&key) else {
                return Ok(());
            };
            let before = object.status.clone().unwrap_or_default();
            let set = (hash, violations);
            let patch = status_patch(&object.metadata, &before, verdict, unknown, set, now);
            let Some(patch) = patch else {
                return Ok(());
            };
            let written: ClusterJobPolicy = commands
                .patch_cluster_status(name, names::STATUS_MANAGER, &patch)
                .await?;
            cache.policies.cluster.update_returned(key, written);
        }
    }
    Ok(())
}

async fn patch_namespaced<K>(
    commands: &Commands,
    namespace: &str,
    name: &str,
    patch: &Value,
) -> Result<(), WriteError>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    let written: Result<PartialObjectMeta<K>, _> = commands
        .patch_status(namespace, name, names::STATUS_MANAGER, patch)
        .await;
    written.map(|_| ())
}

async fn patch_cluster<K>(commands: &Commands, name: &str, patch: &Value) -> Result<(), WriteError>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
{
    let written: Result<PartialObjectMeta<K>, _> = commands
        .patch_cluster_status(name, names::STATUS_MANAGER, patch)
        .await;
    written.map(|_| ())
}

/// Returns the patch of an object's status. None without a change, or if the watch has shown a
/// newer version of the object than the loaded policies have.
fn status_patch(
    meta: &ObjectMeta,
    before: &JobPolicyStatus,
    verdict: &ObjectLoadResult,
    unknown: Option<&str>,
    set: (&str, ObjectViolations),
    now: Timestamp,
) -> Option<Value> {
    if meta.uid.as_deref() != Some(verdict.uid.as_str()) || meta.generation != verdict.generation {
        return None;
    }
    let generation = meta.generation;
    let mut after = build_status(verdict, unknown, generation, &before.conditions, set, now);
    // A change of one object changes the hash in the status of all objects, so a new hash alone
    // causes no write.
    let hash = std::mem::replace(&mut after.active_set_hash, before.active_set_hash.clone());
    if *before == after {
        return None;
    }
    after.active_set_hash = hash;
    Some(json!({
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": patch::diff(before, &after),
    }))
}

/// Returns the status of a policy object. `unknown`: why the requesters of jobs, which its policies
/// read, are unknown.
pub(super) fn build_status(
    verdict: &ObjectLoadResult,
    unknown: Option<&str>,
    generation: Option<i64>,
    before: &[Condition],
    (hash, violations): (&str, ObjectViolations),
    now: Timestamp,
) -> JobPolicyStatus {
    let (active, is_accepted) = match verdict.state {
        PolicyObjectState::Active => (true, true),
        PolicyObjectState::Degraded => (true, false),
        PolicyObjectState::Invalid => (false, false),
    };
    let (reason, message) = match unknown {
        _ if !is_accepted => (Reason::InvalidSpec, problem_message(verdict)),
        Some(why) => (Reason::RequesterUnknown, unknown_message(verdict, why)),
        None => (Reason::Accepted, effect_message(verdict)),
    };
    let update = ConditionUpdate {
        generation,
        reason,
        message,
        previous: before,
        now,
    };
    JobPolicyStatus {
        observed_generation: generation,
        policy_ids: verdict.policy_ids.clone(),
        active_set_hash: Some(hash.to_owned()),
        violation_count: Some(violations.count),
        violations: violations.shown,
        conditions: update.conditions(&[
            ("Active", active),
            ("Degraded", !is_accepted || unknown.is_some()),
            ("Ready", is_accepted),
            ("Reconciling", false),
            ("Stalled", !is_accepted),
        ]),
    }
}

fn effect_message(verdict: &ObjectLoadResult) -> String {
    let mut message = "the policies take effect".to_owned();
    for warning in &verdict.warnings {
        message.push_str(&format!("\n{warning}"));
    }
    truncate_message(&message)
}

fn unknown_message(verdict: &ObjectLoadResult, why: &str) -> String {
    let effect = effect_message(verdict);
    truncate_message(&format!(
        "who requests a job is unknown, so policies that depend on it deny: {why}\n{effect}"
    ))
}

fn problem_message(verdict: &ObjectLoadResult) -> String {
    let problems = format_problems(verdict);
    let effect = match verdict.state {
        PolicyObjectState::Degraded => "the last good version takes effect, not this one",
        _ => {
            "it does not take effect, and where it reaches nothing is allowed unless it is Warn or Audit"
        }
    };
    truncate_message(&format!("{effect}:\n{problems}"))
}

/// Returns all problems of an object, each with its position in the text.
pub fn format_problems(verdict: &ObjectLoadResult) -> String {
    let problems: Vec<_> = verdict.problems.iter().map(ToString::to_string).collect();
    problems.join("\n")
}

/// Returns the message, cut to the longest allowed length.
pub fn truncate_message(message: &str) -> String {
    message.chars().take(MAX_MESSAGE_LENGTH).collect()
}
