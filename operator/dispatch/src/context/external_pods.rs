//! Finds external pods whose requests depend on an object that has changed.

use trellis_gang::external;
use trellis_gang::external::asks;
use trellis_gang::key::Key;
use trellis_gang::observed::ExternalPod;

use super::Context;
use crate::Feed;

impl Context {
    /// Looks again at the pending external pods in these namespaces, because something that their
    /// requests depend on has changed.
    pub(super) fn look_again_at_external_pods_in(&self, mut concerned: impl FnMut(&str) -> bool) {
        self.look_again_at_external_pods(|key, _| concerned(&key.namespace));
    }

    /// Looks again at bound external pods when their namespace becomes known: the limits that they
    /// draw on depend on its labels.
    pub(super) fn charge_external_pods_in(&self, namespace: &str) {
        if !self.cache.is_synced() {
            return;
        }
        let held = |key: &Key, pod: &ExternalPod| &*key.namespace == namespace && pod.is_bound();
        for (key, pod) in self.cache.external_pods.all_of(held) {
            self.look_again_at_external(&key, &pod);
        }
    }

    /// Looks again at those pending external pods for which `concerned` holds.
    pub(super) fn look_again_at_external_pods(
        &self,
        mut concerned: impl FnMut(&Key, &ExternalPod) -> bool,
    ) {
        if !self.cache.is_synced() {
            return;
        }
        let concerned = self
            .cache
            .external_pods
            .all_of(|key, pod| pod.waits() && concerned(key, pod));
        for (key, pod) in concerned {
            self.look_again_at_external(&key, &pod);
        }
    }

    /// Looks again at those that are pending in such namespaces and mount such a claim.
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
        // A pod that came after its gang waits on its own.
        self.tell(Feed::Look(external::of_pod(key)));
    }
}
