//! Finds external pods whose requests depend on an object that has changed.

use trellis_gang::external;
use trellis_gang::external::external_request;
use trellis_gang::key::Key;
use trellis_gang::observed::ExternalPod;

use super::Context;
use crate::SchedulerEvent;

impl Context {
    /// Wakes the pending external pods in these namespaces, because an object that their requests
    /// depend on has changed.
    pub(super) fn requeue_external_pods_in(&self, mut concerned: impl FnMut(&str) -> bool) {
        self.requeue_external_pods(|key, _| concerned(&key.namespace));
    }

    /// Wakes bound external pods when their namespace becomes known, because the limits that they
    /// draw on depend on its labels.
    pub(super) fn charge_external_pods_in(&self, namespace: &str) {
        if !self.cache.is_synced() {
            return;
        }
        let is_charged =
            |key: &Key, pod: &ExternalPod| &*key.namespace == namespace && pod.is_bound();
        for (key, pod) in self.cache.external_pods.filter(is_charged) {
            self.requeue_external_pod(&key, &pod);
        }
    }

    /// Wakes the pending external pods for which `concerned` returns true.
    pub(super) fn requeue_external_pods(
        &self,
        mut concerned: impl FnMut(&Key, &ExternalPod) -> bool,
    ) {
        if !self.cache.is_synced() {
            return;
        }
        let concerned = self
            .cache
            .external_pods
            .filter(|key, pod| pod.is_waiting() && concerned(key, pod));
        for (key, pod) in concerned {
            self.requeue_external_pod(&key, &pod);
        }
    }

    /// Wakes the pending pods whose namespace matches and that mount a matching claim.
    pub(super) fn requeue_external_pods_mounting(
        &self,
        within: impl Fn(&str) -> bool,
        concerned: impl Fn(&Key) -> bool,
    ) {
        self.requeue_external_pods(|key, pod| {
            if !within(&key.namespace) {
                return false;
            }
            let spec = pod.spec.as_ref().and_then(|spec| spec.as_ref().ok());
            let claims = spec.map(|spec| external_request::pod_claims(&key.name, spec));
            let mut claims = claims.into_iter().flatten();
            claims.any(|claim| concerned(&Key::new(&key.namespace, &claim)))
        });
    }

    fn requeue_external_pod(&self, key: &Key, pod: &ExternalPod) {
        let group = pod.group().map(|group| Key::new(&key.namespace, group));
        let group =
            group.map(|group| SchedulerEvent::Recheck(external::pod_group_gang_key(&group)));
        group.into_iter().for_each(|look| self.send_event(look));
        // A pod that came after its gang waits by itself.
        self.send_event(SchedulerEvent::Recheck(external::pod_gang_key(key)));
    }
}
