//! Status of policy objects: whether they take effect, their problems, and the jobs that they would
//! deny. Changes are collected, as for queues.

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
use trellis_cache::policy::Told;
use trellis_cache::watch::Undecodable;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_gang::conditions::ConditionUpdate;
use trellis_gang::key::Key;
use trellis_gang::patch;
use trellis_policies::cedar::{ObjectKey, ObjectState, ObjectVerdict, Policies};

/// Time between two rounds.
const EVERY: Duration = Duration::from_secs(2);
/// Longest message of a condition.
const MESSAGE: usize = 8_000;

/// Writes the status of policy objects until the process ends.
pub async fn keep_policy_status(cache: Arc<Cache>, commands: Commands) {
    cache.policies.loaded().await;
    // Objects that do not decode and whose status says so.
    let mut told = BTreeMap::new();
    loop {
        if let Some(policies) = cache.policies.active() {
            look(&cache, &commands, &policies, &mut told).await;
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn look(
    cache: &Cache,
    commands: &Commands,
    policies: &Policies,
    told: &mut BTreeMap<ObjectKey, Undecodable>,
) {
    let mut violations = cache.policies.violations.by_object();
    for verdict in policies.verdicts() {
        // There may be ten thousand objects without a change.
        tokio::task::consume_budget().await;
        let violations = violations
            .remove(&verdict.key.to_string())
            .unwrap_or_default();
        let written = one(cache, commands, policies.hash(), &verdict, violations, told).await;
        let policy = &verdict.key;
        match written {
            // The watch brings the newer version before the next round.
            Ok(()) | Err(WriteError::Conflict(_) | WriteError::NotFound(_)) => {}
            Err(WriteError::Transient(error) | WriteError::Unanswered(error)) => {
                debug!(%policy, %error, "its status was not written");
            }
            Err(error) => warn!(%policy, %error, "its status was not written"),
        }
    }
    let unreadable = cache.policies.unreadable.read();
    told.retain(|key, _| unreadable.contains_key(key));
}

async fn one(
    cache: &Cache,
    commands: &Commands,
    hash: &str,
    verdict: &ObjectVerdict,
    violations: Told,
    told: &mut BTreeMap<ObjectKey, Undecodable>,
) -> Result<(), WriteError> {
    let ObjectKey { namespace, name } = &verdict.key;
    let now = Timestamp::now();
    let unreadable = cache.policies.unreadable.read().get(&verdict.key).cloned();
    if let Some(object) = unreadable {
        if told.get(&verdict.key) == Some(&object) {
            return Ok(());
        }
        let status = status(verdict, None, &[], hash, violations, now);
        let patch = json!({"metadata": {"uid": object.uid}, "status": status});
        let written = match namespace {
            Some(namespace) => write::<JobPolicy>(commands, namespace, name, &patch).await,
            None => write_cluster::<ClusterJobPolicy>(commands, name, &patch).await,
        };
        // The API server refuses the status if the stored spec breaks a newer rule. The write is
        // not repeated until the object changes.
        if matches!(written, Ok(()) | Err(WriteError::Refused { .. })) {
            told.insert(verdict.key.clone(), object);
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
            let Some(patch) = change(&object.metadata, &before, verdict, hash, violations, now)
            else {
                return Ok(());
            };
            let written: JobPolicy = commands
                .patch_status(namespace, name, names::STATUS_MANAGER, &patch)
                .await?;
            cache.policies.namespaced.answered(key, written);
        }
        None => {
            let Some(object) = cache.policies.cluster.get(&key) else {
                return Ok(());
            };
            let before = object.status.clone().unwrap_or_default();
            let Some(patch) = change(&object.metadata, &before, verdict, hash, violations, now)
            else {
                return Ok(());
            };
            let written: ClusterJobPolicy = commands
                .patch_cluster_status(name, names::STATUS_MANAGER, &patch)
                .await?;
            cache.policies.cluster.answered(key, written);
        }
    }
    Ok(())
}

async fn write<K>(
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

async fn write_cluster<K>(commands: &Commands, name: &str, patch: &Value) -> Result<(), WriteError>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
{
    let written: Result<PartialObjectMeta<K>, _> = commands
        .patch_cluster_status(name, names::STATUS_MANAGER, patch)
        .await;
    written.map(|_| ())
}

/// The patch of an object's status. None: nothing has changed, or the watch has shown a newer
/// object than the loaded one, which the next set of policies will judge.
fn change(
    meta: &ObjectMeta,
    before: &JobPolicyStatus,
    verdict: &ObjectVerdict,
    hash: &str,
    violations: Told,
    now: Timestamp,
) -> Option<Value> {
    if meta.uid.as_deref() != Some(verdict.uid.as_str()) || meta.generation != verdict.generation {
        return None;
    }
    let generation = meta.generation;
    let mut after = status(
        verdict,
        generation,
        &before.conditions,
        hash,
        violations,
        now,
    );
    // Each change of one object changes the hash of all. The hash alone is no reason to write ten
    // thousand of them.
    let hash = std::mem::replace(&mut after.active_set_hash, before.active_set_hash.clone());
    if *before == after {
        return None;
    }
    after.active_set_hash = hash;
    Some(json!({
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": patch::between(before, &after),
    }))
}

/// The status of a policy object.
pub(super) fn status(
    verdict: &ObjectVerdict,
    generation: Option<i64>,
    before: &[Condition],
    hash: &str,
    violations: Told,
    now: Timestamp,
) -> JobPolicyStatus {
    let (active, as_it_stands) = match verdict.state {
        ObjectState::Active => (true, true),
        ObjectState::Degraded => (true, false),
        ObjectState::Invalid => (false, false),
    };
    let (reason, message) = if as_it_stands {
        (Reason::Accepted, effect(verdict))
    } else {
        (Reason::InvalidSpec, wrong(verdict))
    };
    let said = ConditionUpdate {
        generation,
        reason,
        message,
        before,
        now,
    };
    JobPolicyStatus {
        observed_generation: generation,
        policy_ids: verdict.policy_ids.clone(),
        active_set_hash: Some(hash.to_owned()),
        violation_count: Some(violations.count),
        violations: violations.shown,
        conditions: said.conditions(&[
            ("Active", active),
            ("Degraded", !as_it_stands),
            ("Ready", as_it_stands),
            ("Reconciling", false),
            ("Stalled", !as_it_stands),
        ]),
    }
}

fn effect(verdict: &ObjectVerdict) -> String {
    let mut message = "the policies take effect".to_owned();
    for warning in &verdict.warnings {
        message.push_str(&format!("\n{warning}"));
    }
    shown(&message)
}

fn wrong(verdict: &ObjectVerdict) -> String {
    let problems = problems(verdict);
    let what = match verdict.state {
        ObjectState::Degraded => "the last good version takes effect, not this one",
        _ => {
            "it does not take effect, and where it reaches nothing is allowed unless it is Warn or Audit"
        }
    };
    shown(&format!("{what}:\n{problems}"))
}

/// All problems of an object, each with its place in the text.
pub fn problems(verdict: &ObjectVerdict) -> String {
    let problems: Vec<_> = verdict.problems.iter().map(ToString::to_string).collect();
    problems.join("\n")
}

/// The message, cut to its longest allowed length.
pub fn shown(message: &str) -> String {
    message.chars().take(MESSAGE).collect()
}
