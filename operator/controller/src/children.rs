//! The fourth step: the children, in the order in which they must exist. A missing child is created
//! by POST, so that a foreign object is never adopted. A child whose owned fields differ is
//! corrected by a merge patch, which also removes fields that are no longer wanted.

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

use super::build_cache::JobBuild;
use super::drift;
use super::job_context::JobContext;

/// Brings the children to their desired state. Some: a foreign object is in the way.
pub(super) async fn apply_children(
    commands: &Commands,
    cache: &Cache,
    key: &Key,
    seen: &JobContext,
    build: &JobBuild,
) -> Result<Option<JobHold>, WriteError> {
    let Some(compiled) = build.compiled_children(seen) else {
        if build.is_refused(seen) {
            external_secrets::remove_external_secrets(commands, cache, key, seen.uid(), |_| false)
                .await?;
        }
        return Ok(None);
    };
    let place = ChildApplier {
        commands,
        key,
        uid: seen.uid(),
        build,
    };
    // Concurrently: no child needs another, and no pod is created before all of them exist.
    let (services, policy, files, secret, group, external) = tokio::join!(
        place.apply_services(compiled, cache),
        place.apply_child(key, || compiled.network_policy(), &cache.network_policies),
        place.apply_config_map(compiled, cache),
        place.create_key_secret(compiled, seen),
        place.apply_child(key, || compiled.pod_group(), &cache.pod_groups),
        external_secrets::apply_external_secrets(&place, cache, compiled),
    );
    secret?;
    Ok(services?.or(policy?).or(files?).or(group?).or(external?))
}

/// Identity of one job for its children.
struct ChildApplier<'a> {
    commands: &'a Commands,
    key: &'a Key,
    uid: &'a str,
    build: &'a JobBuild,
}

impl ChildApplier<'_> {
    /// Brings one child of this name to its desired state. `A` is the form in which it is watched.
    async fn apply_child<K, A>(
        &self,
        key: &Key,
        wanted: impl Fn() -> K,
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
            None => match self.create_child(key, &wanted()).await? {
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
            // The child is created again once it is gone: its deletion triggers a reconciliation.
            return Ok(None);
        }
        let version = live.meta().resource_version.clone().unwrap_or_default();
        let child = (kind.clone().into_owned(), key.name.clone());
        if self.build.verified_versions.lock().get(&child) == Some(&version) {
            return Ok(None);
        }
        let wanted = serde_json::to_value(wanted()).unwrap_or_default();
        let actual = serde_json::to_value(live.as_ref()).unwrap_or_default();
        let Some(mut patch) = drift::drift_patch(&kind, &actual, &wanted) else {
            self.build.verified_versions.lock().insert(child, version);
            store.insert_returned(key.clone(), live.as_ref().clone());
            return Ok(None);
        };
        info!(job = %self.key, %kind, "drift of a child is put right");
        // The patch names the compared version, so a concurrent change makes it fail.
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("uid".to_owned(), json!(live.meta().uid));
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        let put_right: A = self
            .commands
            .patch_as(
                &K::url_path(&(), Some(&key.namespace)),
                &key.name,
                names::COMPILER_MANAGER,
                &Value::Object(patch),
            )
            .await?;
        // The result is accepted as it is, even if the API server or a webhook has changed the
        // patch. Another patch follows only after another change, so that the operator does not
        // fight with webhooks.
        let version = put_right
            .meta()
            .resource_version
            .clone()
            .unwrap_or_default();
        self.build.verified_versions.lock().insert(child, version);
        store.update_returned(key.clone(), put_right);
        Ok(None)
    }

    async fn create_child<K, A>(&self, key: &Key, wanted: &K) -> Result<CreatedChild<A>, WriteError>
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
            .create(namespace, names::COMPILER_MANAGER, wanted, false)
            .await;
        match created {
            Ok(object) => Ok(CreatedChild::New(object)),
            // The watch is late, the object has lost our label, or it is a foreign object: read it.
            Err(WriteError::AlreadyExists(message) | WriteError::Conflict(message)) => {
                let there = self.commands.get(namespace, &key.name).await?;
                there
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

/// Explains that an object of a child's name is not the job's.
fn explain_conflict(kind: &str, job: &Key, key: &Key, meta: &ObjectMeta) -> JobHold {
    let name = &key.name;
    let owner = meta
        .owner_references
        .iter()
        .flatten()
        .find(|o| o.controller == Some(true));
    let of_a_job = owner::controlling_job(meta).is_some_and(|o| o.name == *job.name);
    if of_a_job || meta.deletion_timestamp.is_some() {
        let whose = if of_a_job {
            " of an earlier job of this name"
        } else {
            ""
        };
        let message = format!("{kind} {name:?}{whose} is still being removed");
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

/// Removes the children of an ended job in reverse order. The scheduler deletes pods. The key,
/// which the operator may not delete, goes with the job.
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
                let own = live.meta().uid.clone().unwrap_or_default();
                commands
                    .delete::<K>(&key.namespace, &key.name, &own, None)
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
        let held = explain_conflict("Service", &job, &job, &meta);
        (held.phase, held.reason, held.message)
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
