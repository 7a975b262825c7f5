//! The backlog of a forecast: gangs that wait behind many gangs with the same demand.
//!
//! Each gang that ends wakes all gangs that its room might serve. With thousands of pending gangs a
//! forecast would see only a few moments ahead. Slurm therefore considers a limited number of jobs
//! (`bf_max_job_test` in slurm.conf). Such a limit hides a small job behind many large ones. The
//! backlog instead holds back a gang only behind gangs of its queue with the same demand. Only a gang
//! with a shorter run may start before them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::engine::{Engine, Snapshot};
use crate::ids::GangId;

/// Least number of gangs of each demand that compete at a time.
const MIN_EQUAL_GANGS: usize = 4;

/// Gangs that the simulated engine does not know yet. The other pending gangs compete for room.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Gangs that always compete, because a new gang would lack their state.
    stateful: BTreeSet<GangId>,
    /// The gangs with the same queue and demand that do not compete yet, in the order of the queue.
    lines: Vec<VecDeque<GangId>>,
    /// The line behind each competing gang.
    line_of: BTreeMap<GangId, usize>,
}

impl Backlog {
    /// Returns an empty backlog for the gangs of a snapshot.
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let gangs = snapshot.gangs.iter();
        let stateful = gangs.filter(|saved| saved.kept.is_some() || saved.gang.provisions);
        Self {
            stateful: stateful.map(|saved| saved.gang.id.clone()).collect(),
            lines: Vec::new(),
            line_of: BTreeMap::new(),
        }
    }

    /// Takes gangs out of an engine that has tried all of them. About `max` gangs remain that wait for
    /// the end of other gangs, but at least a few with each demand.
    pub(super) fn hold_back(&mut self, engine: &mut Engine, max: usize) {
        let mut lines = engine.equal_waiting_gangs();
        for line in &mut lines {
            line.retain(|gang| !self.stateful.contains(gang));
        }
        let total: usize = lines.iter().map(Vec::len).sum();
        if total <= max {
            return;
        }
        let equal = max.checked_div(lines.len()).unwrap_or(max);
        let equal = equal.max(MIN_EQUAL_GANGS);
        for (number, mut line) in lines.into_iter().enumerate() {
            let later = line.split_off(equal.min(line.len()));
            for gang in &later {
                engine.delete_gang(gang);
            }
            self.lines.push(later.into());
            let competing = line.into_iter().map(|gang| (gang, number));
            self.line_of.extend(competing);
        }
    }

    /// Returns the gang that competes from now on because `started` has started. None: no gang waits
    /// behind it.
    pub(super) fn next_after(&mut self, started: &GangId) -> Option<GangId> {
        let line = self.line_of.remove(started)?;
        let next = self.lines.get_mut(line)?.pop_front()?;
        self.line_of.insert(next.clone(), line);
        Some(next)
    }
}
