//! What is to be done now.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Engine, Stage, placed};
use crate::decision::{Decision, Score};
use crate::explain::{self, Certificate, Detail};
use crate::gang::Gang;
use crate::ids::GangId;
use crate::placement::{self, NoPlace, Placement, Runs, UndoLog, Wish};
use crate::queueing::{Blocked, OrderKey, Signal, Wake};
use crate::state::{GangIdx, NodeIdx, ResourceIdx, Shape};
use crate::time::Time;

impl Engine {
    /// Decides about every gang for which something has changed: in order of
    /// priority, submission and name, until nothing more can start. A gang that
    /// cannot start does not keep those behind it from starting.
    ///
    /// First come the gangs that start, in that order, then those whose reason to
    /// wait is another than was last told. Where nothing has changed this costs
    /// nothing, however many gangs wait.
    pub fn cycle(&mut self, now: Time) -> Vec<Decision> {
        let mut decisions = Vec::new();
        let mut looked_at = BTreeSet::new();
        self.parking.ring(now);
        loop {
            // Who is woken by what starts here can only wait for another reason.
            for at in self.parking.take_woken() {
                if let Some(state) = self.gangs.get(at.at()) {
                    self.waiting.make_due(&state.gang, at);
                }
            }
            let mut any = false;
            while let Some(at) = self.waiting.pop_due() {
                any = true;
                if let Some(decision) = self.decide(at, now, &mut looked_at) {
                    decisions.push(decision);
                }
            }
            if !any {
                break;
            }
        }
        decisions.extend(looked_at.into_iter().filter_map(|(_, at)| self.news(at)));
        decisions
    }

    fn decide(
        &mut self,
        at: GangIdx,
        now: Time,
        looked_at: &mut BTreeSet<(OrderKey, GangIdx)>,
    ) -> Option<Decision> {
        let state = self.state(at)?;
        let (gang, shape) = (Arc::clone(&state.gang), Arc::clone(&state.shape));
        let not_before = gang.not_before.max(state.not_before);
        let mut log = UndoLog::default();
        match self.admit(&gang, &shape, not_before, now, &mut log) {
            Ok(groups) => Some(self.commit(at, &gang, &shape, groups)),
            Err(blocked) => {
                if let Some(state) = self.state_mut(at) {
                    state.stage = Stage::Waiting(Some(blocked.certificate));
                }
                self.parking.park(at, blocked.wake);
                looked_at.insert((OrderKey::of(&gang), at));
                None
            }
        }
    }

    /// Keeps the place that has been found.
    fn commit(
        &mut self,
        at: GangIdx,
        gang: &Arc<Gang>,
        shape: &Shape,
        groups: Vec<Runs>,
    ) -> Decision {
        self.waiting.remove(gang);
        self.refusals.clear();
        for (resource, amount) in &shape.total {
            self.parking.raise(&Signal::Taken(*resource), *amount);
            if let Some((along, amount)) = self.nodes.along(*resource, *amount) {
                self.parking.raise(&Signal::Taken(along), amount);
            }
        }
        let score = self.score(shape, &groups);
        let placement = placed::placement(&self.nodes, gang, groups.iter());
        self.settle_place(at, groups);
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
    pub fn trial(&mut self, gang: &Gang, now: Time) -> Result<Placement, Certificate> {
        let shape = Arc::new(self.catalog.acquire_shape(gang));
        let mut log = UndoLog::default();
        let answer = self.admit(gang, &shape, gang.not_before, now, &mut log);
        log.roll_back(&mut self.nodes);
        self.drop_shape(&shape);
        match answer {
            Ok(groups) => Ok(placed::placement(&self.nodes, gang, groups.iter())),
            Err(blocked) => Err(blocked.certificate),
        }
    }

    /// Why a waiting gang does not start, with the numbers of now. None where it
    /// does not wait, or the next cycle would start it if none went before it.
    pub fn explain(&mut self, gang: &GangId, now: Time) -> Option<Certificate> {
        let state = self.state(*self.ids.get(gang)?)?;
        if matches!(state.stage, Stage::Placed(_)) {
            return None;
        }
        let (gang, shape) = (Arc::clone(&state.gang), Arc::clone(&state.shape));
        let not_before = gang.not_before.max(state.not_before);
        let mut log = UndoLog::default();
        let answer = self.admit(&gang, &shape, not_before, now, &mut log);
        log.roll_back(&mut self.nodes);
        answer.err().map(|blocked| blocked.certificate)
    }

    /// Lets a gang start if its queue, its back-off, the quota and the nodes
    /// allow it: the nodes are charged, in the log.
    fn admit(
        &mut self,
        gang: &Gang,
        shape: &Arc<Shape>,
        not_before: Option<Time>,
        now: Time,
        log: &mut UndoLog,
    ) -> Result<Vec<Runs>, Box<Blocked>> {
        self.queues.open(&gang.queue)?;
        if let Some(until) = not_before.filter(|until| *until > now) {
            let mut wake = Wake::default();
            wake.on(Signal::Queue(gang.queue.clone()), 1).at(until);
            return Err(Blocked::new(Detail::BackingOff { until }, wake));
        }
        self.queues
            .admit(&gang.queue, &shape.total, &self.catalog)?;
        self.find_place(gang, shape, log).map_err(|mut blocked| {
            self.queues
                .watch(&gang.queue, &shape.total, &mut blocked.wake);
            blocked
        })
    }

    fn find_place(
        &mut self,
        gang: &Gang,
        shape: &Arc<Shape>,
        log: &mut UndoLog,
    ) -> Result<Vec<Runs>, Box<Blocked>> {
        if let Some(refusal) = self.refusals.get(gang, shape) {
            return Err(refusal);
        }
        self.packing.prepare(&mut self.nodes, &mut self.catalog);
        self.catalog.refresh(shape, &self.nodes);
        let excluded: Vec<NodeIdx> = shape
            .excluded
            .iter()
            .filter_map(|name| self.nodes.find(name))
            .collect();
        let wish = Wish {
            shape,
            strategy: gang.strategy,
            excluded: &excluded,
        };
        match placement::place(
            &mut self.nodes,
            &mut self.packing,
            &self.catalog,
            &wish,
            log,
        ) {
            Ok(groups) => Ok(groups
                .into_iter()
                .map(|runs| placed::by_name(&self.nodes, runs))
                .collect()),
            Err(NoPlace { certain }) => {
                let refusal = explain::explain(&explain::Question {
                    nodes: &self.nodes,
                    catalog: &self.catalog,
                    gang,
                    shape,
                    excluded: &excluded,
                    certain,
                });
                self.refusals.insert(gang, shape, refusal.clone());
                Err(refusal)
            }
        }
    }

    /// How good a place is that is charged already.
    fn score(&self, shape: &Shape, groups: &[Runs]) -> Score {
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
