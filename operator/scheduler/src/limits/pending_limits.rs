//! Limits on the number of pending gangs.

use std::collections::{BTreeMap, BTreeSet};

use super::draw::{LimitDraw, LimitUnit};
use crate::gang::Gang;
use crate::ids::{GangId, LimitName};
use crate::queueing::Signal;
use crate::time::Time;

/// The pending gangs that draw on limits on pending gangs, by limit and in order of submission.
#[derive(Debug, Default)]
pub(crate) struct PendingLimits {
    gangs: BTreeMap<LimitName, BTreeSet<(Time, GangId)>>,
}

/// A limit that has no room for a gang.
#[derive(Debug)]
pub(super) struct FullLimit<'a> {
    pub(super) draw: &'a LimitDraw,
    /// The largest number of pending gangs.
    pub(super) max: usize,
    /// The number of pending gangs before this gang.
    pub(super) gangs_before: usize,
}

impl PendingLimits {
    /// Adds a pending gang. Returns a signal for each limit in which the gang comes before another
    /// gang.
    pub(crate) fn insert(&mut self, gang: &Gang) -> Vec<Signal> {
        let mut signals = Vec::new();
        for draw in pending_draws(gang) {
            let line = self.gangs.entry(draw.limit.clone()).or_default();
            let key = order_key(gang);
            if line.last().is_some_and(|last| *last > key) {
                signals.push(Signal::LimitTaken(draw.limit.clone()));
            }
            line.insert(key);
        }
        signals
    }

    /// Removes a pending gang. Returns a signal for each limit that it leaves.
    pub(crate) fn remove(&mut self, gang: &Gang) -> Vec<Signal> {
        let mut signals = Vec::new();
        for draw in pending_draws(gang) {
            let Some(line) = self.gangs.get_mut(&draw.limit) else {
                continue;
            };
            if line.remove(&order_key(gang)) {
                signals.push(Signal::LimitFreed(draw.limit.clone()));
            }
            if line.is_empty() {
                self.gangs.remove(&draw.limit);
            }
        }
        signals
    }

    /// Returns the first limit that has no room for the gang, if any.
    pub(super) fn find_full_limit<'a>(&self, gang: &'a Gang) -> Option<FullLimit<'a>> {
        let key = order_key(gang);
        pending_draws(gang).find_map(|draw| {
            let most = usize::try_from(draw.max?).unwrap_or(0);
            let line = self.gangs.get(&draw.limit);
            let before = line.map_or(0, |line| line.range(..&key).count());
            (before >= most).then_some(FullLimit {
                draw,
                max: most,
                gangs_before: before,
            })
        })
    }

    /// Returns the number of pending gangs, by limit.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&LimitName, i128)> {
        let lines = self.gangs.iter();
        lines.map(|(limit, line)| (limit, i128::try_from(line.len()).unwrap_or(i128::MAX)))
    }
}

/// Returns the limits on pending gangs that a gang draws on.
pub(super) fn pending_draws(gang: &Gang) -> impl Iterator<Item = &LimitDraw> {
    let draws = gang.draws.iter();
    draws.filter(|draw| draw.of == LimitUnit::Waiting)
}

fn order_key(gang: &Gang) -> (Time, GangId) {
    (gang.submitted, gang.id.clone())
}
