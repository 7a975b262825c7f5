//! The fourth step: the children, in the order in which they must exist. What
//! is not there is created by POST, so that a foreign object is never adopted;
//! what differs in a field that we own is put right by server-side apply.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::info;
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, Reason, names};

use super::builds::Build;
use super::dereference::{Surrounded, is_owned};
use super::lifecycle::Standing;
use crate::commands::{Commands, WriteError};
use crate::key::Key;
use crate::watch::{SlimService, Store};
use crate::world::World;

/// Makes the children what they should be. Some: a foreign object is in the way.
pub(super) async fn children(
    commands: &Commands,
    world: &World,
    key: &Key,
    seen: &Surrounded,
    build: &Build,
) -> Result<Option<Standing>, WriteError> {
    let Ok(job) = &build.result else {
        return Ok(None);
    };
    let compiled = job.compiled();
    let place = Place {
        commands,
        key,
        uid: seen.uid(),
        build,
    };
    debug_assert!(
        compiled.config_maps().is_empty(),
        "no framework has files yet"
    );
    // Side by side: none needs another, and no pod is created before all are there.
    let (service, policy, group) = tokio::join!(
        place.child::<Service, SlimService>(compiled.service(), &world.services),
        place.child::<NetworkPolicy, NetworkPolicy>(
            compiled.network_policy(),
            &world.network_policies
        ),
        place.child::<PodGroup, PodGroup>(compiled.pod_group(), &world.pod_groups),
    );
    Ok(service?.or(policy?).or(group?))
}

struct Place<'a> {
    commands: &'a Commands,
    key: &'a Key,
    uid: &'a str,
    build: &'a Build,
}

impl Place<'_> {
    /// One child, which bears the job's name. `A` is the form in which it is watched.
    async fn child<K, A>(
        &self,
        wanted: &K,
        store: &Store<A>,
    ) -> Result<Option<Standing>, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize,
        A: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        let kind = K::kind(&());
        let Some(live) = store.get(self.key) else {
            let created: Result<A, WriteError> = self
                .commands
                .create(&self.key.namespace, names::COMPILER_MANAGER, wanted, false)
                .await;
            return match created {
                Ok(object) => {
                    store.put(self.key.clone(), object);
                    Ok(None)
                }
                // The watch is late, or a foreign object is there: look which.
                Err(WriteError::Conflict(message)) => {
                    let there: Option<A> = self
                        .commands
                        .get(&self.key.namespace, &self.key.name)
                        .await?;
                    match there {
                        Some(object) if is_owned(object.meta(), self.uid) => {
                            store.put(self.key.clone(), object);
                            Ok(None)
                        }
                        Some(object) => Ok(Some(self.foreign(&kind, object.meta()))),
                        None => Err(WriteError::Conflict(message)),
                    }
                }
                Err(error) => Err(error),
            };
        };
        if !is_owned(live.meta(), self.uid) {
            return Ok(Some(self.foreign(&kind, live.meta())));
        }
        if live.meta().deletion_timestamp.is_some() {
            // It is created again once it is gone: its deletion brings us back here.
            return Ok(None);
        }
        let version = live.meta().resource_version.clone().unwrap_or_default();
        if self.build.checked.lock().get(kind.as_ref()) == Some(&version) {
            return Ok(None);
        }
        let wanted = serde_json::to_value(wanted).unwrap_or_default();
        let actual = serde_json::to_value(live.as_ref()).unwrap_or_default();
        if covers(&actual, &wanted) {
            self.build.checked.lock().insert(kind.into_owned(), version);
            return Ok(None);
        }
        info!(job = %self.key, %kind, "drift of a child is put right");
        let mut patch = wanted;
        if let Some(meta) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
            let uid = live.meta().uid.clone().map_or(Value::Null, Value::String);
            meta.insert("uid".to_owned(), uid);
        }
        let applied: A = self
            .commands
            .apply_as(
                &K::url_path(&(), Some(&self.key.namespace)),
                &self.key.name,
                names::COMPILER_MANAGER,
                &patch,
            )
            .await?;
        store.put(self.key.clone(), applied);
        Ok(None)
    }

    fn foreign(&self, kind: &str, meta: &ObjectMeta) -> Standing {
        let owner = meta
            .owner_references
            .iter()
            .flatten()
            .find(|o| o.controller == Some(true))
            .map_or_else(String::new, |o| {
                format!(", owned by {} {:?}", o.kind, o.name)
            });
        Standing::Held {
            phase: JobPhase::Blocked,
            reason: Reason::NameConflict,
            message: format!(
                "{kind} {:?} is there and is not this job's{owner}: delete or rename it, or rename the job",
                &*self.key.name
            ),
        }
    }
}

/// True if everything that is wanted is so: of objects every key, of lists
/// every element in its place and no more. What others added to objects is theirs.
fn covers(actual: &Value, wanted: &Value) -> bool {
    match (actual, wanted) {
        (Value::Object(actual), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            match actual.get(key) {
                Some(there) => covers(there, value),
                // The slim forms leave out what names the kind.
                None => matches!(key.as_str(), "apiVersion" | "kind") || is_empty(value),
            }
        }),
        (Value::Array(actual), Value::Array(wanted)) => {
            actual.len() == wanted.len() && actual.iter().zip(wanted).all(|(a, w)| covers(a, w))
        }
        (actual, wanted) => actual == wanted,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Removes what an ended job has made, in the reverse order. Pods are the scheduler's.
pub(super) async fn remove(
    commands: &Commands,
    world: &World,
    key: &Key,
    uid: &str,
) -> Result<(), WriteError> {
    async fn one<K, A>(
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
            Some(live)
                if is_owned(live.meta(), uid) && live.meta().deletion_timestamp.is_none() =>
            {
                let own = live.meta().uid.clone().unwrap_or_default();
                commands
                    .delete::<K>(&key.namespace, &key.name, &own, None)
                    .await
            }
            _ => Ok(()),
        }
    }
    one::<PodGroup, _>(commands, &world.pod_groups, key, uid).await?;
    one::<NetworkPolicy, _>(commands, &world.network_policies, key, uid).await?;
    one::<Service, _>(commands, &world.services, key, uid).await
}

#[cfg(test)]
mod tests {
    use super::covers;
    use serde_json::json;

    #[test]
    fn drift_is_what_differs_in_our_fields() {
        let wanted = json!({"spec": {"a": 1, "list": [{"x": 1}], "none": []}});
        assert!(covers(
            &json!({"spec": {"a": 1, "list": [{"x": 1, "defaulted": true}], "more": 2}}),
            &wanted
        ));
        assert!(!covers(
            &json!({"spec": {"a": 2, "list": [{"x": 1}]}}),
            &wanted
        ));
        assert!(!covers(&json!({"spec": {"a": 1, "list": []}}), &wanted));
        assert!(!covers(
            &json!({"spec": {"a": 1, "list": [{"x": 1}, {"x": 2}]}}),
            &wanted
        ));
    }
}
