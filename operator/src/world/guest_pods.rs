//! What the pods ask about that others have made has changed.

use super::World;
use crate::key::Key;
use crate::scheduling::{Feed, guests};

impl World {
    /// The guests that wait in namespaces of which this holds are looked at again: what they ask
    /// about has changed.
    pub(super) fn look_again_at_guests(&self, mut concerned: impl FnMut(&str) -> bool) {
        if !self.is_synced() {
            return;
        }
        for (key, pod) in self.guests.all() {
            if pod.waits() && concerned(&key.namespace) {
                let group = pod.group().map(|group| Key::new(&key.namespace, group));
                let group = group.map(|group| Feed::Look(guests::of_group(&group)));
                group.into_iter().for_each(|look| self.tell(look));
                // One that came after its gang waits for itself.
                self.tell(Feed::Look(guests::of_pod(&key)));
            }
        }
    }
}
