//! Gangs that are gone, but for pods that still stop, in the model.

use std::collections::{BTreeMap, BTreeSet};

use trellis_scheduler::{Gang, GangId, LimitName, PodKey};

use crate::model::Model;

/// What is held until the last pod is gone.
#[derive(Clone, Debug)]
pub struct Stopping {
    /// As it was placed.
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

    /// The gang is gone, but for pods of it that have been seen.
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

    /// What holds on when a place is kept no longer.
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

    /// A pod is gone, or a placed gang's.
    pub fn stops_no_longer(&mut self, pod: &PodKey) {
        for stopping in &mut self.stopping {
            stopping.pods.remove(pod);
        }
        self.stopping.retain(|stopping| !stopping.pods.is_empty());
    }
}
