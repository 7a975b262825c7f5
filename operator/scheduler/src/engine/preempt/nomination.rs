//! Nomination: victims leave, and their preemptor gets its place afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::Engine;
use super::super::flavor_assignment::FlavorAssignment;
use super::super::gang_table::{self, PlacedState};
use super::{PlannedVictim, PreemptionPlan};
use crate::decision::{Decision, PlacementScore, PreemptionReason, Victim};
use crate::gang::{Gang, TaskGroup};
use crate::ids::GangId;
use crate::placement::{GangTopology, Placement, PodRuns, UndoLog, excluded_nodes};
use crate::queue::GroupFlavors;
use crate::queueing::{FlavorChoice, NominatedRoom};
use crate::state::{GangIdx, GangShape, NodeIdx};
use crate::time::Time;

impl Engine {
    /// Carries out a plan: the victims leave, and the placement is reserved for the gang.
    pub(in crate::engine) fn nominate(
        &mut self,
        at: GangIdx,
        gang: &Arc<Gang>,
        plan: PreemptionPlan,
    ) -> Decision {
        let PreemptionPlan {
            assignment: way,
            groups,
            victims,
        } = plan;
        let decision = Decision::Preempt {
            gang: gang.id.clone(),
            placement: gang_table::placement(&self.nodes, gang, groups.iter()),
            victims: self.name_victims(&victims),
        };
        for victim in &victims {
            self.start_leaving(victim.gang);
        }
        for (group, runs) in way.shape.groups.iter().zip(&groups) {
            for (node, pods) in runs {
                self.charge_node(*node, &group.demand, *pods, true);
            }
        }
        self.record_start(at, gang, &way);
        self.record_place(at, &way, groups, self.now);
        self.mark_nominated(at);
        decision
    }

    /// Returns the victims with names, ordered by name.
    pub(in crate::engine) fn name_victims(&self, victims: &[PlannedVictim]) -> Vec<Victim> {
        let named = victims.iter().filter_map(|leaver| {
            Some(Victim {
                gang: self.gangs.name(leaver.gang)?.clone(),
                reason: leaver.reason,
                lost_device_seconds: leaver.lost_device_seconds,
            })
        });
        let mut named: Vec<Victim> = named.collect();
        named.sort_by(|a, b| a.gang.cmp(&b.gang));
        named
    }

    /// Marks a placed gang as nominated: it starts once its victims have left.
    pub(in crate::engine) fn mark_nominated(&mut self, at: GangIdx) {
        let Some(gang) = self.gangs.placed(at).map(|placed| Arc::clone(&placed.gang)) else {
            return;
        };
        self.gangs.set_placed_state(at, PlacedState::Nominated);
        self.mark_charge_nominated(at, &gang);
    }

    /// Checks the nominated gangs. A gang whose room is free starts; a gang that can no longer get
    /// its room is pending again.
    pub(in crate::engine) fn settle_nominations(&mut self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        // In the order of names, because one gang may give up room that the next one uses.
        let mut nominated: Vec<GangIdx> = self.gangs.nominated().map(|(at, _)| at).collect();
        nominated.sort_by_key(|at| self.gangs.name(*at).cloned());
        if !nominated.is_empty() {
            // The topologies must be up to date.
            self.nodes.rank_by_name();
        }
        for at in nominated {
            match self.nomination_state(at) {
                NominationState::Ready => decisions.extend(self.start_nominated(at)),
                NominationState::Waiting => {}
                NominationState::Lost => self.withdraw_nomination(at),
            }
        }
        decisions
    }

    fn nomination_state(&mut self, at: GangIdx) -> NominationState {
        if !self.is_place_valid(at) {
            return NominationState::Lost;
        }
        let Some(placed) = self.gangs.placed(at) else {
            return NominationState::Lost;
        };
        if !placed.state().is_nominated() {
            return NominationState::Lost;
        }
        let id = placed.gang.id.clone();
        let shape = Arc::clone(&placed.shape);
        let runs: Vec<PodRuns> = placed.groups.iter().map(|g| g.runs().clone()).collect();
        self.catalog.refresh(&shape, &self.nodes);
        let close = GangTopology::for_shape(&self.nodes, &shape);
        if close.is_none_or(|close| !close.allows(&runs)) {
            return NominationState::Lost;
        }
        let excluded = excluded_nodes(&shape, &self.nodes);
        for (group, runs) in shape.groups.iter().zip(&runs) {
            let signature = self.catalog.signature(group.signature);
            let allows = |(node, _): &(NodeIdx, u32)| {
                signature.is_some_and(|s| s.allows(*node)) && !excluded.contains(node)
            };
            if !runs.iter().all(allows) {
                return NominationState::Lost;
            }
        }
        if !self.has_room_for_charges(&shape, &runs) {
            return match self.will_have_room_for_charges(&id, &shape, &runs) {
                true => NominationState::Waiting,
                // Another pod took the room, or the nodes shrank.
                false => NominationState::Lost,
            };
        }
        // The gang need not wait for pods of its victims that are still stopping on other nodes.
        match self.nominated_room(at) {
            NominatedRoom::Now => NominationState::Ready,
            NominatedRoom::Later => NominationState::Waiting,
            // A victim stays after all, or the quota was lowered.
            NominatedRoom::Never => NominationState::Lost,
        }
    }

    /// True if the gang still has the pods and flavors that were planned. Its current constraints
    /// decide about its place.
    fn is_place_valid(&mut self, at: GangIdx) -> bool {
        let Some(Ok(ways)) = self.assignments(at) else {
            return false;
        };
        let Some(state) = self.gangs.get(at) else {
            return false;
        };
        let Some(placed) = state.placed() else {
            return false;
        };
        let (gang, planned) = (Arc::clone(&state.gang), &placed.gang);
        if self.queues.check_open(&gang.queue).is_err() || !has_same_pods(&gang, planned) {
            return false;
        }
        let nothing = FlavorChoice::default();
        let chosen = |choices: &[FlavorChoice]| -> Vec<FlavorChoice> {
            let groups = (0..gang.groups.len()).map(|n| choices.get(n).unwrap_or(&nothing));
            groups.cloned().collect()
        };
        let taken = chosen(&placed.choices);
        // If the restore had no flavors, the charge identifies the assignment.
        let unknown = taken.iter().all(FlavorChoice::is_empty);
        let charged = self.queues.gang_charge(&gang.queue, at);
        let is_it = |way: &&FlavorAssignment| {
            let like = unknown && charged.is_none_or(|charged| way.demand == *charged);
            chosen(&way.choices) == taken || like
        };
        let Some(way) = ways.iter().find(is_it) else {
            return false;
        };
        let choices = way.choices.clone();
        let shape = Arc::clone(&way.shape);
        let is_same = Arc::ptr_eq(&shape, &placed.shape);
        if !is_same {
            self.catalog.retain_shape(&shape);
        }
        if let Some(placed) = self.gangs.placed_mut(at) {
            (placed.gang, placed.choices) = (gang, choices);
            if !is_same {
                let before = std::mem::replace(&mut placed.shape, shape);
                self.drop_shape(&before);
            }
        }
        true
    }

    /// True if the nodes of a placement have room for all their charges.
    pub(in crate::engine) fn has_room_for_charges(
        &self,
        shape: &GangShape,
        runs: &[PodRuns],
    ) -> bool {
        shape.groups.iter().zip(runs).all(|(group, runs)| {
            let free = |node| {
                let mut demand = group.demand.iter();
                demand.all(|(resource, _)| self.nodes.free(*resource, node) >= 0)
            };
            runs.iter().all(|(node, _)| free(*node))
        })
    }

    /// Checks the same, as if all leaving gangs and pods were gone.
    fn will_have_room_for_charges(
        &mut self,
        gang: &GangId,
        shape: &GangShape,
        runs: &[PodRuns],
    ) -> bool {
        let nodes: BTreeSet<NodeIdx> = runs.iter().flatten().map(|(node, _)| *node).collect();
        let mut left = UndoLog::default();
        for hold in self.departing_usage(gang) {
            if nodes.contains(&hold.node) {
                left.uncharge(&mut self.nodes, &hold);
            }
        }
        let is_booked_once = self.has_room_for_charges(shape, runs);
        left.roll_back(&mut self.nodes);
        is_booked_once
    }

    /// Starts a nominated gang, or one without victims.
    pub(in crate::engine) fn start_nominated(&mut self, at: GangIdx) -> Option<Decision> {
        self.gangs.set_placed_state(at, PlacedState::Settled)?;
        let placed = self.gangs.placed_mut(at)?;
        placed.since = self.now;
        let (gang, shape) = (Arc::clone(&placed.gang), Arc::clone(&placed.shape));
        let groups: Vec<PodRuns> = placed.groups.iter().map(|g| g.runs().clone()).collect();
        let score: PlacementScore = self.score(&shape, &groups);
        self.end_nomination(at, &gang);
        // The runtime counts from now, not from the nomination.
        self.update_end(at);
        Some(Decision::Place {
            gang: gang.id.clone(),
            placement: gang_table::placement(&self.nodes, &gang, groups.iter()),
            score,
        })
    }

    /// Takes back the start of a gang whose victims have left. The gang stays nominated and keeps
    /// its place. The next cycle starts it again, if its place and its limits still have room.
    pub fn put_off_start(&mut self, gang: &GangId) {
        if let Some(at) = self.gangs.find(gang) {
            self.mark_nominated(at);
        }
    }

    /// Withdraws a nomination whose room is not available. The gang is pending again.
    fn withdraw_nomination(&mut self, at: GangIdx) {
        self.unplace(at);
        self.make_pending(at);
    }

    /// Evicts all gangs of queues that are being drained.
    pub(in crate::engine) fn evict_drained(&mut self) -> Vec<Decision> {
        let mut leavers = Vec::new();
        for queue in self.queues.draining_queues() {
            for (gang, _) in self.queues.holder_charges(&queue) {
                leavers.extend(self.gangs.settled(gang).map(|placed| PlannedVictim {
                    gang,
                    reason: PreemptionReason::Drained,
                    lost_device_seconds: placed.stake().lost_device_seconds(self.now),
                }));
            }
        }
        for leaver in &leavers {
            self.start_leaving(leaver.gang);
        }
        let victims = self.name_victims(&leavers).into_iter();
        victims.map(|victim| Decision::Drain { victim }).collect()
    }

    /// Does the same as [`Engine::restore_gang`] for a gang that starts once these victims have
    /// left. Victims that are placed leave from now on. A new leader calls it for a recorded
    /// nomination.
    pub fn restore_nomination(&mut self, gang: Gang, placement: Placement, victims: &[GangId]) {
        self.restore_nomination_with_flavors(gang, placement, &[], victims);
    }

    /// Does the same for a gang with these flavors, see [`Engine::restore_gang_with_flavors`].
    pub fn restore_nomination_with_flavors(
        &mut self,
        gang: Gang,
        placement: Placement,
        flavors: &[GroupFlavors],
        victims: &[GangId],
    ) {
        let id = gang.id.clone();
        self.restore_gang_with_flavors(gang, placement, flavors, self.now);
        let Some(at) = self.gangs.find(&id) else {
            return;
        };
        let victims: Vec<GangIdx> = victims
            .iter()
            .filter_map(|victim| self.gangs.find(victim))
            .filter(|victim| *victim != at)
            .collect();
        for victim in victims {
            self.start_leaving(victim);
        }
        self.mark_nominated(at);
    }

    /// Records that a placed gang saved its work at `at`: its preemption loses only later work.
    pub fn record_checkpoint(&mut self, gang: &GangId, at: Time) {
        if let Some(gang) = self.gangs.find(gang)
            && let Some(placed) = self.gangs.placed_mut(gang)
        {
            placed.checkpoint = placed.checkpoint.max(Some(at));
        }
    }
}

/// True if two gangs have the same pods and topology requests, in the same queue.
fn has_same_pods(gang: &Gang, other: &Gang) -> bool {
    let pods = |group: &TaskGroup| {
        let TaskGroup {
            name,
            count,
            request,
            topology,
            balanced,
            slices,
            parts,
            pod_prefix,
            ..
        } = group.clone();
        (
            name,
            count,
            request,
            (topology, balanced),
            slices,
            (parts, pod_prefix),
        )
    };
    let all = |gang: &Gang| gang.groups.iter().map(pods).collect::<Vec<_>>();
    let is_like = |a: &Gang, b: &Gang| {
        (&a.queue, &a.topology, a.surplus) == (&b.queue, &b.topology, b.surplus)
    };
    is_like(gang, other) && all(gang) == all(other)
}

/// The outlook of a nominated gang.
enum NominationState {
    /// Its room is free.
    Ready,
    /// Its victims have not left yet.
    Waiting,
    /// Its room will not become free.
    Lost,
}
