//! Placement of gangs that must respect the reservations of other gangs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::Engine;
use super::super::admission::AdmissionResult;
use super::super::blockage_cache::HeadRestrictions;
use super::super::cycle::CycleLog;
use super::super::flavor_assignment::FlavorAssignment;
use super::super::preempt::PreemptionRight;
use crate::backfill::{BackfillCandidate, Head, Restriction};
use crate::explain::{WaitDetail, WaitReason};
use crate::gang::Gang;
use crate::ids::{GangId, QueueName};
use crate::placement::{PodRuns, UndoLog};
use crate::queueing::{Blockage, GangClass, Signal, WaitKind, WakeCondition};
use crate::state::{GangIdx, NodeIdx, ResourceIdx};

/// Nodes on which a gang may evict victims.
#[derive(Clone, Debug)]
pub(in crate::engine) struct EvictionScope {
    /// Nodes on which it evicts no gang.
    pub(in crate::engine) protected_nodes: Vec<NodeIdx>,
    /// The right by which it preempts.
    pub(in crate::engine) right: PreemptionRight,
}

impl Engine {
    /// Blocks the due gangs that could not start even without any reservation. So the cycle knows
    /// all gangs with reserved room before any gang starts.
    pub(in crate::engine) fn skip_blocked(
        &mut self,
        (class, due): (GangClass, &[QueueName]),
        log: &mut CycleLog,
    ) {
        for name in due {
            for at in self.scheduling_queue.due_gangs(class, name) {
                let blocked = match self.try_without_reservations(at) {
                    Some(Ok(_)) => continue,
                    Some(Err(blocked)) => Some(blocked),
                    None => None,
                };
                if let Some(state) = self.gangs.get(at) {
                    self.scheduling_queue.clear_due(&state.gang);
                }
                if let Some(blocked) = blocked {
                    self.block_gang(at, blocked, log);
                }
            }
        }
    }

    /// Tries a gang as if there were no reservations. Changes nothing.
    fn try_without_reservations(&mut self, at: GangIdx) -> Option<AdmissionResult> {
        let mut log = UndoLog::default();
        self.reservations.ignore(true);
        let lifted = self.lift_place(at);
        let answer = self.try_to_admit(at, &mut log);
        log.roll_back(&mut self.nodes);
        self.put_back_place(lifted);
        self.reservations.ignore(false);
        answer
    }

    /// Returns the numbers of the heads that come before a gang and whose nodes it may use, in
    /// order.
    pub(in crate::engine) fn heads_before(
        &mut self,
        gang: &Gang,
        way: &FlavorAssignment,
    ) -> Vec<usize> {
        if self.reservations.are_ignored() {
            return Vec::new();
        }
        if self.reservations.is_stale() {
            if !self.has_gang_before(gang, way) {
                return Vec::new();
            }
            self.renew_heads();
        }
        if self.reservations.heads().is_empty() {
            return Vec::new();
        }
        self.catalog.refresh(&way.shape, &self.nodes);
        let heads = self.reservations.heads().iter().enumerate();
        let before = heads.filter(|(_, head)| {
            head.gang.id != gang.id
                && self
                    .queues
                    .is_before(&head.gang, &head.demand, gang, &way.demand)
                && head.shares_nodes_with(&way.shape, &self.catalog, &self.nodes)
        });
        before.map(|(number, _)| number).collect()
    }

    /// Returns the restrictions that heads put on a gang, with the number of each head, in order.
    fn head_restrictions(&mut self, gang: &Gang, way: &FlavorAssignment) -> HeadRestrictions {
        let before = self.heads_before(gang, way);
        if before.is_empty() {
            return HeadRestrictions::new();
        }
        let stay = self.backfill_candidate(gang);
        // A gang that returns to its own place delays no gang longer than before.
        let least = self.has_kept_place(gang).then_some(Restriction::Keep);
        let restrained = before.into_iter().filter_map(|number| {
            let head = self.reservations.heads().get(number)?;
            let restraint = head.restriction_for(&stay, self.now)?;
            Some((
                number,
                least.map_or(restraint, |least| restraint.min(least)),
            ))
        });
        restrained.collect()
    }

    /// Finds a placement that delays no head before the gang.
    ///
    /// # Errors
    ///
    /// There is no placement, or none that respects the reservations.
    pub(in crate::engine) fn find_backfill_place(
        &mut self,
        gang: &Gang,
        way: &FlavorAssignment,
        log: &mut UndoLog,
    ) -> Result<Vec<PodRuns>, Box<Blockage>> {
        if let Some(refusal) = self.blockages.get(gang, &way.shape) {
            return Err(with_capacity_wait(refusal));
        }
        let quota = self.check_reserved_quota(gang, way, false);
        let restraints = self.head_restrictions(gang, way);
        let restrained = !restraints.is_empty();
        if quota.is_ok() && restrained && !self.blockages.is_restrained(&way.shape, &restraints) {
            if let Some(groups) = self.place_under_restrictions(gang, way, &restraints, log) {
                return Ok(groups);
            }
            self.blockages
                .insert_restrained(&way.shape, restraints.clone());
        }
        if quota.is_ok() && !restrained {
            return self
                .find_place(gang, &way.shape, log)
                .map_err(with_capacity_wait);
        }
        // The gang does not start. Its reason to wait depends on whether it would fit without
        // reservations.
        if !self.blockages.is_fitting(&way.shape) {
            let mut trial = UndoLog::default();
            let found = self.find_place(gang, &way.shape, &mut trial);
            trial.roll_back(&mut self.nodes);
            found.map_err(with_capacity_wait)?;
            self.blockages.insert_fitting(&way.shape);
        }
        quota?;
        Err(self.blocked_by_head(way, restraints.first().map_or(0, |(head, _)| *head)))
    }

    /// Returns the scopes in which a gang may evict victims, in the order in which the caller tries
    /// them.
    ///
    /// The gang evicts no victim on nodes that are reserved for a head before it, because the head
    /// relies on the room that becomes free there. The exception is a gang that ends before that
    /// head starts. If the start of the head is unknown, the gang may still reclaim there what it
    /// is owed, as long as it borrows nothing that it lacks. Otherwise it might wait for ever. The
    /// result is empty if the gang may not start even if victims made room. `wake` then gets the
    /// signals that may change this.
    pub(in crate::engine) fn eviction_scopes(
        &mut self,
        gang: &Gang,
        way: &FlavorAssignment,
        wake: &mut WakeCondition,
    ) -> Vec<EvictionScope> {
        if !self.can_preempt(gang) {
            return Vec::new();
        }
        if let Err(blocked) = self.check_reserved_quota(gang, way, true) {
            wake.merge(&blocked.wake);
            return Vec::new();
        }
        let ground = |heads: &[&Head], right| EvictionScope {
            protected_nodes: heads.iter().flat_map(|head| head.nodes()).collect(),
            right,
        };
        let before = self.heads_before(gang, way);
        if before.is_empty() {
            return vec![ground(&[], PreemptionRight::Policy)];
        }
        let stay = self.backfill_candidate(gang);
        if !stay.backfill {
            wake.on_rise(Signal::Reservations, 1)
                .on_rise(Signal::Turns, 1);
            return Vec::new();
        }
        let heads = before
            .iter()
            .filter_map(|n| self.reservations.heads().get(*n));
        let mut kept: Vec<&Head> = heads
            .filter(|head| {
                let start = head.plan.start;
                start.is_none_or(|start| !stay.ends_by(start, head.gang.submitted, self.now))
            })
            .collect();
        let mut grounds = vec![ground(&kept, PreemptionRight::Policy)];
        let all = kept.len();
        kept.retain(|head| head.plan.start.is_some());
        let may_be_owed = self.is_partly_within_nominal(gang, way) && self.can_reclaim(gang);
        if kept.len() < all && may_be_owed {
            grounds.push(ground(&kept, PreemptionRight::Reclaim));
        }
        grounds
    }

    /// Places the gang on the room that the heads leave free.
    fn place_under_restrictions(
        &mut self,
        gang: &Gang,
        way: &FlavorAssignment,
        restraints: &HeadRestrictions,
        log: &mut UndoLog,
    ) -> Option<Vec<PodRuns>> {
        if restraints.iter().any(|(_, r)| *r == Restriction::Stop) {
            return None;
        }
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        let mut kept = UndoLog::default();
        for (number, restraint) in restraints {
            let Some(head) = self.reservations.heads().get(*number) else {
                continue;
            };
            for hold in &head.plan.reserved_room {
                kept.charge(&mut self.nodes, hold.node, &hold.demand, hold.pods);
            }
            if *restraint == Restriction::Avoid {
                // Every pod needs one unit of `pods`.
                let pods = self.catalog.pods();
                for node in head.nodes() {
                    let free = self.nodes.free(pods, node).max(0);
                    let all = Arc::new(vec![(pods, free)]);
                    kept.charge(&mut self.nodes, node, &all, 1);
                }
            }
        }
        let mut trial = UndoLog::default();
        let found = self.try_place(gang, &way.shape, &mut trial);
        trial.roll_back(&mut self.nodes);
        kept.roll_back(&mut self.nodes);
        let groups = found.ok()?;
        // The log charges the gang again, because device shares differ once the reserved room is
        // released.
        for (group, runs) in way.shape.groups.iter().zip(&groups) {
            for (node, pods) in runs {
                log.charge(&mut self.nodes, *node, &group.demand, *pods);
            }
        }
        let overbooks = |(resource, _): &(ResourceIdx, i64)| {
            let device = self.nodes.shared_device(*resource);
            let used = groups.iter().flatten();
            device.is_some_and(|device| {
                used.into_iter()
                    .any(|(n, _)| self.nodes.free(device, *n) < 0)
            })
        };
        let mut demands = way.shape.groups.iter().flat_map(|g| g.demand.iter());
        if demands.any(overbooks) {
            log.roll_back(&mut self.nodes);
            return None;
        }
        Some(groups)
    }

    /// Returns the blockage of a gang that waits only for the room that is reserved for a head.
    fn blocked_by_head(&self, way: &FlavorAssignment, head: usize) -> Box<Blockage> {
        let mut wake = wake_on_capacity(way);
        wake.on_rise(Signal::Reservations, 1)
            .on_rise(Signal::Turns, 1);
        let head = self.reservations.heads().get(head);
        let nodes: BTreeSet<_> = head.into_iter().flat_map(Head::nodes).collect();
        let detail = WaitDetail::Reserved {
            head: head.map_or_else(|| GangId::new(""), |head| head.id().clone()),
            start: head.and_then(|head| head.plan.start),
            nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
        };
        Blockage::new(detail, wake).with_kind(WaitKind::Reserved)
    }

    /// Returns the facts that decide if a gang may backfill now: its expected end and if it is
    /// preemptible. Surplus may run for ever and makes room only for some gangs, so it does not
    /// count as preemptible here.
    pub(in crate::engine) fn backfill_candidate(&self, gang: &Gang) -> BackfillCandidate {
        let config = self.queues.config(&gang.queue);
        let ends = !gang.surplus;
        BackfillCandidate {
            end: ends
                .then(|| self.expected_end(gang, self.now, self.now))
                .flatten(),
            preemptible: gang.preemptible && !gang.surplus,
            backfill: config.is_none_or(|queue| queue.backfill),
        }
    }
}

/// Marks a blockage as a wait for room, unless the gang could never start: such gangs reserve no
/// room.
fn with_capacity_wait(blocked: Box<Blockage>) -> Box<Blockage> {
    match blocked.explanation.reason {
        WaitReason::NoMatchingNodes
        | WaitReason::NodesAvoided
        | WaitReason::ExceedsCluster
        | WaitReason::TopologyNotFound
        | WaitReason::ExceedsTopology => blocked,
        _ => blocked.with_kind(WaitKind::Capacity),
    }
}

/// Returns a condition that wakes the gang when its place may have gone, or another place may
/// exist.
pub(in crate::engine) fn wake_on_capacity(way: &FlavorAssignment) -> WakeCondition {
    let mut wake = WakeCondition::default();
    wake.on_rise(Signal::Nodes, 1);
    for (resource, _) in &way.shape.total {
        wake.on_rise(Signal::Freed(*resource), 1);
        wake.on_rise(Signal::Taken(*resource), 1);
    }
    wake
}
