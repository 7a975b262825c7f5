//! Deleted gangs whose pods still stop, in the model.

use std::collections::{BTreeMap, BTreeSet};

use trellis_scheduler::{Gang, GangId, LimitName, PodKey};

use crate::model::Model;

/// The usage of a deleted gang until its last pod is gone.
#[derive(Clone, Debug)]
pub struct ModelStoppingGang {
    /// The gang as it was placed.
    pub gang: Gang,
    pub drawn: BTreeMap<LimitName, i128>,
    pub pods: BTreeSet<PodKey>,
}

impl Model {
    /// Deletes a gang, with all of its usage.
    pub fn delete(&mut self, id: &GangId) {
        self.unplace(id);
        self.gangs.remove(id);
        self.back_off.remove(id);
    }

    /// Deletes a gang whose known pods still stop.
    pub fn retire(&mut self, id: &GangId) {
        let stops = self
            .stopping_from_place(id)
            .or_else(|| self.stopping_from_kept_place(id));
        self.delete(id);
        self.stopping.extend(stops);
    }

    fn stopping_from_place(&self, id: &GangId) -> Option<ModelStoppingGang> {
        let place = self.places.get(id)?;
        let keys = place.pods.iter().map(|(key, ..)| key);
        let there =
            keys.filter(|key| !place.assumed.contains(*key) && self.pods.contains_key(*key));
        self.stopping_gang(id, &place.gang, there.cloned().collect())
    }

    /// Returns the usage that remains after a kept place ends.
    pub fn stopping_from_kept_place(&self, id: &GangId) -> Option<ModelStoppingGang> {
        let kept = self.kept_places.get(id)?;
        let is_of_earlier = |key: &PodKey| self.stopping.iter().any(|gang| gang.pods.contains(key));
        let keys = kept.gang.pod_keys();
        let pods = keys.filter(|key| self.pods.contains_key(key) && !is_of_earlier(key));
        let pods = pods.collect();
        self.stopping_gang(id, &kept.gang, pods)
    }

    fn stopping_gang(
        &self,
        id: &GangId,
        placed: &Gang,
        pods: BTreeSet<PodKey>,
    ) -> Option<ModelStoppingGang> {
        (!pods.is_empty()).then(|| ModelStoppingGang {
            gang: placed.clone(),
            drawn: Self::drawn_amounts(self.gangs.get(id).unwrap_or(placed), placed),
            pods,
        })
    }

    /// Removes a stopping pod that is gone, or now belongs to a placed gang.
    pub fn remove_stopping_pod(&mut self, pod: &PodKey) {
        for stopping in &mut self.stopping {
            stopping.pods.remove(pod);
        }
        self.stopping.retain(|stopping| !stopping.pods.is_empty());
    }
}
