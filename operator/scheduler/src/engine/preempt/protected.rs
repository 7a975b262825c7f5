//! Who could make room for a gang, and may not be asked yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::{Engine, Stage};
use super::asker::Right;
use crate::ids::GangId;
use crate::preemption::Budget;
use crate::state::GangIdx;
use crate::time::Time;

impl Engine {
    /// Gangs that one which waits could ask to make room, by the policy of its queue, had they had
    /// their place for as long as they may keep it ([`Gang::min_runtime`](crate::Gang::min_runtime)),
    /// or had they not been asked in vain a moment ago: and until when they may not be asked. The
    /// first to lose that comes first. Whether it would be enough that they leave is not said.
    pub fn protected_from(&mut self, gang: &GangId) -> Vec<(GangId, Time)> {
        self.protected_from_waiting(gang).unwrap_or_default()
    }

    /// None: it does not wait, or no way is open to it.
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
