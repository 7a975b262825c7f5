//! The external pods of the cluster, by their keys and by the PodGroup that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::RwLock;
use trellis_gang::key::Key;
use trellis_gang::observed::{BindingAnnotations, ExternalPod, ExternalPods, JudgedSpec, SlimPod};

use super::pods::warn_of_change;

/// Index of the external pods.
#[derive(Debug, Default)]
pub struct ExternalPodIndex {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pods: BTreeMap<Key, Arc<ExternalPod>>,
    /// Resource version of each pod as the watch last showed it.
    versions: BTreeMap<Key, String>,
    /// Names of the pods of each PodGroup.
    groups: BTreeMap<Key, BTreeSet<String>>,
}

impl Inner {
    fn remove(&mut self, key: &Key) -> Option<Arc<ExternalPod>> {
        let before = self.pods.remove(key)?;
        if let Some(group) = before.group() {
            let group = Key::new(&key.namespace, group);
            if let Some(names) = self.groups.get_mut(&group) {
                names.remove(&*key.name);
                if names.is_empty() {
                    self.groups.remove(&group);
                }
            }
        }
        Some(before)
    }

    fn insert(&mut self, key: &Key, pod: ExternalPod) {
        if let Some(group) = pod.group() {
            let group = Key::new(&key.namespace, group);
            let names = self.groups.entry(group).or_default();
            names.insert(key.name.to_string());
        }
        self.pods.insert(key.clone(), Arc::new(pod));
    }
}

impl ExternalPodIndex {
    /// Stores a pod as the watch shows it. Returns the pod before and after if a field that the
    /// scheduler reads has changed.
    ///
    /// `believes` decides whether the queue annotations of the pod are trusted. Its flag is true if
    /// the annotations are new on the pod.
    pub fn apply(
        &self,
        key: &Key,
        pod: &SlimPod,
        believes: impl FnOnce(&ExternalPod, bool) -> bool,
    ) -> Option<[Option<Arc<ExternalPod>>; 2]> {
        let mut now = ExternalPod::from_pod(pod);
        let known = self.get(key);
        if let Some(now) = now.as_mut().filter(|now| now.queue.is_some()) {
            let known = known
                .as_deref()
                .filter(|known| known.has_same_annotations(now));
            now.is_trusted =
                known.is_some_and(|known| known.is_trusted) || believes(now, known.is_none());
        }
        let mut inner = self.inner.write();
        match pod
            .metadata
            .resource_version
            .as_ref()
            .filter(|_| now.is_some())
        {
            Some(version) => inner.versions.insert(key.clone(), version.clone()),
            None => inner.versions.remove(key),
        };
        let before = inner.pods.get(key).cloned();
        if let (Some(before), Some(now)) = (&before, &mut now)
            && before.uid == now.uid
        {
            // These values are final. The watch may be older than the answers to our writes.
            now.deleting |= before.deleting;
            // Only a bound pod counts as changed: policies judge an unbound pod again before its
            // binding.
            if before.is_bound() && now.judged_spec.inherit_changes(&before.judged_spec) {
                warn_of_change(key, &now.judged_spec);
            }
            if now.node.is_none() && before.node.is_some() {
                now.node.clone_from(&before.node);
                now.plan.clone_from(&before.plan);
                now.queue.clone_from(&before.queue);
                now.is_trusted = before.is_trusted;
                now.placed_with.clone_from(&before.placed_with);
                now.flavors.clone_from(&before.flavors);
            }
        }
        if before.as_deref() == now.as_ref() {
            return None;
        }
        let condition = now.as_ref().map(|now| now.unscheduled_condition.clone());
        // A condition that Trellis wrote itself does not wake the gang.
        let only_condition_changed =
            before
                .as_deref()
                .zip(condition)
                .is_some_and(|(before, condition)| {
                    let before = ExternalPod {
                        unscheduled_condition: condition,
                        ..before.clone()
                    };
                    Some(&before) == now.as_ref()
                });
        inner.remove(key);
        if let Some(now) = now {
            inner.insert(key, now);
        }
        let now = inner.pods.get(key).cloned();
        (!only_condition_changed).then_some([before, now])
    }

    /// Records that the API server has bound a pod. Calls `tell`, under the lock, with the bound
    /// pod if it still exists, so that later events of the pod come after the call.
    pub fn record_binding(
        &self,
        key: &Key,
        uid: &str,
        node: &str,
        annotations: BindingAnnotations<'_>,
        tell: impl FnOnce(&ExternalPod),
    ) {
        self.change(key, uid, |pod| {
            if pod.node.is_some() {
                // The watch has shown the binding already.
                pod.is_trusted |= pod.plan.as_deref() == Some(annotations.plan)
                    && pod.queue.as_deref() == Some(annotations.queue);
                return;
            }
            pod.is_trusted = true;
            pod.node = Some(node.to_owned());
            pod.plan = Some(annotations.plan.to_owned());
            pod.queue = Some(annotations.queue.to_owned());
            pod.placed_with = annotations.placed_with.map(str::to_owned);
            pod.flavors.clone_from(annotations.flavors);
            if pod.is_bound() {
                tell(pod);
            }
        });
    }

    /// Returns true if the watch shows a pod without a node although the API server has bound it.
    #[must_use]
    pub fn has_unobserved_binding(&self, key: &Key, pod_object: &SlimPod) -> bool {
        let inner = self.inner.read();
        let known = inner.pods.get(key).filter(|pod| pod.is_bound());
        pod_object.spec.node_name.is_none()
            && known.is_some_and(|pod| pod_object.metadata.uid.as_ref() == Some(&pod.uid))
    }

    /// Decides for every pod whether its queue annotations are trusted.
    pub(crate) fn recheck_trust(&self, believes: impl Fn(&Key, &ExternalPod) -> bool) {
        let mut inner = self.inner.write();
        for (key, pod) in &mut inner.pods {
            let is_believed = pod.queue.is_none() || believes(key, pod);
            if pod.is_trusted != is_believed {
                Arc::make_mut(pod).is_trusted = is_believed;
            }
        }
    }

    /// Records that the API server accepted a delete or an eviction of a pod.
    pub fn mark_deleting(&self, key: &Key, uid: &str) {
        self.change(key, uid, |pod| pod.deleting = true);
    }

    fn change(&self, key: &Key, uid: &str, change: impl FnOnce(&mut ExternalPod)) {
        let mut inner = self.inner.write();
        if let Some(pod) = inner.pods.get_mut(key).filter(|pod| pod.uid == uid) {
            change(Arc::make_mut(pod));
        }
    }

    /// Removes a pod and returns it. Keeps a pod of the same name with another uid.
    pub fn delete(&self, key: &Key, uid: &str) -> Option<Arc<ExternalPod>> {
        let mut inner = self.inner.write();
        inner.pods.get(key).filter(|pod| pod.uid == uid)?;
        inner.versions.remove(key);
        inner.remove(key)
    }

    /// Returns the external pod of that name.
    #[must_use]
    pub fn get(&self, pod: &Key) -> Option<Arc<ExternalPod>> {
        self.inner.read().pods.get(pod).cloned()
    }

    /// Returns the resource version at which the watch last showed the pod, if its uid and spec
    /// match. None otherwise.
    #[must_use]
    pub fn version_if_unchanged(
        &self,
        pod: &Key,
        uid: &str,
        judged: &JudgedSpec,
    ) -> Option<String> {
        let inner = self.inner.read();
        let there = inner.pods.get(pod).filter(|there| there.uid == uid)?;
        let version = inner.versions.get(pod);
        version
            .filter(|_| there.judged_spec.is_like(judged))
            .cloned()
    }

    /// Returns the pods of the PodGroup.
    #[must_use]
    pub fn pods_of_group(&self, group: &Key) -> ExternalPods {
        let inner = self.inner.read();
        let names = inner.groups.get(group).into_iter().flatten();
        names
            .filter_map(|name| {
                let pod = inner.pods.get(&Key::new(&group.namespace, name))?;
                Some((name.clone(), pod.clone()))
            })
            .collect()
    }

    /// Returns true if any pod names the PodGroup.
    #[must_use]
    pub fn has_group(&self, group: &Key) -> bool {
        self.inner.read().groups.contains_key(group)
    }

    /// Returns all external pods, by their keys.
    #[must_use]
    pub fn all(&self) -> Vec<(Key, Arc<ExternalPod>)> {
        self.filter(|_, _| true)
    }

    /// Returns the pods that match the predicate, which must not call this index.
    #[must_use]
    pub fn filter(
        &self,
        mut of: impl FnMut(&Key, &ExternalPod) -> bool,
    ) -> Vec<(Key, Arc<ExternalPod>)> {
        let inner = self.inner.read();
        let all = inner.pods.iter().filter(|(key, pod)| of(key, pod));
        all.map(|(key, pod)| (key.clone(), pod.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
