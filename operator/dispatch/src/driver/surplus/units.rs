//! The pods of surplus units, and slices that are created, torn, or joined to the gang.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use trellis_api::names;
use trellis_api::pod_group::Plan;
use trellis_gang::engine::{self, SurplusUnit};
use trellis_gang::gang_step::MissingPod;
use trellis_gang::key::Key;
use trellis_gang::observed::PodView;
use trellis_gang::requirements::flavors::{GangPlacement, group_tolerations};

use super::SurplusPlacement;
use crate::driver::Driver;

/// Returns the pods of a unit in the place that the engine has found.
pub(super) fn assigned_pods(
    unit: &SurplusUnit,
    place: &GangPlacement,
    round: i64,
) -> Vec<MissingPod> {
    let tolerations = group_tolerations(&place.groups, &unit.group);
    let pods = place.placement.iter().map(|(_, at, node)| MissingPod {
        group: unit.group.clone(),
        index: unit.first.saturating_add(at),
        node: node.as_str().to_owned(),
        round,
        flavor_tolerations: Some(tolerations.to_vec()),
    });
    pods.collect()
}

impl Driver {
    /// Returns the missing pods of a slice that this leader creates. A slice that has lost pods gives
    /// up its place.
    pub(super) fn complete_slice(
        &mut self,
        job: &Key,
        unit: &SurplusUnit,
        round: i64,
        missing: &BTreeSet<u32>,
    ) -> Vec<MissingPod> {
        let state = self.gangs.get(job);
        let is_leaving = self
            .leaving
            .contains_key(&engine::surplus_unit_key(job, unit));
        match state.and_then(|state| state.surplus.states.get(unit)) {
            Some(SurplusPlacement::Assigned(place)) if !is_leaving => {
                let pods = assigned_pods(unit, place, round).into_iter();
                pods.filter(|pod| missing.contains(&pod.index)).collect()
            }
            _ => {
                self.withdraw_surplus_pod(job, unit);
                if let Some(state) = self.gangs.get_mut(job) {
                    state.surplus.torn.insert(unit.clone());
                }
                Vec::new()
            }
        }
    }

    /// Returns the indexes of the pods of a surplus unit.
    pub(in crate::driver) fn unit_indexes(&self, job: &Key, unit: &SurplusUnit) -> Range<u32> {
        let job = self.committer.cache().jobs.get(job);
        let group = job.as_ref().and_then(|job| job.spec.group(&unit.group));
        let single = unit.first..unit.first.saturating_add(1);
        group.map_or(single, |group| unit.indexes(group))
    }

    /// Returns the existing pods of a surplus unit.
    pub(super) fn surplus_pods<'p>(
        &self,
        job: &Key,
        unit: &SurplusUnit,
        pods: &'p BTreeMap<String, PodView>,
    ) -> impl Iterator<Item = &'p PodView> {
        let indexes = self.unit_indexes(job, unit);
        let names = indexes.map(|index| names::pod_name(&job.name, &unit.group, index));
        names.filter_map(|name| pods.get(&name))
    }

    /// Gives up the places of slices that are part of the gang now. Their pods stay.
    pub(in crate::driver) fn release_joined_slices(&mut self, job: &Key, plan: &Plan) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let has_joined = |unit: &SurplusUnit, _: &mut SurplusPlacement| {
            let mut groups = plan.elastic.iter().filter(|e| e.name == unit.group);
            groups.any(|group| group.starts.contains(&i64::from(unit.first)))
        };
        let joined: Vec<SurplusUnit> = state
            .surplus
            .states
            .extract_if(.., has_joined)
            .map(|(unit, _)| unit)
            .collect();
        for unit in joined {
            self.leaving.remove(&engine::surplus_unit_key(job, &unit));
            self.engine
                .delete_gang(&engine::surplus_gang_id(job, &unit));
        }
    }
}
