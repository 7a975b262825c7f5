//! Gangs that could be victims of a pending gang, but are still protected.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::{Engine, Stage};
use super::asker::Right;
use crate::ids::GangId;
use crate::preemption::Budget;
use crate::state::GangIdx;
use crate::time::Time;

impl Engine {
    /// Gangs that a pending gang could preempt by the policy of its queue, but not yet: they have
    /// been placed for less than their minimum runtime
    /// ([`Gang::min_runtime`](crate::Gang::min_runtime)), or their last eviction was cancelled a
    /// moment ago. Each comes with the end of its protection, the earliest first. Preempting them
    /// need not be enough.
    pub fn protected_from(&mut self, gang: &GangId) -> Vec<(GangId, Time)> {
        self.protected_from_waiting(gang).unwrap_or_default()
    }

    /// None: the gang is not pending, or has no flavor assignment.
    fn protected_from_waiting(&mut self, gang: &GangId) -> Option<Vec<(GangId, Time)>> {
        let at = *self.ids.get(gang)?;
        let state = self.state(at)?;
        if state.idle || matches!(state.stage, Stage::Placed(_)) {
            return None;
        }
        let gang = Arc::clone(&state.gang);
        let preempted = state.preempted || gang.preempted;
        let ways = self.ways(at)?.ok()?;
        let mut found: BTreeMap<GangIdx, Time> = BTreeMap::new();
        for way in ways.iter() {
            let Some(asker) = self.asker((&gang, preempted), (way, Right::OfPolicy)) else {
                continue;
            };
            let mut budget = Budget::new(&self.queues, asker.queue, &way.demand);
            let candidates = self.candidates(&asker, &mut budget);
            budget.end(&mut self.queues);
            found.extend(candidates.protected);
        }
        let named = found.into_iter().filter_map(|(at, until)| {
            let gang = &self.state(at)?.gang;
            Some((until, gang.id.clone()))
        });
        let mut named: Vec<(Time, GangId)> = named.collect();
        named.sort();
        Some(
            named
                .into_iter()
                .map(|(until, gang)| (gang, until))
                .collect(),
        )
    }
}
