//! Adds, changes, releases and deletes gangs.

use std::sync::Arc;

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignment;
use super::super::gang_table::{PlacedGang, PlacedGroup};
use crate::gang::Gang;
use crate::ids::GangId;
use crate::placement::{Placement, PodRuns};
use crate::queue::GroupFlavors;
use crate::state::{GangIdx, GangShape};
use crate::time::Time;
use crate::topology::{Topology, TopologyRequest};

impl Engine {
    /// Adds or replaces a gang. A new gang is pending. A placed gang does not move, and most
    /// changes take effect only when it is next pending. The exceptions are its runtime and grace
    /// period, which set its expected end, and the limits that it draws on.
    pub fn apply_gang(&mut self, gang: Gang) {
        self.add_node_level(&gang);
        let Some(at) = self.gangs.find(&gang.id) else {
            let at = self.insert(gang);
            self.make_pending(at);
            return;
        };
        self.update(at, gang);
    }

    /// Adds the topology level of single nodes if the gang requests it.
    pub(in crate::engine) fn add_node_level(&mut self, gang: &Gang) {
        let groups = gang.groups.iter().map(|group| &group.topology);
        let mut requests = groups.chain([&gang.topology]).flatten();
        if requests.any(TopologyRequest::is_node_level) {
            self.apply_topology(Topology::with_node_level());
        }
    }

    /// Adds a pending gang that is not due yet.
    pub(in crate::engine) fn insert(&mut self, gang: Gang) -> GangIdx {
        let shape = Arc::new(self.catalog.acquire_shape(&gang));
        if !gang.surplus {
            // Packing keeps nodes useful for other gangs, so it does not learn from surplus.
            self.packing.learn(&mut self.catalog, &shape);
        }
        self.gangs.insert(gang, shape)
    }

    pub(in crate::engine) fn update(&mut self, at: GangIdx, gang: Gang) {
        let Some(state) = self.gangs.get(at) else {
            return;
        };
        let awaited_apply = state.awaits_apply;
        if *state.gang != gang {
            self.replace(at, gang);
        }
        if awaited_apply {
            self.make_pending(at);
        }
    }

    /// Replaces a gang. A gang that the engine does not try yet stays so.
    pub(in crate::engine) fn replace(&mut self, at: GangIdx, gang: Gang) {
        let Some(state) = self.gangs.get(at) else {
            return;
        };
        let waits = state.is_pending() && !state.awaits_apply;
        let draws_otherwise = state.gang.draws != gang.draws;
        let term = |gang: &Gang| (gang.runtime, gang.predicted, gang.grace);
        let ends_otherwise = term(&state.gang) != term(&gang);
        if waits {
            self.end_pending(at);
        }
        let shape = Arc::new(self.catalog.acquire_shape(&gang));
        if let Some(state) = self.gangs.get_mut(at) {
            state.gang = Arc::new(gang);
            let before = std::mem::replace(&mut state.shape, shape);
            let ways = state.assignments.take();
            self.drop_shape(&before);
            if let Some(known) = ways {
                self.release_assignments(&known.assignments);
            }
        }
        if draws_otherwise {
            self.recharge_limits(at);
        }
        if waits {
            self.make_pending(at);
            return;
        }
        if ends_otherwise {
            self.update_end(at);
        }
    }

    /// Adds a gang that was placed before this engine knew it. The gang stays in its place, even
    /// above capacity and quota. Pods that the engine has seen on their node are confirmed; it
    /// assumes all other pods. The gang counts as placed since `since`, or since now if that is in
    /// the future. Task groups and pods without a placement hold nothing. The engine ignores
    /// placements beyond the gang's pods.
    ///
    /// The engine charges the gang to the first flavors of its queue that its nodes belong to. If
    /// the caller knows its flavors, it calls [`Self::restore_gang_with_flavors`] instead.
    pub fn restore_gang(&mut self, gang: Gang, placement: Placement, since: Time) {
        self.restore_gang_with_flavors(gang, placement, &[], since);
    }

    /// Does the same as [`Self::restore_gang`] for a gang with these flavors (as [`Self::flavors`]
    /// returned them). The engine charges the gang to them, even if they or its queue have changed
    /// since. Without flavors it does exactly the same as [`Self::restore_gang`].
    pub fn restore_gang_with_flavors(
        &mut self,
        gang: Gang,
        placement: Placement,
        flavors: &[GroupFlavors],
        since: Time,
    ) {
        let at = match self.gangs.find(&gang.id) {
            Some(at) => {
                self.unplace(at);
                self.update(at, gang);
                at
            }
            None => self.insert(gang),
        };
        let Some(gang) = self.gangs.get(at).map(|s| Arc::clone(&s.gang)) else {
            return;
        };
        let groups: Vec<PodRuns> = gang
            .groups
            .iter()
            .map(|group| {
                let runs = placement.runs_of(group);
                runs.map(|(node, pods)| (self.nodes.hold(node), pods))
                    .collect()
            })
            .collect();
        let Some(way) = self.assignment_for_placement(at, &groups, flavors) else {
            return;
        };
        for (group, runs) in way.shape.groups.iter().zip(&groups) {
            for (node, pods) in runs {
                self.charge_node(*node, &group.demand, *pods, true);
            }
        }
        self.record_place(at, &way, groups.clone(), since.min(self.now));
        // The placed gang now holds its own references to the nodes.
        for (node, _) in groups.iter().flatten() {
            self.nodes.release_hold(*node);
        }
        self.confirm_known_pods(at, &gang);
    }

    /// Confirms the pods of a gang that have been seen on their nodes.
    fn confirm_known_pods(&mut self, at: GangIdx, gang: &Gang) {
        for (number, group) in gang.groups.iter().enumerate() {
            let count = self.gangs.group(at, number).map_or(0, PlacedGroup::count);
            for index in 0..count {
                let key = gang.pod_key(group, index);
                let planned = self.gangs.group(at, number).and_then(|g| g.node(index));
                let seen = self
                    .pods
                    .get(&key)
                    .filter(|seen| planned == Some(seen.node));
                if seen.is_none() {
                    continue;
                }
                let Some((seen, stopping)) = self.pods.attach(&key) else {
                    continue;
                };
                let demand = self.catalog.demand(seen.demand);
                self.nodes.mark_placed(seen.node, &demand, 1);
                if let Some(stopping) = stopping {
                    self.count_stopped_pod(stopping);
                }
                self.free_assumed((at, number, index));
                self.set_pod_in_place((at, number, index), Some((seen.node, seen.demand)));
            }
        }
    }

    /// Removes a gang. Its pods that the engine has seen count until they are deleted.
    pub fn delete_gang(&mut self, gang: &GangId) {
        let Some(at) = self.gangs.find(gang) else {
            return;
        };
        self.unplace(at);
        self.end_pending(at);
        self.forget_provisioning(at);
        if let Some(state) = self.gangs.remove(at) {
            self.drop_shape(&state.shape);
            if let Some(known) = state.assignments {
                self.release_assignments(&known.assignments);
            }
        }
    }

    /// Makes a gang give up its place, because its pods could not be created, or because it
    /// restarts or stops. The gang is pending again, but does not start before `not_before`, so
    /// that other gangs go first. The later of this time and the gang's own `not_before` counts.
    /// Its pods that the engine has seen count until they are deleted.
    pub fn release_gang(&mut self, gang: &GangId, not_before: Option<Time>) {
        let Some(at) = self.gangs.find(gang) else {
            return;
        };
        self.unplace(at);
        self.forget_provisioning(at);
        if let Some(state) = self.gangs.get_mut(at) {
            state.not_before = state.not_before.max(not_before);
        }
        self.make_pending(at);
    }

    /// Records that the gang is placed. The caller has charged the nodes; this function charges the
    /// quota.
    pub(in crate::engine) fn record_place(
        &mut self,
        at: GangIdx,
        way: &FlavorAssignment,
        groups: Vec<PodRuns>,
        since: Time,
    ) {
        let Some(state) = self.gangs.get(at) else {
            return;
        };
        let (gang, shape) = (Arc::clone(&state.gang), Arc::clone(&way.shape));
        for (node, _) in groups.iter().flatten() {
            self.nodes.add_hold(*node);
        }
        self.catalog.retain_shape(&shape);
        self.charge_gang(at, &gang, way.demand.clone());
        let placed = PlacedGang::new(gang, shape, way.choices.clone(), groups, since);
        self.set_placed(at, placed);
    }

    /// Removes a gang from its place, or from the place that is kept for it.
    pub(in crate::engine) fn unplace(&mut self, at: GangIdx) {
        self.release_kept_place(at);
        let Some(placed) = self.take_placed(at) else {
            return;
        };
        let gang = &placed.gang;
        let leaving = placed.state().leaving_charge();
        let leaving_since = leaving.map_or(self.now, |(_, since)| since);
        let grace = self
            .gangs
            .get(at)
            .map_or(gang.grace, |state| state.gang.grace);
        let by = leaving_since.plus(grace);
        let groups = gang
            .groups
            .iter()
            .zip(&placed.shape.groups)
            .zip(&placed.groups);
        for ((group, shape), planned) in groups {
            for (node, pods) in planned.assumed_runs() {
                self.release_node(node, &shape.demand, pods, true);
            }
            for index in planned.confirmed() {
                self.detach_pod(&gang.pod_key(group, index), by);
            }
            for (node, _) in planned.runs() {
                self.nodes.release_hold(*node);
            }
        }
        self.release_charge(&gang.queue, at);
        self.drop_shape(&placed.shape);
    }

    /// Removes an owner of a shape. The catalog may reuse the shape's numbers, so cached results by
    /// number must go too.
    pub(in crate::engine) fn drop_shape(&mut self, shape: &GangShape) {
        self.catalog.release_shape(shape);
        self.blockages.clear();
    }
}
