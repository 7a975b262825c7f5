//! Limits on the number of pending gangs.

use std::collections::{BTreeMap, BTreeSet};

use super::draw::{Draw, Drawn};
use crate::gang::Gang;
use crate::ids::{GangId, LimitName};
use crate::queueing::Signal;
use crate::time::Time;

/// The pending gangs that draw on such limits, by limit and in order of submission.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: BTreeMap<LimitName, BTreeSet<(Time, GangId)>>,
}

/// A limit that does not let a gang in.
#[derive(Debug)]
pub(super) struct Outside<'a> {
    pub(super) draw: &'a Draw,
    /// How many gangs may be pending.
    pub(super) most: usize,
    /// How many pending gangs came before this one.
    pub(super) before: usize,
}

impl Lines {
    /// Adds a pending gang. Returns a signal for each limit where it comes before other gangs.
    pub(crate) fn join(&mut self, gang: &Gang) -> Vec<Signal> {
        let mut told = Vec::new();
        for draw in waits(gang) {
            let line = self.lines.entry(draw.limit.clone()).or_default();
            let key = key(gang);
            if line.last().is_some_and(|last| *last > key) {
                told.push(Signal::LimitTaken(draw.limit.clone()));
            }
            line.insert(key);
        }
        told
    }

    /// Removes a pending gang. Returns a signal for each limit that it leaves.
    pub(crate) fn leave(&mut self, gang: &Gang) -> Vec<Signal> {
        let mut told = Vec::new();
        for draw in waits(gang) {
            let Some(line) = self.lines.get_mut(&draw.limit) else {
                continue;
            };
            if line.remove(&key(gang)) {
                told.push(Signal::LimitFreed(draw.limit.clone()));
            }
            if line.is_empty() {
                self.lines.remove(&draw.limit);
            }
        }
        told
    }

    /// The first limit that does not let the gang in, if any.
    pub(super) fn keeps_out<'a>(&self, gang: &'a Gang) -> Option<Outside<'a>> {
        let key = key(gang);
        waits(gang).find_map(|draw| {
            let most = usize::try_from(draw.max?).unwrap_or(0);
            let line = self.lines.get(&draw.limit);
            let before = line.map_or(0, |line| line.range(..&key).count());
            (before >= most).then_some(Outside { draw, most, before })
        })
    }

    /// The number of pending gangs, by limit.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (&LimitName, i128)> {
        let lines = self.lines.iter();
        lines.map(|(limit, line)| (limit, i128::try_from(line.len()).unwrap_or(i128::MAX)))
    }
}

/// The limits on pending gangs that a gang draws on.
pub(super) fn waits(gang: &Gang) -> impl Iterator<Item = &Draw> {
    let draws = gang.draws.iter();
    draws.filter(|draw| draw.of == Drawn::Waiting)
}

fn key(gang: &Gang) -> (Time, GangId) {
    (gang.submitted, gang.id.clone())
}
