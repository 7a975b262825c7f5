//! Gangs are added, changed, released and deleted.

use std::sync::Arc;

use super::placed::{Placed, PlacedGroup, Standing};
use super::ways::Way;
use super::{Engine, GangState, Stage};
use crate::gang::Gang;
use crate::ids::{GangId, QueueName};
use crate::placement::{Placement, Runs};
use crate::queue::GroupFlavors;
use crate::queueing::Signal;
use crate::quota::Demand;
use crate::state::{GangIdx, Shape};
use crate::time::Time;
use crate::topology::{Topology, TopologyRequest};

impl Engine {
    /// Adds or replaces a gang. A new gang is pending. A placed gang does not move, and most
    /// changes count only when it is next pending. The exceptions are its runtime and grace period,
    /// which give its known end from now on, and the limits that it draws on.
    pub fn apply_gang(&mut self, gang: Gang) {
        self.know_levels(&gang);
        let Some(&at) = self.ids.get(&gang.id) else {
            let at = self.insert(gang, Stage::Waiting(None));
            self.wait(at);
            return;
        };
        self.update(at, gang);
    }

    /// The level of single nodes exists only once a gang asks for it.
    pub(super) fn know_levels(&mut self, gang: &Gang) {
        let groups = gang.groups.iter().map(|group| &group.topology);
        let mut requests = groups.chain([&gang.topology]).flatten();
        if requests.any(TopologyRequest::is_of_nodes) {
            self.apply_topology(Topology::of_nodes());
        }
    }

    pub(super) fn insert(&mut self, gang: Gang, stage: Stage) -> GangIdx {
        let shape = Arc::new(self.catalog.acquire_shape(&gang));
        if !gang.surplus {
            // Packing keeps nodes useful for gangs, so surplus must not influence it.
            self.packing.learn(&mut self.catalog, &shape);
        }
        let id = gang.id.clone();
        let state = GangState {
            gang: Arc::new(gang),
            shape,
            ways: None,
            not_before: None,
            preempted: false,
            idle: false,
            told: None,
            stage,
        };
        let at = GangIdx::of(self.gangs.insert(state));
        self.ids.insert(id, at);
        at
    }

    pub(super) fn update(&mut self, at: GangIdx, gang: Gang) {
        let Some(state) = self.state(at) else {
            return;
        };
        if *state.gang == gang {
            if state.idle {
                self.wait(at);
            }
            return;
        }
        let waits = matches!(state.stage, Stage::Waiting(_));
        let draws_otherwise = state.gang.draws != gang.draws;
        let term = |gang: &Gang| (gang.runtime, gang.predicted, gang.grace);
        let ends_otherwise = term(&state.gang) != term(&gang);
        if waits {
            self.stop_waiting(at);
        }
        let shape = Arc::new(self.catalog.acquire_shape(&gang));
        if let Some(state) = self.state_mut(at) {
            state.gang = Arc::new(gang);
            let before = std::mem::replace(&mut state.shape, shape);
            let ways = state.ways.take();
            self.drop_shape(&before);
            if let Some(known) = ways {
                self.drop_ways(&known.ways);
            }
        }
        if draws_otherwise {
            self.draw_again(at);
        }
        if waits {
            self.wait(at);
            return;
        }
        if ends_otherwise {
            self.end_has_moved(at);
        }
    }

    /// Adds a gang that was placed before this engine knew of it, and leaves it where it is,
    /// whatever capacity and quota say. Pods that have been seen on their node are confirmed, all
    /// others are assumed. The gang counts as placed since `since`, or since now if that is in the
    /// future. Task groups and pods without a placement hold nothing; a placement beyond the gang's
    /// pods is ignored.
    ///
    /// The gang is charged to the first flavors of its queue that its nodes belong to. If its
    /// flavors are known, use [`Self::restore_gang_in`].
    pub fn restore_gang(&mut self, gang: Gang, placement: Placement, since: Time) {
        self.restore_gang_in(gang, placement, &[], since);
    }

    /// Like [`Self::restore_gang`], for a gang with these flavors (as [`Self::flavors`] returned
    /// them). It is charged to them, whatever has become of them and of its queue. Without flavors
    /// it is the same as [`Self::restore_gang`].
    pub fn restore_gang_in(
        &mut self,
        gang: Gang,
        placement: Placement,
        flavors: &[GroupFlavors],
        since: Time,
    ) {
        let at = match self.ids.get(&gang.id) {
            Some(&at) => {
                self.unplace(at);
                self.update(at, gang);
                at
            }
            None => self.insert(gang, Stage::Waiting(None)),
        };
        let Some(gang) = self.state(at).map(|s| Arc::clone(&s.gang)) else {
            return;
        };
        let groups: Vec<Runs> = gang
            .groups
            .iter()
            .map(|group| {
                let runs = placement.runs(&group.name).unwrap_or(&[]);
                let mut left = group.count;
                runs.iter()
                    .map(|(node, pods)| {
                        let pods = (*pods).min(left);
                        left = left.saturating_sub(pods);
                        (self.nodes.hold(node), pods)
                    })
                    .collect()
            })
            .collect();
        let Some(way) = self.way_taken(at, &groups, flavors) else {
            return;
        };
        for (group, runs) in way.shape.groups.iter().zip(&groups) {
            for (node, pods) in runs {
                self.take(*node, &group.demand, *pods, true);
            }
        }
        self.settle_place(at, &way, groups.clone(), since.min(self.now));
        // The placed gang has its own holds now.
        for (node, _) in groups.iter().flatten() {
            self.nodes.unhold(*node);
        }
        self.confirm_seen(at, &gang);
    }

    /// Confirms the pods of a gang that have been seen on their nodes.
    fn confirm_seen(&mut self, at: GangIdx, gang: &Gang) {
        for (number, group) in gang.groups.iter().enumerate() {
            let count = self.placed_group(at, number).map_or(0, PlacedGroup::count);
            for index in 0..count {
                let key = gang.pod_key(group, index);
                let planned = self.placed_group(at, number).and_then(|g| g.node(index));
                let Some(seen) = self.pods.get_mut(&key) else {
                    continue;
                };
                if planned != Some(seen.node) || seen.held {
                    continue;
                }
                seen.held = true;
                let seen = *seen;
                let demand = self.catalog.demand(seen.demand);
                self.nodes.set_held(seen.node, &demand, 1);
                self.pod_stays(&key);
                self.forgo((at, number, index));
                self.set_there((at, number, index), Some((seen.node, seen.demand)));
            }
        }
    }

    /// Removes a gang. Pods of it that have been seen count until they are deleted.
    pub fn delete_gang(&mut self, gang: &GangId) {
        let Some(at) = self.ids.remove(gang) else {
            return;
        };
        self.unplace(at);
        self.stop_waiting(at);
        if let Some(state) = self.gangs.remove(at.at()) {
            self.drop_shape(&state.shape);
            if let Some(known) = state.ways {
                self.drop_ways(&known.ways);
            }
        }
    }

    /// Makes a gang give up its place, because its pods could not be created, it restarts, or it is
    /// stopped. The gang is pending again, but is not placed before `not_before`, so that other
    /// gangs go first; the later of this time and the gang's own `not_before` counts. Pods of it
    /// that have been seen count until they are deleted.
    pub fn release_gang(&mut self, gang: &GangId, not_before: Option<Time>) {
        let Some(&at) = self.ids.get(gang) else {
            return;
        };
        self.unplace(at);
        if let Some(state) = self.state_mut(at) {
            state.not_before = state.not_before.max(not_before);
        }
        self.wait(at);
    }

    /// Records that the gang is placed. The nodes are already charged, the quota is charged now.
    pub(super) fn settle_place(&mut self, at: GangIdx, way: &Way, groups: Vec<Runs>, since: Time) {
        let Some(state) = self.gangs.get(at.at()) else {
            return;
        };
        let (gang, shape) = (Arc::clone(&state.gang), Arc::clone(&way.shape));
        for (node, _) in groups.iter().flatten() {
            self.nodes.hold_again(*node);
        }
        self.catalog.retain_shape(&shape);
        self.take_quota(at, &gang, way.demand.clone());
        for (number, group) in gang.groups.iter().enumerate() {
            let family = format!("{}/{}", gang.id.namespace(), group.pod_prefix);
            self.families.entry(family).or_default().push((at, number));
        }
        let placed = Placed {
            gang,
            shape,
            choices: way.choices.clone(),
            since,
            standing: Standing::Settled,
            checkpoint: None,
            protected: None,
            groups: groups.into_iter().map(PlacedGroup::new).collect(),
        };
        self.put_in_place(at, placed);
    }

    /// Forgets the pod names of a gang.
    pub(super) fn leave_families(&mut self, at: GangIdx, gang: &Gang) {
        for (number, group) in gang.groups.iter().enumerate() {
            let family = format!("{}/{}", gang.id.namespace(), group.pod_prefix);
            if let Some(claims) = self.families.get_mut(&family) {
                claims.retain(|claim| *claim != (at, number));
                if claims.is_empty() {
                    self.families.remove(&family);
                }
            }
        }
    }

    /// Removes a gang from its place, or from the place that is kept for it.
    pub(super) fn unplace(&mut self, at: GangIdx) {
        self.give_keep_back(at);
        let Some(placed) = self.take_out(at) else {
            return;
        };
        let gang = &placed.gang;
        let told = match placed.standing {
            Standing::Leaving { since, .. } => since,
            Standing::Settled | Standing::Nominated => self.now,
        };
        let grace = self.state(at).map_or(gang.grace, |state| state.gang.grace);
        let by = told.plus(grace);
        self.has_left(at);
        self.leave_families(at, gang);
        let groups = gang
            .groups
            .iter()
            .zip(&placed.shape.groups)
            .zip(&placed.groups);
        for ((group, shape), planned) in groups {
            for (node, pods) in planned.assumed() {
                self.give(node, &shape.demand, pods, true);
            }
            for index in planned.settled() {
                self.disown(gang.pod_key(group, index), by);
            }
            for (node, _) in planned.runs() {
                self.nodes.unhold(*node);
            }
        }
        self.give_quota_back(&gang.queue, at);
        self.drop_shape(&placed.shape);
    }

    /// Charges a gang to its queue.
    pub(super) fn take_quota(&mut self, at: GangIdx, gang: &Gang, demand: Demand) {
        let root = self.queues.root(&gang.queue);
        for (what, amount) in demand.iter() {
            self.parking
                .raise(&Signal::QuotaTaken(root.clone(), what), amount);
        }
        self.draw(at, gang, &demand);
        let begins = self.queues.charge(at, gang, demand, &mut self.catalog);
        let limited = self.queues.is_limited(&gang.queue);
        for what in begins {
            let root = limited.then(|| root.clone());
            self.parking.raise(&Signal::Borrows(root, what), 1);
        }
    }

    /// Discharges a gang, if it is charged, and returns the charge.
    pub(super) fn give_quota_back(&mut self, queue: &QueueName, at: GangIdx) -> Demand {
        self.forgo_draws(at);
        let root = self.queues.root(queue);
        let demand = self.queues.discharge(queue, at);
        // A leaving gang was discharged before, and held this until now.
        let left = self.queues.has_left(at).unwrap_or_default();
        for (what, amount) in demand.iter().chain(left.iter()) {
            self.parking
                .raise(&Signal::QuotaFreed(root.clone(), what), amount);
        }
        demand
    }

    /// Removes an owner of a shape. Its numbers may be reused, so nothing that is cached by number
    /// may outlive it.
    pub(super) fn drop_shape(&mut self, shape: &Shape) {
        self.catalog.release_shape(shape);
        self.refusals.clear();
    }
}
