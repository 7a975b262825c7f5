//! What the pods ask about that others have made has changed.

use super::World;
use crate::key::Key;
use crate::policy::Guard;
use crate::scheduling::external::{asks, next};
use crate::scheduling::{Feed, external};
use crate::watch::ExternalPod;

impl World {
    /// The external pods that wait in namespaces of which this holds are looked at again: what they
    /// ask about has changed.
    pub(super) fn look_again_at_external_pods_in(&self, mut concerned: impl FnMut(&str) -> bool) {
        self.look_again_at_external_pods(|key, _| concerned(&key.namespace));
    }

    /// True if what a pod says of where it counts is to be believed: users could not write it, or
    /// the plan of its gang names it. Before all is listed that is not known, and nothing is
    /// decided.
    ///
    /// An annotation that appeared while users could write it stays without effect.
    pub(super) fn believes(&self, key: &Key, pod: &ExternalPod, is_new: bool) -> bool {
        let is_guarded = is_new && self.guards.is_in_force(Guard::ReservedKeys);
        !self.is_synced() || is_guarded || self.plans(key, pod)
    }

    fn plans(&self, key: &Key, pod: &ExternalPod) -> bool {
        let group = pod.group().map(|group| Key::new(&key.namespace, group));
        let group = group.and_then(|group| self.pod_groups.get(&group));
        let group = group.filter(|group| external::is_users(group));
        let journal = group.as_ref().and_then(|group| group.status.as_ref());
        let plan = journal.and_then(|journal| journal.plan.as_ref());
        plan.is_some_and(|plan| {
            let is_its = pod.plan.as_ref() == Some(&plan.hash) && pod.queue == plan.queue;
            is_its && next::planned(plan).any(|(planned, _)| planned.uid == pod.uid)
        })
    }

    /// All is listed: it is known now whether users can write where a pod counts.
    pub(super) fn settle_external_pods(&self) {
        self.external_pods
            .settle(|key, pod| self.believes(key, pod, true));
    }

    /// Pods that hold a node in a namespace which was not known before: which limits they draw on
    /// depends on its labels.
    pub(super) fn charge_external_pods_in(&self, namespace: &str) {
        if !self.is_synced() {
            return;
        }
        let held = |key: &Key, pod: &ExternalPod| &*key.namespace == namespace && pod.is_bound();
        for (key, pod) in self.external_pods.all_of(held) {
            self.look_again_at_external(&key, &pod);
        }
    }

    /// The same of those pods of which this holds.
    pub(super) fn look_again_at_external_pods(
        &self,
        mut concerned: impl FnMut(&Key, &ExternalPod) -> bool,
    ) {
        if !self.is_synced() {
            return;
        }
        let concerned = self
            .external_pods
            .all_of(|key, pod| pod.waits() && concerned(key, pod));
        for (key, pod) in concerned {
            self.look_again_at_external(&key, &pod);
        }
    }

    /// Those that wait in such namespaces and mount a claim of which this holds.
    pub(super) fn look_again_at_external_pods_with(
        &self,
        within: impl Fn(&str) -> bool,
        concerned: impl Fn(&Key) -> bool,
    ) {
        self.look_again_at_external_pods(|key, pod| {
            if !within(&key.namespace) {
                return false;
            }
            let spec = pod.spec.as_ref().and_then(|spec| spec.as_ref().ok());
            let claims = spec.map(|spec| asks::claims(&key.name, spec));
            let mut claims = claims.into_iter().flatten();
            claims.any(|claim| concerned(&Key::new(&key.namespace, &claim)))
        });
    }

    fn look_again_at_external(&self, key: &Key, pod: &ExternalPod) {
        let group = pod.group().map(|group| Key::new(&key.namespace, group));
        let group = group.map(|group| Feed::Look(external::of_group(&group)));
        group.into_iter().for_each(|look| self.tell(look));
        // One that came after its gang waits for itself.
        self.tell(Feed::Look(external::of_pod(key)));
    }
}
