//! Admission: decides if a gang may start, and on which nodes.

use std::sync::Arc;

use super::preempt::Plan;
use super::ways::{Way, Ways};
use super::{Engine, Stage};
use crate::explain::{self, Certificate, Detail, Distance, WaitReason};
use crate::gang::Gang;
use crate::placement::{self, NoPlace, Runs, UndoLog, Wish};
use crate::queue::QueueOrder;
use crate::queueing::{Blocked, OrderKey, Signal, Wake};
use crate::state::{GangIdx, NodeIdx, Shape};
use crate::time::Time;

/// How a gang may start, or why it is blocked.
pub(super) type Admission = Result<Start, Box<Blocked>>;

/// How a gang may start.
#[derive(Debug)]
pub(super) enum Start {
    /// The gang starts now, with this flavor assignment and placement. The placement is charged in
    /// the log.
    Now(Box<Way>, Vec<Runs>),
    /// The gang starts after its victims have left. Nothing is charged.
    After(Box<Plan>),
}

impl Start {
    pub(super) fn way(&self) -> &Way {
        match self {
            Self::Now(way, _) => way,
            Self::After(plan) => &plan.way,
        }
    }
}

/// The history of a gang that matters for its admission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// The earliest time at which it may start.
    pub(super) not_before: Option<Time>,
    /// It was preempted by another gang.
    pub(super) preempted: bool,
}

impl Engine {
    /// Calls [`Self::admit`] for a known gang, whose kept place must have been lifted. None: the
    /// gang is not known.
    pub(super) fn try_to_admit(
        &mut self,
        at: GangIdx,
        now: Time,
        log: &mut UndoLog,
    ) -> Option<Admission> {
        let ways = self.ways(at)?;
        let state = self.state(at)?;
        let gang = Arc::clone(&state.gang);
        let before = Before {
            not_before: gang.not_before.max(state.not_before),
            preempted: state.preempted || gang.preempted || self.cycle_placements.is_withdrawn(at),
        };
        Some(self.admit(&gang, &ways, before, now, log))
    }

    /// Admits a gang with one of its flavor assignments if its queue, its back-off, quota and nodes
    /// allow it. The nodes are charged in the log.
    ///
    /// If no assignment works, the explanation is that of the assignment nearest to a start, and
    /// the first one among equals. So the engine reports that a gang can never start only if that
    /// holds for every assignment. The gang wakes when any of them may have changed.
    pub(super) fn admit(
        &mut self,
        gang: &Gang,
        ways: &Ways,
        before: Before,
        now: Time,
        log: &mut UndoLog,
    ) -> Admission {
        self.lines.admit(gang)?;
        self.queues.open(&gang.queue)?;
        if let Some(until) = before.not_before.filter(|until| *until > now) {
            let mut wake = Wake::default();
            wake.on(Signal::Queues, 1).at(until);
            return Err(Blocked::new(Detail::BackingOff { until }, wake));
        }
        self.is_at_head(gang, now)?;
        explain::topology_is_there(self.nodes.domains(), gang)?;
        let ways = match ways {
            Ok(ways) => ways,
            Err(why) => return Err(self.no_way(gang, why)),
        };
        let mut closed: Option<Box<Blocked>> = None;
        let mut held: Vec<&Way> = Vec::new();
        let kept = self.kept_way(gang, ways);
        let others = (0..ways.len()).filter(|number| Some(*number) != kept);
        for number in kept.into_iter().chain(others) {
            let Some(way) = ways.get(number) else {
                continue;
            };
            match self.try_way(gang, way, now, log) {
                Ok(groups) => return Ok(Start::Now(Box::new(way.clone()), groups)),
                Err(mut blocked) => {
                    blocked.way = number;
                    if blocked.certificate.reason.ends_when_others_do() {
                        held.push(way);
                    }
                    match &mut closed {
                        Some(nearest) => {
                            if blocked.distance() < nearest.distance() {
                                std::mem::swap(nearest, &mut blocked);
                            }
                            nearest.join(&blocked);
                        }
                        None => closed = Some(blocked),
                    }
                }
            }
        }
        let mut closed = closed.unwrap_or_else(|| self.no_node_of_a_flavor(gang));
        if ways.thinned.is_some() {
            closed.wake.on(Signal::Nodes, 1);
        }
        if ways.cut {
            self.leave_open(gang, &mut closed);
        }
        match self.make_room_in_any((gang, before.preempted), &held, now, &mut closed.wake) {
            Some(plan) => Ok(Start::After(Box::new(plan))),
            None => Err(closed),
        }
    }

    /// Returns the plan of the first flavor assignment in which only surplus leaves and gangs of
    /// queues that owe what they hold; otherwise the first plan found. Changes nothing.
    fn make_room_in_any(
        &mut self,
        (gang, preempted): (&Gang, bool),
        ways: &[&Way],
        now: Time,
        wake: &mut Wake,
    ) -> Option<Plan> {
        let mut first: Option<Plan> = None;
        for way in ways {
            for ground in self.eviction_grounds(gang, way, now, wake) {
                let Some(plan) = self.make_room((gang, preempted), (way, &ground), wake) else {
                    continue;
                };
                // A trial does not carry out its plan, so the first one is enough.
                if self.backfill.ignored || plan.takes_only_what_is_owed() {
                    return Some(plan);
                }
                first.get_or_insert(plan);
            }
        }
        first
    }

    /// Marks the explanation as uncertain, because not every flavor assignment has been tried.
    fn leave_open(&self, gang: &Gang, closed: &mut Blocked) {
        let mut detail = (*closed.certificate.detail).clone();
        match &mut detail {
            Detail::TopologyFragmented { certain, .. } | Detail::GroupsCollide { certain, .. } => {
                *certain = false;
            }
            // Each group could start alone, with some choice of its own.
            _ if closed.distance() == Distance::Never => {
                detail = Detail::GroupsCollide {
                    pods: gang.pod_count(),
                    nodes: self.nodes.present(),
                    certain: false,
                };
            }
            _ => return,
        }
        let change = closed.certificate.change.take();
        closed.certificate = Certificate {
            change,
            ..detail.into()
        };
    }

    fn try_way(
        &mut self,
        gang: &Gang,
        way: &Way,
        now: Time,
        log: &mut UndoLog,
    ) -> Result<Vec<Runs>, Box<Blocked>> {
        // Limits are checked before quota: a gang that they refuse reserves neither room nor quota.
        self.may_draw(gang, &way.demand)?;
        let found = match self.queues.admit(&gang.queue, &way.demand, &self.catalog) {
            Err(blocked) => Err(blocked),
            Ok(()) => {
                let found = self.find_place_beside(gang, way, now, log);
                found.map_err(|mut blocked| {
                    self.name_flavors(gang, way, &mut blocked);
                    self.queues
                        .watch(&gang.queue, &way.demand, &mut blocked.wake);
                    blocked
                })
            }
        };
        found.map_err(|mut blocked| {
            self.watch_draws(gang, &way.demand, &mut blocked.wake);
            blocked
        })
    }

    /// Checks that the gang is at the head of a strict queue: the first gang that is not backing
    /// off. Surplus is at the head if no gang is before it.
    fn is_at_head(&self, gang: &Gang, now: Time) -> Result<(), Box<Blocked>> {
        if self.queues.order(&gang.queue) != QueueOrder::StrictFifo {
            return Ok(());
        }
        let line = self.waiting.line(&gang.queue);
        let gangs = line.filter_map(|at| self.state(at));
        let head = gangs.take_while(|s| !s.gang.surplus).find(|state| {
            let not_before = state.gang.not_before.max(state.not_before);
            not_before.is_none_or(|until| until <= now)
        });
        // A gang that is only tried waits behind all gangs that its order puts before it.
        match head {
            Some(head) if OrderKey::of(&head.gang) < OrderKey::of(gang) => {
                let mut wake = Wake::default();
                wake.on(Signal::Queues, 1)
                    .on(Signal::Head(gang.queue.clone()), 1);
                let detail = Detail::BehindHead {
                    queue: gang.queue.clone(),
                    head: head.gang.id.clone(),
                };
                Err(Blocked::new(detail, wake))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn find_place(
        &mut self,
        gang: &Gang,
        shape: &Arc<Shape>,
        log: &mut UndoLog,
    ) -> Result<Vec<Runs>, Box<Blocked>> {
        if let Some(refusal) = self.refusals.get(gang, shape) {
            return Err(refusal);
        }
        self.try_place(gang, shape, log)
            .map_err(|NoPlace { certain }| {
                self.catalog.count_kinds(shape, &self.nodes);
                let excluded = placement::excluded(shape, &self.nodes);
                let refusal = explain::explain(&self.question(gang, shape, &excluded, certain));
                self.refusals.insert(gang, shape, refusal.clone());
                refusal
            })
    }

    fn question<'a>(
        &'a self,
        gang: &'a Gang,
        shape: &'a Shape,
        excluded: &'a [NodeIdx],
        certain: bool,
    ) -> explain::Question<'a> {
        explain::Question {
            nodes: &self.nodes,
            catalog: &self.catalog,
            gang,
            shape,
            excluded,
            certain,
            promised: self.promised(),
        }
    }

    /// The placements of gangs whose victims have not left yet.
    fn promised(&self) -> explain::Promised {
        let mut promised = explain::Promised::new();
        let nominated = self.nominated.iter().filter_map(|at| self.state(*at));
        for state in nominated {
            let Stage::Placed(placed) = &state.stage else {
                continue;
            };
            for part in placed.parts(&self.pods) {
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

    /// Completes the explanation of a blocked gang: what would make room, if it waits for room, and
    /// which queues hold the quota, if it waits for quota.
    pub(super) fn say_what_helps(&mut self, gang: &Gang, ways: &Ways, blocked: &mut Blocked) {
        let certificate = &mut blocked.certificate;
        if certificate.reason == WaitReason::QuotaExceeded {
            let way = ways.as_ref().ok().and_then(|ways| ways.get(blocked.way));
            let told = way.and_then(|way| {
                let detail = &certificate.detail;
                self.queues
                    .say_who_holds(&gang.queue, &way.demand, detail, &self.catalog)
            });
            if let Some(told) = told {
                certificate.detail = Arc::new(told);
            }
            return;
        }
        if certificate.change.is_some() || !certificate.reason.is_for_room() {
            return;
        }
        let Some(way) = ways.as_ref().ok().and_then(|ways| ways.get(blocked.way)) else {
            return;
        };
        let shape = &way.shape;
        if let Some(known) = self.refusals.what_helps(shape) {
            certificate.change = known;
            return;
        }
        let excluded = placement::excluded(shape, &self.nodes);
        let change = explain::what_helps(&self.question(gang, shape, &excluded, true));
        certificate.change = change.map(Arc::new);
        self.refusals.helps(shape, certificate.change.clone());
    }

    /// Finds a place, whatever was refused before.
    pub(super) fn try_place(
        &mut self,
        gang: &Gang,
        shape: &Arc<Shape>,
        log: &mut UndoLog,
    ) -> Result<Vec<Runs>, NoPlace> {
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        self.catalog.refresh(shape, &self.nodes);
        let excluded = placement::excluded(shape, &self.nodes);
        let wish = Wish {
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
