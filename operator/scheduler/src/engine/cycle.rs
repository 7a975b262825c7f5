//! What is to be done now.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::preempt::Plan;
use super::ways::{Way, Ways};
use super::{Engine, Stage, placed};
use crate::decision::{Decision, Outlook, Score};
use crate::explain::{self, Certificate, Detail};
use crate::gang::Gang;
use crate::ids::{GangId, QueueName};
use crate::placement::{self, NoPlace, Runs, UndoLog, Wish, asks_for_topology};
use crate::queue::QueueOrder;
use crate::queueing::{Blocked, OrderKey, Signal, Wake};
use crate::quota::Order;
use crate::state::{GangIdx, NodeIdx, ResourceIdx, Shape};
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
    fn way(&self) -> &Way {
        match self {
            Self::Now(way, _) => way,
            Self::After(plan) => &plan.way,
        }
    }
}

/// What happened to a gang before.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// It is not to start before this time.
    not_before: Option<Time>,
    /// It had to leave its place for another.
    preempted: bool,
}

/// Who has been looked at in a cycle, in order.
pub(super) type LookedAt = BTreeSet<(OrderKey, GangIdx)>;

impl Engine {
    /// Decides about every gang for which something has changed, until nothing
    /// more can start. Between queues: who stays within nominal quota goes before
    /// who borrows, then who has had least for its weight; within a queue:
    /// priority, submission and name. A gang that cannot start does not keep those
    /// behind it from starting, unless its queue is strict.
    ///
    /// First come the gangs that start, in that order, then those whose reason to
    /// wait is another than was last told. Where nothing has changed this costs
    /// nothing, however many gangs wait.
    pub fn cycle(&mut self, now: Time) -> Vec<Decision> {
        let mut decisions = Vec::new();
        let mut looked_at = BTreeSet::new();
        self.advance(now);
        self.measure_capacity();
        self.check_reservations();
        self.parking.ring(now);
        decisions.extend(self.drain());
        decisions.extend(self.settle_nominations());
        loop {
            // Who is woken by what starts here can only wait for another reason.
            self.wake();
            let due = self.waiting.due_queues();
            if !due.is_empty() {
                self.take_turns(due, now, &mut decisions, &mut looked_at);
                continue;
            }
            // What is kept is a function of what is there, whoever was looked at.
            let settled = !self.backfill.stale && !self.backfill.outdated;
            if settled || !self.renew_heads() {
                break;
            }
        }
        decisions.extend(self.tell_reservations());
        decisions.extend(looked_at.into_iter().filter_map(|(_, at)| self.news(at)));
        decisions
    }

    /// Looks at everyone who is due in these queues, each queue in its turn.
    fn take_turns(
        &mut self,
        due: Vec<QueueName>,
        now: Time,
        decisions: &mut Vec<Decision>,
        looked_at: &mut LookedAt,
    ) {
        let mut order = Order::default();
        let alone = due.len() == 1;
        if !alone {
            self.skip_blocked(&due, now, looked_at);
        }
        for name in due {
            if alone || !self.rank(&mut order, &name, now, looked_at) {
                // It takes turns with nobody, or nothing of it can start.
                while let Some(at) = self.waiting.pop_due(&name) {
                    decisions.extend(self.decide(at, now, looked_at));
                }
            }
        }
        while let Some(queue) = order.first() {
            let Some(name) = self.queues.tree().name(queue).cloned() else {
                return;
            };
            let decision = self
                .waiting
                .pop_due(&name)
                .and_then(|at| self.decide(at, now, looked_at));
            if decision.is_some() {
                order.moved(self.queues.tree(), queue);
            }
            decisions.extend(decision);
            if !self.rank(&mut order, &name, now, looked_at) {
                order.remove(self.queues.tree(), queue);
            }
        }
    }

    /// Gives a queue its place among those that have something to start, by the
    /// first of its gangs that would start now: who cannot start anyway must not
    /// decide whose turn it is, or it would depend on who happens to be looked at.
    /// False: it has nothing, or may start nothing.
    fn rank(
        &mut self,
        order: &mut Order,
        name: &QueueName,
        now: Time,
        looked_at: &mut LookedAt,
    ) -> bool {
        let Some(queue) = self.queues.leaf(name) else {
            return false;
        };
        while let Some(next) = self.waiting.next_due(name) {
            let mut log = UndoLog::default();
            let answer = self.try_to_admit(next, now, &mut log);
            log.roll_back(&mut self.nodes);
            match answer {
                Some(Ok(start)) => {
                    self.queues.rank(order, queue, &start.way().demand);
                    return true;
                }
                Some(Err(blocked)) => {
                    self.waiting.pop_due(name);
                    self.block(next, blocked, looked_at);
                }
                None => {
                    self.waiting.pop_due(name);
                }
            }
        }
        false
    }

    /// Shares are measured by what the nodes have.
    fn measure_capacity(&mut self) {
        if std::mem::take(&mut self.capacity_changed) {
            for (resource, total) in self.nodes.totals() {
                self.queues.set_capacity(resource, total);
            }
        }
    }

    fn decide(&mut self, at: GangIdx, now: Time, looked_at: &mut LookedAt) -> Option<Decision> {
        let mut log = UndoLog::default();
        match self.try_to_admit(at, now, &mut log)? {
            Ok(start) => {
                let gang = Arc::clone(&self.state(at)?.gang);
                Some(match start {
                    Start::Now(way, groups) => self.commit(at, &gang, &way, groups),
                    Start::After(plan) => self.nominate(at, &gang, *plan),
                })
            }
            Err(blocked) => {
                self.block(at, blocked, looked_at);
                None
            }
        }
    }

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
            preempted: state.preempted || gang.preempted,
        };
        Some(self.admit(&gang, &ways, before, now, log))
    }

    /// The gang goes on waiting.
    pub(super) fn block(
        &mut self,
        at: GangIdx,
        mut blocked: Box<Blocked>,
        looked_at: &mut LookedAt,
    ) {
        let Some(state) = self.state_mut(at) else {
            return;
        };
        if asks_for_topology(&state.shape) {
            // Whatever it waits for: its level may come or go.
            blocked.wake.on(Signal::Topologies, 1);
        }
        state.stage = Stage::Waiting(Some(blocked.certificate.clone()));
        let key = OrderKey::of(&state.gang);
        self.note_blocked(at, &blocked);
        self.parking.park(at, blocked.wake);
        looked_at.insert((key, at));
    }

    /// Keeps the place that has been found.
    fn commit(&mut self, at: GangIdx, gang: &Arc<Gang>, way: &Way, groups: Vec<Runs>) -> Decision {
        self.waiting.remove(gang);
        self.parking.raise(&Signal::Head(gang.queue.clone()), 1);
        self.refusals.clear();
        for (resource, amount) in &way.shape.total {
            self.parking.raise(&Signal::Taken(*resource), *amount);
            if let Some((along, amount)) = self.nodes.along(*resource, *amount) {
                self.parking.raise(&Signal::Taken(along), amount);
            }
        }
        let score = self.score(&way.shape, &groups);
        let placement = placed::placement(&self.nodes, gang, groups.iter());
        self.has_started(at, gang, way);
        self.settle_place(at, way, groups, self.now);
        Decision::Place {
            gang: gang.id.clone(),
            placement,
            score,
        }
    }

    /// A wait for another reason than was last told.
    fn news(&mut self, at: GangIdx) -> Option<Decision> {
        let state = self.state_mut(at)?;
        let Stage::Waiting(Some(certificate)) = &state.stage else {
            return None;
        };
        if state.told == Some(certificate.reason) {
            return None;
        }
        state.told = Some(certificate.reason);
        Some(Decision::Wait {
            gang: state.gang.id.clone(),
            certificate: certificate.clone(),
        })
    }

    /// Whether the gang would start now, and where; nothing is kept. It need not
    /// be known to the engine. This is the very way that a cycle goes.
    ///
    /// # Errors
    ///
    /// The certificate that a cycle would give it.
    pub fn trial(&mut self, gang: &Gang, now: Time) -> Result<Outlook, Certificate> {
        let unsettled = self.look_again(now);
        let shape = Arc::new(self.catalog.acquire_shape(gang));
        let ways = self.make_ways(gang, &shape);
        let mut log = UndoLog::default();
        let before = Before {
            not_before: gang.not_before,
            preempted: gang.preempted,
        };
        let answer = self.admit(gang, &ways, before, now, &mut log);
        log.roll_back(&mut self.nodes);
        self.backfill.stale |= unsettled;
        self.drop_ways(&ways);
        self.drop_shape(&shape);
        let place = |groups: &[Runs]| placed::placement(&self.nodes, gang, groups.iter());
        match answer {
            Ok(Start::Now(_, groups)) => Ok(Outlook {
                placement: place(&groups),
                victims: Vec::new(),
            }),
            Ok(Start::After(plan)) => Ok(Outlook {
                placement: place(&plan.groups),
                victims: self.named(&plan.victims),
            }),
            Err(blocked) => Err(blocked.certificate),
        }
    }

    /// Why a waiting gang does not start, with the numbers of now. None where it
    /// does not wait, or the next cycle would start it if none went before it.
    pub fn explain(&mut self, gang: &GangId, now: Time) -> Option<Certificate> {
        let at = *self.ids.get(gang)?;
        if matches!(self.state(at)?.stage, Stage::Placed(_)) {
            return None;
        }
        let unsettled = self.look_again(now);
        let mut log = UndoLog::default();
        let answer = self.try_to_admit(at, now, &mut log);
        log.roll_back(&mut self.nodes);
        self.backfill.stale |= unsettled;
        answer?.err().map(|blocked| blocked.certificate)
    }

    /// Lets a gang start in one of its ways if its queue, its back-off, the quota
    /// and the nodes allow it: the nodes are charged, in the log.
    ///
    /// Where no way is open, the certificate is that of the best; any may wake it.
    fn admit(
        &mut self,
        gang: &Gang,
        ways: &Ways,
        before: Before,
        now: Time,
        log: &mut UndoLog,
    ) -> Admission {
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
        for (number, way) in ways.iter().enumerate() {
            match self.try_way(gang, way, now, log) {
                Ok(groups) => return Ok(Start::Now(Box::new(way.clone()), groups)),
                Err(mut blocked) => {
                    blocked.way = number;
                    if blocked.certificate.reason.ends_when_others_do() {
                        held.push(way);
                    }
                    match &mut closed {
                        Some(first) => first.join(&blocked),
                        None => closed = Some(blocked),
                    }
                }
            }
        }
        let mut closed = closed.unwrap_or_else(|| self.no_node_of_a_flavor(gang));
        for way in held {
            if let Some(plan) = self.make_room(gang, before.preempted, way, &mut closed.wake) {
                return Ok(Start::After(Box::new(plan)));
            }
        }
        Err(closed)
    }

    fn try_way(
        &mut self,
        gang: &Gang,
        way: &Way,
        now: Time,
        log: &mut UndoLog,
    ) -> Result<Vec<Runs>, Box<Blocked>> {
        self.queues.admit(&gang.queue, &way.demand, &self.catalog)?;
        self.find_place_beside(gang, way, now, log)
            .map_err(|mut blocked| {
                self.name_flavors(gang, way, &mut blocked);
                self.queues
                    .watch(&gang.queue, &way.demand, &mut blocked.wake);
                blocked
            })
    }

    /// In a strict queue only the first that is not in a back-off may start.
    fn is_at_head(&self, gang: &Gang, now: Time) -> Result<(), Box<Blocked>> {
        if self.queues.order(&gang.queue) != QueueOrder::StrictFifo {
            return Ok(());
        }
        let line = self.waiting.line(&gang.queue);
        let head = line.filter_map(|at| self.state(at)).find(|state| {
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
                let refusal = explain::explain(&explain::Question {
                    nodes: &self.nodes,
                    catalog: &self.catalog,
                    gang,
                    shape,
                    excluded: &placement::excluded(shape, &self.nodes),
                    certain,
                });
                self.refusals.insert(gang, shape, refusal.clone());
                refusal
            })
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
        placement::place(
            &mut self.nodes,
            &mut self.packing,
            &self.catalog,
            &wish,
            log,
        )
    }

    /// How good a place is that is charged already.
    pub(super) fn score(&self, shape: &Shape, groups: &[Runs]) -> Score {
        let used: BTreeSet<NodeIdx> = groups.iter().flatten().map(|(node, _)| *node).collect();
        let mut devices: Vec<ResourceIdx> = shape.groups.iter().filter_map(|g| g.device).collect();
        if devices.is_empty() {
            devices = self.nodes.devices().to_vec();
        }
        devices.sort_unstable();
        devices.dedup();
        let mut devices_left = 0_u64;
        for node in &used {
            for device in &devices {
                let free = self.nodes.free(*device, *node).max(0);
                devices_left = devices_left.saturating_add(u64::try_from(free).unwrap_or(0));
            }
        }
        let nodes = u32::try_from(used.len()).unwrap_or(u32::MAX);
        Score {
            devices_left,
            nodes,
        }
    }
}
