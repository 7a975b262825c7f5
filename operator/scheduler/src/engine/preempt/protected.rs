//! Who could make room for a gang, and may not be asked yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::{Engine, Stage};
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
        let Some((at, waits)) = self.ids.get(gang).and_then(|&at| {
            let state = self.state(at)?;
            let waits = !state.idle && !matches!(state.stage, Stage::Placed(_));
            Some((at, waits))
        }) else {
            return Vec::new();
        };
        let Some(Ok(ways)) = self.ways(at).filter(|_| waits) else {
            return Vec::new();
        };
        let Some((gang, preempted)) = self.state(at).map(|state| {
            let gang = Arc::clone(&state.gang);
            let preempted = state.preempted || gang.preempted;
            (gang, preempted)
        }) else {
            return Vec::new();
        };
        let mut found: BTreeMap<GangIdx, Time> = BTreeMap::new();
        for way in ways.iter() {
            let Some(asker) = self.asker((&gang, preempted), way) else {
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
        named
            .into_iter()
            .map(|(until, gang)| (gang, until))
            .collect()
    }
}
