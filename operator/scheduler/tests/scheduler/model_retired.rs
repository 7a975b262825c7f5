//! Gangs that are gone, but for pods of theirs, in the model.

use trellis_scheduler::{GangId, PodKey};

use crate::model::{Model, Place};

impl Model {
    /// The gang is gone, and holds nothing.
    pub fn delete(&mut self, id: &GangId) {
        self.unplace(id);
        self.gangs.remove(id);
        self.back_off.remove(id);
        self.retired.remove(id);
    }

    /// The gang is gone, but for pods of it that have been seen.
    pub fn retire(&mut self, id: &GangId) {
        let now = self.now;
        let Some(place) = self.places.get_mut(id) else {
            return self.delete(id);
        };
        let assumed = std::mem::take(&mut place.assumed);
        place.pods.retain(|(key, ..)| !assumed.contains(key));
        place.leaving.get_or_insert(now);
        place.follows = None;
        self.retired.insert(id.clone());
        self.forget_retired();
    }

    /// With the last of its pods what it held is gone.
    pub fn forget_retired(&mut self) {
        let pods = &self.pods;
        let mut empty: Vec<GangId> = Vec::new();
        for id in &self.retired {
            let Some(Place { pods: own, .. }) = self.places.get_mut(id) else {
                continue;
            };
            own.retain(|(key, ..): &(PodKey, _, _)| pods.contains_key(key));
            if own.is_empty() {
                empty.push(id.clone());
            }
        }
        for id in empty {
            self.delete(&id);
        }
    }

    /// One of that name comes: it is another.
    pub fn succeed_retired(&mut self, id: &GangId) {
        if self.retired.contains(id) {
            self.delete(id);
        }
    }
}
