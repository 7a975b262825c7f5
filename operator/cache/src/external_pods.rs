//! Decides whether the queue annotations of an external pod are trusted.

use trellis_gang::external;
use trellis_gang::key::Key;
use trellis_gang::observed::ExternalPod;

use super::Cache;
use crate::policy::Guard;

impl Cache {
    /// Returns true if the queue annotations of a pod are trusted: a guard keeps users from writing
    /// them, or the plan of the pod's gang names the pod. Returns true for every pod until all
    /// kinds are listed, because guards and plans are unknown before.
    ///
    /// An annotation that appeared while users could write it has no effect.
    pub fn trusts_annotations(&self, key: &Key, pod: &ExternalPod, is_new: bool) -> bool {
        let is_guarded = is_new && self.guards.is_in_force(Guard::ReservedKeys);
        !self.is_synced() || is_guarded || self.is_planned(key, pod)
    }

    fn is_planned(&self, key: &Key, pod: &ExternalPod) -> bool {
        let group = pod.group().map(|group| Key::new(&key.namespace, group));
        let group = group.and_then(|group| self.pod_groups.get(&group));
        let group = group.filter(|group| external::is_user_created(group));
        let journal = group.as_ref().and_then(|group| group.status.as_ref());
        let plan = journal.and_then(|journal| journal.plan.as_ref());
        plan.is_some_and(|plan| {
            let is_its = pod.plan.as_ref() == Some(&plan.hash) && pod.queue == plan.queue;
            is_its && external::plan::planned_pods(plan).any(|(planned, _)| planned.uid == pod.uid)
        })
    }

    /// Decides again for every external pod once all kinds are listed. Only then does the cache
    /// know whether a guard keeps users from writing the queue annotations.
    pub(crate) fn recheck_external_pods(&self) {
        self.external_pods
            .recheck_trust(|key, pod| self.trusts_annotations(key, pod, true));
    }
}
