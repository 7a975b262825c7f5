//! Admission: decides if a gang may start, and on which nodes.

use std::sync::Arc;

use super::Engine;
use super::flavor_assignment::{AssignmentResult, FlavorAssignment, FlavorAssignments};
use super::preempt::PreemptionPlan;
use super::provisioning::ProvisioningPlan;
use crate::explain::{self, StartDistance, WaitDetail, WaitExplanation, WaitReason};
use crate::gang::Gang;
use crate::placement::{self, NoPlace, PlacementRequest, PodRuns, UndoLog};
use crate::queue::QueueOrder;
use crate::queueing::{Blockage, OrderKey, Signal, WakeCondition};
use crate::state::{GangIdx, GangShape, NodeIdx};
use crate::time::Time;

/// How a gang may start, or why it is blocked.
pub(super) type AdmissionResult = Result<GangStart, Box<Blockage>>;

/// How a gang may start.
#[derive(Debug)]
pub(super) enum GangStart {
    /// The gang starts now, with this flavor assignment and placement. The log has the charges of
    /// the placement.
    Immediate(Box<FlavorAssignment>, Vec<PodRuns>),
    /// The gang starts after its victims have left. Nothing is charged.
    AfterVictims(Box<PreemptionPlan>),
    /// The gang starts once new nodes are there. Nothing is charged.
    AfterNodes(Box<ProvisioningPlan>),
}

impl GangStart {
    pub(super) fn assignment(&self) -> &FlavorAssignment {
        match self {
            Self::Immediate(way, _) => way,
            Self::AfterVictims(plan) => &plan.assignment,
            Self::AfterNodes(plan) => &plan.assignment,
        }
    }
}

/// The facts from a gang's history that its admission depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmissionHistory {
    /// The earliest time at which it may start.
    pub(super) not_before: Option<Time>,
    /// True if another gang has preempted it.
    pub(super) preempted: bool,
    /// When it began to lack only room. None: nodes may be provisioned for it at once.
    pub(super) short_since: Option<Time>,
}

impl Engine {
    /// Calls [`Self::admit`] for a gang. The caller must have lifted its kept place before. None:
    /// the engine does not know the gang.
    pub(super) fn try_to_admit(
        &mut self,
        at: GangIdx,
        log: &mut UndoLog,
    ) -> Option<AdmissionResult> {
        let ways = self.assignments(at)?;
        let state = self.gangs.get(at)?;
        let gang = Arc::clone(&state.gang);
        let before = AdmissionHistory {
            not_before: state.earliest_start(),
            preempted: state.preempted || gang.preempted || self.cycle_placements.is_withdrawn(at),
            short_since: self.provisioning_delay_start(at),
        };
        Some(self.admit(&gang, &ways, before, log))
    }

    /// Admits a gang with one of its flavor assignments if its queue, its back-off, quota and nodes
    /// allow it. Charges the nodes through the log.
    ///
    /// If no assignment works, the explanation comes from the assignment nearest to a start, or
    /// from the first of several equally near ones. So the engine reports that a gang can never
    /// start only if that holds for every assignment. The gang wakes when the result for any
    /// assignment may have changed.
    pub(super) fn admit(
        &mut self,
        gang: &Gang,
        ways: &AssignmentResult,
        before: AdmissionHistory,
        log: &mut UndoLog,
    ) -> AdmissionResult {
        self.scheduling_queue.check_limits(gang)?;
        self.queues.check_open(&gang.queue)?;
        if let Some(until) = before.not_before.filter(|until| *until > self.now) {
            let mut wake = WakeCondition::default();
            wake.on_rise(Signal::Queues, 1).at_latest(until);
            return Err(Blockage::new(WaitDetail::BackingOff { until }, wake));
        }
        self.check_head_of_queue(gang)?;
        explain::topology_is_there(self.nodes.domains(), gang)?;
        let ways = match ways {
            Ok(ways) => ways,
            Err(why) => return Err(self.no_assignment(gang, why)),
        };
        let mut closed: Option<Box<Blockage>> = None;
        let mut held: Vec<&FlavorAssignment> = Vec::new();
        let policy = self.flavor_policy(gang);
        let mut wake = WakeCondition::default();
        if let Some(plan) =
            self.preempt_before_other_flavors((gang, before.preempted), ways, policy, &mut wake)
        {
            return Ok(GangStart::AfterVictims(Box::new(plan)));
        }
        for (number, way) in self.assignments_in_order(gang, ways, policy) {
            match self.try_assignment(gang, way, log) {
                Ok(groups) => return Ok(GangStart::Immediate(Box::new(way.clone()), groups)),
                Err(mut blocked) => {
                    blocked.assignment = number;
                    if blocked.explanation.reason.is_caused_by_usage() {
                        if policy.prefers_preemption {
                            let asks = (gang, before.preempted);
                            let plan = self.plan_preemption_in_any(asks, &[way], &mut blocked.wake);
                            let may = |plan: &PreemptionPlan| {
                                !policy.avoids_borrowing || self.stays_within_quota(gang, plan)
                            };
                            if let Some(plan) = plan.filter(may) {
                                return Ok(GangStart::AfterVictims(Box::new(plan)));
                            }
                        }
                        held.push(way);
                    }
                    match &mut closed {
                        Some(nearest) => {
                            if blocked.distance() < nearest.distance() {
                                std::mem::swap(nearest, &mut blocked);
                            }
                            nearest.merge(&blocked);
                        }
                        None => closed = Some(blocked),
                    }
                }
            }
        }
        let mut closed = closed.unwrap_or_else(|| self.no_flavor_nodes(gang));
        closed.wake.merge(&wake);
        if ways.thinned.is_some() {
            closed.wake.on_rise(Signal::Nodes, 1);
        }
        if ways.truncated {
            self.mark_uncertain(gang, &mut closed);
        }
        let after_preemption = self.provisions_after_preemption(gang);
        if !after_preemption {
            if let Some(start) = self.try_provisioning(gang, ways, before, &mut closed) {
                return Ok(start);
            }
            if closed.waits_for_provisioning() {
                return Err(closed);
            }
        }
        if let Some(plan) =
            self.plan_preemption_in_any((gang, before.preempted), &held, &mut closed.wake)
        {
            return Ok(GangStart::AfterVictims(Box::new(plan)));
        }
        if after_preemption
            && let Some(start) = self.try_provisioning(gang, ways, before, &mut closed)
        {
            return Ok(start);
        }
        Err(closed)
    }

    /// Returns the start of a blocked gang on new nodes, if nodes may be provisioned for it now.
    /// Otherwise adds the obstacle to the explanation.
    fn try_provisioning(
        &mut self,
        gang: &Gang,
        ways: &FlavorAssignments,
        before: AdmissionHistory,
        closed: &mut Blockage,
    ) -> Option<GangStart> {
        if !closed.lacks_only_room() {
            return None;
        }
        let since = before.short_since;
        match self.plan_provisioning(gang, (ways, since), &mut closed.wake) {
            Ok(mut plan) => {
                plan.wake.merge(&closed.wake);
                Some(GangStart::AfterNodes(Box::new(plan)))
            }
            Err(obstacle) => {
                closed.explanation.provisioning_obstacle = obstacle.map(Arc::new);
                None
            }
        }
    }

    /// Returns the first plan whose victims are all surplus, or gangs of queues that owe what they
    /// hold. If no flavor assignment has one, returns the first plan found. Changes nothing.
    pub(super) fn plan_preemption_in_any(
        &mut self,
        (gang, preempted): (&Gang, bool),
        ways: &[&FlavorAssignment],
        wake: &mut WakeCondition,
    ) -> Option<PreemptionPlan> {
        let mut first: Option<PreemptionPlan> = None;
        for way in ways {
            for ground in self.eviction_scopes(gang, way, wake) {
                let Some(plan) = self.plan_preemption((gang, preempted), (way, &ground), wake)
                else {
                    continue;
                };
                // A trial does not carry out its plan, so the first one is enough.
                if self.reservations.are_ignored() || plan.takes_only_owed_quota() {
                    return Some(plan);
                }
                first.get_or_insert(plan);
            }
        }
        first
    }

    /// Marks the explanation as uncertain, because not every flavor assignment has been tried.
    fn mark_uncertain(&self, gang: &Gang, closed: &mut Blockage) {
        let mut detail = (*closed.explanation.detail).clone();
        match &mut detail {
            WaitDetail::TopologyFragmented { certain, .. }
            | WaitDetail::GroupsCollide { certain, .. } => {
                *certain = false;
            }
            // Each group could start alone with some flavor choice.
            _ if closed.distance() == StartDistance::Never => {
                detail = WaitDetail::GroupsCollide {
                    pods: gang.pod_count(),
                    nodes: self.nodes.node_count(),
                    certain: false,
                };
            }
            _ => return,
        }
        let change = closed.explanation.change.take();
        closed.explanation = WaitExplanation {
            change,
            ..detail.into()
        };
    }

    pub(super) fn try_assignment(
        &mut self,
        gang: &Gang,
        way: &FlavorAssignment,
        log: &mut UndoLog,
    ) -> Result<Vec<PodRuns>, Box<Blockage>> {
        // The limits come before quota: a gang that a limit refuses reserves neither room nor
        // quota.
        self.check_limits(gang, &way.demand)?;
        let found = match self.queues.admit(&gang.queue, &way.demand, &self.catalog) {
            Err(blocked) => Err(blocked),
            Ok(()) => {
                let found = self.find_backfill_place(gang, way, log);
                found.map_err(|mut blocked| {
                    self.add_flavor_names(gang, way, &mut blocked);
                    self.queues
                        .watch(&gang.queue, &way.demand, &mut blocked.wake);
                    blocked
                })
            }
        };
        found.map_err(|mut blocked| {
            self.watch_limits(gang, &way.demand, &mut blocked.wake);
            blocked
        })
    }

    /// Checks that the gang is at the head of a strict queue: the first gang that is not backing
    /// off. Surplus is at the head if no gang is before it.
    fn check_head_of_queue(&self, gang: &Gang) -> Result<(), Box<Blockage>> {
        if self.queues.order(&gang.queue) != QueueOrder::StrictFifo {
            return Ok(());
        }
        let line = self.scheduling_queue.gangs_in_order(&gang.queue);
        let gangs = line.filter_map(|at| self.gangs.get(at));
        let head = gangs
            .take_while(|s| !s.gang.surplus)
            .find(|state| state.earliest_start().is_none_or(|until| until <= self.now));
        // A gang in a trial waits behind all gangs that precede it in queue order.
        match head {
            Some(head) if OrderKey::for_gang(&head.gang) < OrderKey::for_gang(gang) => {
                let mut wake = WakeCondition::default();
                wake.on_rise(Signal::Queues, 1)
                    .on_rise(Signal::Head(gang.queue.clone()), 1);
                let detail = WaitDetail::BehindHead {
                    queue: gang.queue.clone(),
                    head: head.gang.id.clone(),
                };
                Err(Blockage::new(detail, wake))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn find_place(
        &mut self,
        gang: &Gang,
        shape: &Arc<GangShape>,
        log: &mut UndoLog,
    ) -> Result<Vec<PodRuns>, Box<Blockage>> {
        if let Some(refusal) = self.blockages.get(gang, shape) {
            return Err(refusal);
        }
        self.try_place(gang, shape, log)
            .map_err(|NoPlace { certain }| {
                self.catalog.count_kinds(shape, &self.nodes);
                let excluded = placement::excluded_nodes(shape, &self.nodes);
                let refusal =
                    explain::explain(&self.explanation_context(gang, shape, &excluded, certain));
                self.blockages.insert(gang, shape, refusal.clone());
                refusal
            })
    }

    fn explanation_context<'a>(
        &'a self,
        gang: &'a Gang,
        shape: &'a GangShape,
        excluded: &'a [NodeIdx],
        certain: bool,
    ) -> explain::ExplanationContext<'a> {
        explain::ExplanationContext {
            nodes: &self.nodes,
            catalog: &self.catalog,
            gang,
            shape,
            excluded,
            certain,
            nominated_usage: self.nominated_usage(),
        }
    }

    /// Returns the placements of gangs whose victims have not left yet.
    fn nominated_usage(&self) -> explain::NominatedUsage {
        let mut promised = explain::NominatedUsage::new();
        for (_, placed) in self.gangs.nominated() {
            for part in placed.node_usages(self.pods.known()) {
                let demand = self.catalog.demand(part.demand);
                for (resource, amount) in demand.iter() {
                    let all = i128::from(*amount).saturating_mul(i128::from(part.pods));
                    let sum = promised.entry((part.node, *resource)).or_default();
                    *sum = sum.saturating_add(all);
                }
            }
        }
        promised
    }

    /// Completes the explanation of a blocked gang. If it waits for room, adds the change that
    /// would make room. If it waits for quota, adds the queues that hold the quota.
    pub(super) fn complete_explanation(
        &mut self,
        gang: &Gang,
        ways: &AssignmentResult,
        blocked: &mut Blockage,
    ) {
        let explanation = &mut blocked.explanation;
        if explanation.reason == WaitReason::QuotaExceeded {
            let way = ways
                .as_ref()
                .ok()
                .and_then(|ways| ways.get(blocked.assignment));
            let detail = way.and_then(|way| {
                let detail = &explanation.detail;
                self.queues
                    .add_holders(&gang.queue, &way.demand, detail, &self.catalog)
            });
            if let Some(detail) = detail {
                explanation.detail = Arc::new(detail);
            }
            return;
        }
        if explanation.change.is_some() || !explanation.reason.is_room_shortage() {
            return;
        }
        let Some(way) = ways
            .as_ref()
            .ok()
            .and_then(|ways| ways.get(blocked.assignment))
        else {
            return;
        };
        let shape = &way.shape;
        if let Some(known) = self.blockages.change(shape) {
            explanation.change = known;
            return;
        }
        let excluded = placement::excluded_nodes(shape, &self.nodes);
        let change =
            explain::smallest_change(&self.explanation_context(gang, shape, &excluded, true));
        explanation.change = change.map(Arc::new);
        self.blockages
            .insert_change(shape, explanation.change.clone());
    }

    /// Finds a place without reading the cache of refusals.
    pub(super) fn try_place(
        &mut self,
        gang: &Gang,
        shape: &Arc<GangShape>,
        log: &mut UndoLog,
    ) -> Result<Vec<PodRuns>, NoPlace> {
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        self.catalog.refresh(shape, &self.nodes);
        let excluded = placement::excluded_nodes(shape, &self.nodes);
        let wish = PlacementRequest {
            shape,
            strategy: gang.strategy,
            excluded: &excluded,
        };
        if let Some(groups) = self.place_on_seats(gang, &wish, log) {
            return Ok(groups);
        }
        placement::place(
            &mut self.nodes,
            &mut self.packing,
            &self.catalog,
            &wish,
            log,
        )
    }
}
