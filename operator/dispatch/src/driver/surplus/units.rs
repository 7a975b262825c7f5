//! The pods of surplus units, and slices that are created, torn, or joined to the gang.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;
use trellis_api::names;
use trellis_api::pod_group::{ElasticGroup, Plan};
use trellis_gang::GangIndexes;
use trellis_gang::engine::{self, SurplusUnit};
use trellis_gang::gang_step::MissingPod;
use trellis_gang::key::Key;
use trellis_gang::observed::PodView;
use trellis_gang::requirements::flavors::{GangPlacement, group_tolerations};

use super::SurplusPlacement;
use crate::driver::Driver;

/// How long a slice may look torn, because the watch shows its pods one after the other. Then the
/// existing pods are deleted.
pub(super) const TORN_TIME: Duration = Duration::from_secs(5);

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

/// Returns true if the plan names the slice as part of the gang.
pub(super) fn is_named_by_plan(plan: &Plan, unit: &SurplusUnit) -> bool {
    let mut groups = plan.elastic.iter().filter(|e| e.name == unit.group);
    groups.any(|group| group.slice_starts.contains(&i64::from(unit.first)))
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
        // A unit that was asked to leave keeps its place until all its pods are gone.
        let key = engine::surplus_unit_key(job, unit);
        if self.leaving.contains_key(&key) {
            return Vec::new();
        }
        let state = self.gangs.get(job);
        if let Some(SurplusPlacement::Assigned(place)) =
            state.and_then(|state| state.surplus.states.get(unit))
        {
            let pods = assigned_pods(unit, place, round).into_iter();
            return pods.filter(|pod| missing.contains(&pod.index)).collect();
        }
        self.withdraw_surplus_unit(job, unit);
        if let Some(state) = self.gangs.get_mut(job) {
            let since = *state
                .surplus
                .torn
                .entry(unit.clone())
                .or_insert_with(Instant::now);
            if let Some(until) = since.checked_add(TORN_TIME) {
                self.alarms.set(job, until);
            }
        }
        Vec::new()
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
        let has_joined =
            |unit: &SurplusUnit, _: &mut SurplusPlacement| is_named_by_plan(plan, unit);
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

    /// Charges the pods of slices that have left the gang until they have stopped. `before` are the
    /// elastic groups of the gang's earlier place.
    pub(in crate::driver) fn retire_replaced_slices(
        &mut self,
        job: &Key,
        plan: &Plan,
        before: &[ElasticGroup],
    ) {
        let Some(run) = self.gangs.get(job).and_then(|state| state.run().cloned()) else {
            return;
        };
        let pods = self.committer.cache().pods.pods_of_job(job);
        let earlier = Plan {
            elastic: before.to_vec(),
            ..plan.clone()
        };
        for group in &run.job.compiled().job().spec().task_groups {
            let gang = GangIndexes::new(group, Some(plan));
            let left = GangIndexes::new(group, Some(&earlier));
            let left = left.iter().filter(|index| !gang.contains(*index));
            let units: BTreeSet<_> = left
                .map(|index| SurplusUnit::of_pod(group, index))
                .collect();
            for unit in units {
                let indexes = unit.indexes(group);
                let nodes = indexes.filter_map(|index| {
                    let name = names::pod_name(&job.name, &group.name, index);
                    let pod = pods.get(&name).filter(|pod| !pod.phase.is_over())?;
                    Some((index, pod.node.clone()?))
                });
                let nodes: Vec<(u32, String)> = nodes.collect();
                if !nodes.is_empty() {
                    self.record_surplus(job, &run, plan, &unit, nodes);
                    self.withdraw_surplus_unit(job, &unit);
                }
            }
        }
    }
}
