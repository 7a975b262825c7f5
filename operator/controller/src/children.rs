//! The fourth step: applies the children of the job. POST creates a missing child, so a foreign
//! object of its name is never adopted. A merge patch corrects a child whose owned fields differ,
//! and removes fields that the job no longer has.

pub(super) mod child_error;
pub(super) mod drift;
mod external_secrets;
mod framework;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::info;
use trellis_api::{PodGroup, Reason, TrainingJob, names, owner};
use trellis_cache::Cache;
use trellis_cache::watch::Store;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_dispatch::{is_live_child, is_owned};
use trellis_gang::JobHold;
use trellis_gang::key::Key;

use super::build::cache::JobBuild;
use super::job_context::JobContext;

/// Brings the children to their desired state. Returns why the job is on hold if a foreign object
/// has the name of a child.
pub(super) async fn apply_children(
    commands: &Commands,
    cache: &Cache,
    key: &Key,
    job_context: &JobContext,
    build: &JobBuild,
) -> Result<Option<JobHold>, WriteError> {
    let Some(compiled) = build.compiled_children(job_context) else {
        if build.is_refused(job_context) {
            external_secrets::remove_external_secrets(
                commands,
                cache,
                key,
                job_context.uid(),
                |_| false,
            )
            .await?;
        }
        return Ok(None);
    };
    let applier = ChildApplier {
        commands,
        key,
        uid: job_context.uid(),
        build,
    };
    // No child needs another child, and pods are created only after all children exist, so the
    // writes are concurrent.
    let (services, policy, files, secret, group, external) = tokio::join!(
        applier.apply_services(compiled, cache),
        applier.apply_child(key, || compiled.network_policy(), &cache.network_policies),
        applier.apply_config_map(compiled, cache),
        applier.create_key_secret(compiled, job_context),
        applier.apply_child(key, || compiled.pod_group(), &cache.pod_groups),
        external_secrets::apply_external_secrets(&applier, cache, compiled),
    );
    secret?;
    Ok(services?.or(policy?).or(files?).or(group?).or(external?))
}

/// Applies the children of one job.
struct ChildApplier<'a> {
    commands: &'a Commands,
    key: &'a Key,
    uid: &'a str,
    build: &'a JobBuild,
}

impl ChildApplier<'_> {
    /// Brings one child of this name to its desired state. `A` is the type that the watch decodes.
    async fn apply_child<K, A>(
        &self,
        key: &Key,
        desired: impl Fn() -> K,
        store: &Store<A>,
    ) -> Result<Option<JobHold>, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize,
        A: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        let kind = K::kind(&());
        let live = match store.get(key) {
            Some(live) => live,
            None => match self.create_child(key, &desired()).await? {
                CreatedChild::New(object) => {
                    store.insert_returned(key.clone(), object);
                    return Ok(None);
                }
                CreatedChild::Existing(object) => object,
            },
        };
        if !is_owned(live.as_ref(), self.uid) {
            return Ok(Some(explain_conflict(&kind, self.key, key, live.meta())));
        }
        if live.meta().deletion_timestamp.is_some() {
            // The deletion triggers a reconciliation, which creates the child again.
            return Ok(None);
        }
        let version = live.meta().resource_version.clone().unwrap_or_default();
        let child = (kind.clone().into_owned(), key.name.clone());
        if self.build.verified_versions.lock().get(&child) == Some(&version) {
            return Ok(None);
        }
        let desired = serde_json::to_value(desired()).unwrap_or_default();
        let actual = serde_json::to_value(live.as_ref()).unwrap_or_default();
        let Some(mut patch) = drift::drift_patch(&kind, &actual, &desired) else {
            self.build.verified_versions.lock().insert(child, version);
            store.insert_returned(key.clone(), live.as_ref().clone());
            return Ok(None);
        };
        info!(job = %self.key, %kind, "corrected the drift of a child");
        // The patch names the compared version, so a concurrent change makes it fail.
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("uid".to_owned(), json!(live.meta().uid));
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        let corrected: A = self
            .commands
            .patch_as(
                &K::url_path(&(), Some(&key.namespace)),
                &key.name,
                names::COMPILER_MANAGER,
                &Value::Object(patch),
            )
            .await?;
        // The result counts as correct even if a webhook has changed it. The child is compared
        // again only after another change, so the operator does not fight with webhooks.
        let version = corrected
            .meta()
            .resource_version
            .clone()
            .unwrap_or_default();
        self.build.verified_versions.lock().insert(child, version);
        store.update_returned(key.clone(), corrected);
        Ok(None)
    }

    async fn create_child<K, A>(
        &self,
        key: &Key,
        desired: &K,
    ) -> Result<CreatedChild<A>, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize,
        A: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let namespace = &key.namespace;
        let created = self
            .commands
            .create(namespace, names::COMPILER_MANAGER, desired, false)
            .await;
        match created {
            Ok(object) => Ok(CreatedChild::New(object)),
            // The watch is late, the object has lost the label of Trellis, or it is a foreign
            // object.
            Err(WriteError::AlreadyExists(message) | WriteError::Conflict(message)) => {
                let existing = self.commands.get(namespace, &key.name).await?;
                existing
                    .map(|object| CreatedChild::Existing(Arc::new(object)))
                    .ok_or(WriteError::Conflict(message))
            }
            Err(error) => Err(error),
        }
    }
}

/// Result of a create.
enum CreatedChild<A> {
    New(A),
    /// An object of that name existed.
    Existing(Arc<A>),
}

/// Returns why the job is on hold: an object has the name of a child and does not belong to the
/// job.
fn explain_conflict(kind: &str, job: &Key, key: &Key, meta: &ObjectMeta) -> JobHold {
    let name = &key.name;
    let owner = meta
        .owner_references
        .iter()
        .flatten()
        .find(|o| o.controller == Some(true));
    let is_of_earlier_job = owner::controlling_job(meta).is_some_and(|o| o.name == *job.name);
    if is_of_earlier_job || meta.deletion_timestamp.is_some() {
        let origin = if is_of_earlier_job {
            " of an earlier job of this name"
        } else {
            ""
        };
        let message = format!("{kind} {name:?}{origin} is still being removed");
        return JobHold::waiting(Reason::PodsTerminating, message);
    }
    let owner = owner.map_or_else(String::new, |o| {
        format!(", owned by {} {:?}", o.kind, o.name)
    });
    let message = format!(
        "{kind} {name:?} is there and is not this job's{owner}: delete or rename it, or rename the job"
    );
    JobHold::blocked(Reason::NameConflict, message)
}

/// Removes the children of an ended job in reverse order. The scheduler deletes the pods. The
/// garbage collector deletes the Secret with the key together with the job, because the operator
/// may not delete Secrets.
pub(super) async fn remove_children(
    commands: &Commands,
    cache: &Cache,
    key: &Key,
    job: &TrainingJob,
) -> Result<(), WriteError> {
    async fn remove_child<K, A>(
        commands: &Commands,
        store: &Store<A>,
        key: &Key,
        uid: &str,
    ) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
        A: Resource<DynamicType = ()>,
    {
        match store.get(key) {
            Some(live) if is_live_child(Some(live.as_ref()), uid) => {
                let child_uid = live.meta().uid.clone().unwrap_or_default();
                commands
                    .delete::<K>(&key.namespace, &key.name, &child_uid, None)
                    .await
            }
            _ => Ok(()),
        }
    }
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    external_secrets::remove_external_secrets(commands, cache, key, uid, |_| false).await?;
    remove_child::<PodGroup, _>(commands, &cache.pod_groups, key, uid).await?;
    let hosts = Key::new(&key.namespace, &names::hosts_config_map_name(&key.name));
    remove_child::<ConfigMap, _>(commands, &cache.config_maps, &hosts, uid).await?;
    remove_child::<NetworkPolicy, _>(commands, &cache.network_policies, key, uid).await?;
    for name in job.spec.service_names(&key.name).rev() {
        let service = Key::new(&key.namespace, &name);
        remove_child::<Service, _>(commands, &cache.services, &service, uid).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use trellis_api::job::JobPhase;

    use super::*;

    fn conflict(meta: Value) -> (JobPhase, Reason, String) {
        let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
        let job = Key::new("ns", "j");
        let hold = explain_conflict("Service", &job, &job, &meta);
        (hold.phase, hold.reason, hold.message)
    }

    fn owned_by(kind: &str, name: &str) -> Value {
        json!({"ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1", "kind": kind,
            "name": name, "uid": "another", "controller": true}]})
    }

    #[test]
    fn job_waits_for_children_of_an_earlier_job_to_go() {
        let (phase, reason, message) = conflict(owned_by("TrainingJob", "j"));
        assert_eq!(
            (phase, reason),
            (JobPhase::Waiting, Reason::PodsTerminating)
        );
        assert!(message.contains("earlier job"), "{message}");
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let (phase, reason, _) = conflict(going);
        assert_eq!(
            (phase, reason),
            (JobPhase::Waiting, Reason::PodsTerminating)
        );
    }

    #[test]
    fn child_is_live_if_owned_by_the_job_and_not_terminating() {
        let child =
            |meta: Value| -> Service { serde_json::from_value(json!({"metadata": meta})).unwrap() };
        assert!(!is_live_child::<Service>(None, "another"));
        assert!(!is_live_child(Some(&child(json!({}))), "another"));
        let mut meta = owned_by("TrainingJob", "j");
        assert!(is_live_child(Some(&child(meta.clone())), "another"));
        assert!(!is_live_child(Some(&child(meta.clone())), "mine"));
        meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!is_live_child(Some(&child(meta)), "another"));
    }

    #[test]
    fn foreign_object_blocks_the_job() {
        for meta in [
            json!({}),
            owned_by("TrainingJob", "other"),
            owned_by("Deployment", "j"),
        ] {
            let (phase, reason, _) = conflict(meta.clone());
            assert_eq!(
                (phase, reason),
                (JobPhase::Blocked, Reason::NameConflict),
                "{meta}"
            );
        }
    }
}
