//! The external pods of the cluster, by their keys and by the PodGroup that they name.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;

use super::pods::warn_of_change;
use crate::gang::key::Key;
use crate::gang::observed::JudgedSpec;
use crate::gang::observed::SlimPod;
use crate::gang::observed::{BoundBy, ExternalPod, ExternalPods};

/// The external pods.
#[derive(Debug, Default)]
pub struct ExternalPodIndex {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pods: HashMap<Key, Arc<ExternalPod>>,
    /// The resource version of each as the watch has shown it last.
    versions: HashMap<Key, String>,
    /// Names of the pods that name a PodGroup, by its key.
    groups: HashMap<Key, BTreeSet<String>>,
}

impl Inner {
    fn take(&mut self, key: &Key) -> Option<Arc<ExternalPod>> {
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
    /// Takes a pod as the watch shows it. Gives it as it was and as it is, if anything of it that
    /// matters is another.
    ///
    /// `believes`: whether what the pod says of where it counts is to be believed, and whether it has
    /// not said it before.
    pub fn apply(
        &self,
        key: &Key,
        pod: &SlimPod,
        believes: impl FnOnce(&ExternalPod, bool) -> bool,
    ) -> Option<[Option<Arc<ExternalPod>>; 2]> {
        let mut now = ExternalPod::of(pod);
        let known = self.get(key);
        if let Some(now) = now.as_mut().filter(|now| now.queue.is_some()) {
            let known = known.as_deref().filter(|known| known.says_the_same(now));
            now.is_believed =
                known.is_some_and(|known| known.is_believed) || believes(now, known.is_none());
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
            // Nothing takes these back: the watch is behind the answers to our writes.
            now.deleting |= before.deleting;
            // Until it is bound its user may change it: policies are asked again then.
            if before.is_bound() && now.judged.follow(&before.judged) {
                warn_of_change(key, &now.judged);
            }
            if now.node.is_none() && before.node.is_some() {
                now.node.clone_from(&before.node);
                now.plan.clone_from(&before.plan);
                now.queue.clone_from(&before.queue);
                now.is_believed = before.is_believed;
                now.with.clone_from(&before.with);
                now.flavors.clone_from(&before.flavors);
            }
        }
        if before.as_deref() == now.as_ref() {
            return None;
        }
        let told = now.as_ref().map(|now| now.told.clone());
        // What we have told it ourselves is no news to its gang.
        let is_told = before.as_deref().zip(told).is_some_and(|(before, told)| {
            let before = ExternalPod {
                told,
                ..before.clone()
            };
            Some(&before) == now.as_ref()
        });
        inner.take(key);
        if let Some(now) = now {
            inner.insert(key, now);
        }
        let now = inner.pods.get(key).cloned();
        (!is_told).then_some([before, now])
    }

    /// A pod is bound: the API server has said so. `tell` what that means for its node, if it is
    /// there still: whatever becomes of it is told afterwards.
    pub fn bound(
        &self,
        key: &Key,
        uid: &str,
        node: &str,
        by: BoundBy<'_>,
        tell: impl FnOnce(&ExternalPod),
    ) {
        self.change(key, uid, |pod| {
            if pod.node.is_some() {
                // The watch was faster.
                pod.is_believed |=
                    pod.plan.as_deref() == Some(by.plan) && pod.queue.as_deref() == Some(by.queue);
                return;
            }
            pod.is_believed = true;
            pod.node = Some(node.to_owned());
            pod.plan = Some(by.plan.to_owned());
            pod.queue = Some(by.queue.to_owned());
            pod.with = by.with.map(str::to_owned);
            pod.flavors.clone_from(by.flavors);
            if pod.is_bound() {
                tell(pod);
            }
        });
    }

    /// The watch shows a pod without its node that the API server has said is bound.
    #[must_use]
    pub fn is_bound_since(&self, key: &Key, shown: &SlimPod) -> bool {
        let inner = self.inner.read();
        let known = inner.pods.get(key).filter(|pod| pod.is_bound());
        shown.spec.node_name.is_none()
            && known.is_some_and(|pod| shown.metadata.uid.as_ref() == Some(&pod.uid))
    }

    /// Decides of all pods whether what they say of where they count is believed.
    pub fn settle(&self, believes: impl Fn(&Key, &ExternalPod) -> bool) {
        let mut inner = self.inner.write();
        for (key, pod) in &mut inner.pods {
            let is_believed = pod.queue.is_none() || believes(key, pod);
            if pod.is_believed != is_believed {
                Arc::make_mut(pod).is_believed = is_believed;
            }
        }
    }

    /// A delete or an eviction of a pod was accepted.
    pub fn deleting(&self, key: &Key, uid: &str) {
        self.change(key, uid, |pod| pod.deleting = true);
    }

    fn change(&self, key: &Key, uid: &str, change: impl FnOnce(&mut ExternalPod)) {
        let mut inner = self.inner.write();
        if let Some(pod) = inner.pods.get_mut(key).filter(|pod| pod.uid == uid) {
            change(Arc::make_mut(pod));
        }
    }

    /// Forgets a pod. Gives what it was. Another of that name stays.
    pub fn delete(&self, key: &Key, uid: &str) -> Option<Arc<ExternalPod>> {
        let mut inner = self.inner.write();
        inner.pods.get(key).filter(|pod| pod.uid == uid)?;
        inner.versions.remove(key);
        inner.take(key)
    }

    /// The external pod of that name.
    #[must_use]
    pub fn get(&self, pod: &Key) -> Option<Arc<ExternalPod>> {
        self.inner.read().pods.get(pod).cloned()
    }

    /// The resource version at which the watch has shown this incarnation of a pod last, with
    /// this spec. None: it shows another.
    #[must_use]
    pub fn version_with(&self, pod: &Key, uid: &str, judged: &JudgedSpec) -> Option<String> {
        let inner = self.inner.read();
        let there = inner.pods.get(pod).filter(|there| there.uid == uid)?;
        let version = inner.versions.get(pod);
        version.filter(|_| there.judged.is_like(judged)).cloned()
    }

    /// The pods that name the PodGroup.
    #[must_use]
    pub fn of_group(&self, group: &Key) -> ExternalPods {
        let inner = self.inner.read();
        let names = inner.groups.get(group).into_iter().flatten();
        names
            .filter_map(|name| {
                let pod = inner.pods.get(&Key::new(&group.namespace, name))?;
                Some((name.clone(), pod.clone()))
            })
            .collect()
    }

    /// True if there are pods that name the PodGroup.
    #[must_use]
    pub fn name_group(&self, group: &Key) -> bool {
        self.inner.read().groups.contains_key(group)
    }

    /// All external pods, by their keys.
    #[must_use]
    pub fn all(&self) -> Vec<(Key, Arc<ExternalPod>)> {
        self.all_of(|_, _| true)
    }

    /// Those of which this holds, which must not ask for others of them.
    #[must_use]
    pub fn all_of(
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
