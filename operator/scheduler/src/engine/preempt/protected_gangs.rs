//! Gangs that could be victims of a pending gang, but are still protected.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::Engine;
use super::preemptor::PreemptionRight;
use crate::ids::GangId;
use crate::state::GangIdx;
use crate::time::Time;

impl Engine {
    /// Returns the gangs that a pending gang could preempt by the policy of its queue, but not yet.
    /// They have been placed for less than their minimum runtime
    /// ([`Gang::min_runtime`](crate::Gang::min_runtime)), or their last eviction was cancelled a
    /// moment ago. Each has the end of its protection, the earliest first. Their preemption alone
    /// may not be enough.
    pub fn protected_victims(&mut self, gang: &GangId) -> Vec<(GangId, Time)> {
        self.find_protected_victims(gang).unwrap_or_default()
    }

    /// Finds the protected victims. None: the gang is not pending, or has no flavor assignment.
    fn find_protected_victims(&mut self, gang: &GangId) -> Option<Vec<(GangId, Time)>> {
        let at = self.gangs.find(gang)?;
        let state = self.gangs.get(at)?;
        if state.awaits_apply || state.placed().is_some() {
            return None;
        }
        let gang = Arc::clone(&state.gang);
        let preempted = state.preempted || gang.preempted;
        let ways = self.assignments(at)?.ok()?;
        let mut found: BTreeMap<GangIdx, Time> = BTreeMap::new();
        for way in ways.iter() {
            let Some(asker) = self.preemptor((&gang, preempted), (way, PreemptionRight::Policy))
            else {
                continue;
            };
            let mut budget = asker.budget(&self.queues);
            let candidates = self.victim_candidates(&asker, &mut budget);
            budget.undo_changes(&mut self.queues);
            found.extend(candidates.protected);
        }
        let named = found.into_iter().filter_map(|(at, until)| {
            let gang = &self.gangs.get(at)?.gang;
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
