//! Whether a gang may start, and where.

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

/// How a gang may start, or why it waits.
pub(super) type Admission = Result<Start, Box<Blocked>>;

/// How a gang may start.
#[derive(Debug)]
pub(super) enum Start {
    /// The way that it takes, and its place, charged in the log.
    Now(Box<Way>, Vec<Runs>),
    /// Others make room for it. Nothing is charged.
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

/// What happened to a gang before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// It is not to start before this time.
    pub(super) not_before: Option<Time>,
    /// It had to leave its place for another.
    pub(super) preempted: bool,
}

impl Engine {
    /// Lets a gang that is known start, as [`Self::admit`]: what is kept for it has been
    /// lifted. None: it is not known.
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

    /// Lets a gang start in one of its ways if its queue, its back-off, the quota
    /// and the nodes allow it: the nodes are charged, in the log.
    ///
    /// Where no way is open, the certificate is that of the nearest to a start, of
    /// equal ones the first: so that it never starts is said only where that is so in
    /// every way. Any may wake it.
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

    /// Returns the plan of the first way in which only surplus leaves and gangs of queues that
    /// owe what they hold; otherwise the first plan found. Changes nothing.
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
                // Where a start is only tried, no plan is carried out.
                if self.backfill.ignored || plan.takes_only_what_is_owed() {
                    return Some(plan);
                }
                first.get_or_insert(plan);
            }
        }
        first
    }

    /// Not every way has been tried: what is true of those is not certain.
    fn leave_open(&self, gang: &Gang, closed: &mut Blocked) {
        let mut detail = (*closed.certificate.detail).clone();
        match &mut detail {
            Detail::TopologyFragmented { certain, .. } | Detail::GroupsCollide { certain, .. } => {
                *certain = false;
            }
            // Each group has hope alone, in some choice of its own.
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
        // Before quota: room and quota that it may not use are kept for nobody.
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

    /// In a strict queue only the first that is not in a back-off may start, and what
    /// is surplus when no gang is before it.
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
        // One that is only tried waits behind all that its order puts before it.
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

    /// The places of gangs that wait for their victims to leave.
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

    /// Says of a gang that waits for room what would make some, where it is not said yet,
    /// and of one that waits for quota which queues hold it.
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

    /// A place, whatever was refused before.
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
