//! What the pods ask about that others have made has changed.

use super::World;
use crate::key::Key;
use crate::scheduling::guests::asks;
use crate::scheduling::{Feed, guests};
use crate::watch::GuestPod;

impl World {
    /// The guests that wait in namespaces of which this holds are looked at again: what they ask
    /// about has changed.
    pub(super) fn look_again_at_guests(&self, mut concerned: impl FnMut(&str) -> bool) {
        self.look_again_at_guest_pods(|key, _| concerned(&key.namespace));
    }

    /// The same of those pods of which this holds.
    pub(super) fn look_again_at_guest_pods(
        &self,
        mut concerned: impl FnMut(&Key, &GuestPod) -> bool,
    ) {
        if !self.is_synced() {
            return;
        }
        let concerned = self
            .guests
            .all_of(|key, pod| pod.waits() && concerned(key, pod));
        for (key, pod) in concerned {
            self.look_again_at_guest(&key, &pod);
        }
    }

    /// Those that wait in such namespaces and mount a claim of which this holds.
    pub(super) fn look_again_at_guests_with(
        &self,
        within: impl Fn(&str) -> bool,
        concerned: impl Fn(&Key) -> bool,
    ) {
        self.look_again_at_guest_pods(|key, pod| {
            if !within(&key.namespace) {
                return false;
            }
            let spec = pod.spec.as_ref().and_then(|spec| spec.as_ref().ok());
            let claims = spec.map(|spec| asks::claims(&key.name, spec));
            let mut claims = claims.into_iter().flatten();
            claims.any(|claim| concerned(&Key::new(&key.namespace, &claim)))
        });
    }

    fn look_again_at_guest(&self, key: &Key, pod: &GuestPod) {
        let group = pod.group().map(|group| Key::new(&key.namespace, group));
        let group = group.map(|group| Feed::Look(guests::of_group(&group)));
        group.into_iter().for_each(|look| self.tell(look));
        // One that came after its gang waits for itself.
        self.tell(Feed::Look(guests::of_pod(key)));
    }
}
