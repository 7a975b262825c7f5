//! Deleted gangs whose pods still stop, in the model.

use std::collections::{BTreeMap, BTreeSet};

use trellis_scheduler::{Gang, GangId, LimitName, PodKey};

use crate::model::Model;

/// Usage until the last pod is gone.
#[derive(Clone, Debug)]
pub struct Stopping {
    /// The gang as it was placed.
    pub gang: Gang,
    pub drawn: BTreeMap<LimitName, i128>,
    pub pods: BTreeSet<PodKey>,
}

impl Model {
    /// The gang is gone, and holds nothing.
    pub fn delete(&mut self, id: &GangId) {
        self.unplace(id);
        self.gangs.remove(id);
        self.back_off.remove(id);
    }

    /// The gang is deleted, but its known pods still stop.
    pub fn retire(&mut self, id: &GangId) {
        let stops = self.place_stops(id).or_else(|| self.keep_stops(id));
        self.delete(id);
        self.stopping.extend(stops);
    }

    fn place_stops(&self, id: &GangId) -> Option<Stopping> {
        let place = self.places.get(id)?;
        let keys = place.pods.iter().map(|(key, ..)| key);
        let there =
            keys.filter(|key| !place.assumed.contains(*key) && self.pods.contains_key(*key));
        self.stops(id, &place.gang, there.cloned().collect())
    }

    /// Usage that remains when a place is no longer kept.
    pub fn keep_stops(&self, id: &GangId) -> Option<Stopping> {
        let kept = self.kept.get(id)?;
        let going = kept.pods.iter().filter(|pod| !pod.held);
        let pods = going.map(|pod| pod.key.clone()).collect();
        self.stops(id, &kept.gang, pods)
    }

    fn stops(&self, id: &GangId, placed: &Gang, pods: BTreeSet<PodKey>) -> Option<Stopping> {
        (!pods.is_empty()).then(|| Stopping {
            gang: placed.clone(),
            drawn: Self::drawn(self.gangs.get(id).unwrap_or(placed), placed),
            pods,
        })
    }

    /// The pod is gone, or belongs to a placed gang.
    pub fn stops_no_longer(&mut self, pod: &PodKey) {
        for stopping in &mut self.stopping {
            stopping.pods.remove(pod);
        }
        self.stopping.retain(|stopping| !stopping.pods.is_empty());
    }
}
