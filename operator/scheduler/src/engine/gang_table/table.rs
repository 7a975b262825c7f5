//! All gangs by number, and the facts that preemptors read of each.

use super::super::{GangStage, GangState};

use super::gang_facts::PlacedGangFacts;
use super::placed_gang::PlacedState;
use crate::ids::GangId;
use crate::state::{GangIdx, KnownPods, Slots};

/// All gangs. A preemptor reads a few numbers of thousands of placed gangs, so the table stores
/// these numbers side by side. It caches them from the first read until the gang is borrowed
/// mutably.
#[derive(Debug, Default)]
pub(in crate::engine) struct GangTable {
    gangs: Slots<GangState>,
    /// The facts by gang number, if they have been read.
    facts: Vec<CachedFacts>,
    /// Gangs with pods that are not where they were planned. These pods may move without a change
    /// of the gang.
    misplaced: Vec<GangIdx>,
}

#[derive(Debug, Default)]
enum CachedFacts {
    /// Not read yet.
    #[default]
    Unread,
    /// The gang is not placed, or is nominated or leaving.
    Unsettled,
    Settled(PlacedGangFacts),
}

impl GangTable {
    pub(in crate::engine) fn insert(&mut self, gang: GangState) -> usize {
        let at = self.gangs.insert(gang);
        self.forget_facts(at);
        at
    }

    pub(in crate::engine) fn remove(&mut self, at: usize) -> Option<GangState> {
        self.forget_facts(at);
        self.gangs.remove(at)
    }

    pub(in crate::engine) fn get(&self, at: usize) -> Option<&GangState> {
        self.gangs.get(at)
    }

    /// Returns the name of a gang.
    pub(in crate::engine) fn name(&self, at: GangIdx) -> Option<&GangId> {
        match self.facts.get(at.at()) {
            Some(CachedFacts::Settled(card)) => Some(&card.id),
            _ => Some(&self.get(at.at())?.gang.id),
        }
    }

    /// Returns a gang to change, and drops its cached facts.
    pub(in crate::engine) fn get_mut(&mut self, at: usize) -> Option<&mut GangState> {
        self.forget_facts(at);
        self.gangs.get_mut(at)
    }

    fn forget_facts(&mut self, at: usize) {
        if let Some(known) = self.facts.get_mut(at) {
            *known = CachedFacts::Unread;
        }
    }

    /// Drops the facts of gangs with pods that are not where they were planned. The caller must
    /// call it before it reads facts.
    pub(in crate::engine) fn forget_misplaced(&mut self) {
        for at in std::mem::take(&mut self.misplaced) {
            self.forget_facts(at.at());
        }
    }

    /// Returns the facts about a placed gang. None: it is not placed, or is nominated or leaving.
    pub(in crate::engine) fn facts(
        &mut self,
        at: GangIdx,
        pods: &KnownPods,
    ) -> Option<&PlacedGangFacts> {
        if self.facts.len() <= at.at() {
            let all = at.at().saturating_add(1);
            self.facts.resize_with(all, CachedFacts::default);
        }
        let known = self.facts.get_mut(at.at())?;
        if matches!(known, CachedFacts::Unread) {
            *known = match &self.gangs.get(at.at())?.stage {
                GangStage::Placed(placed) if placed.state == PlacedState::Settled => {
                    if placed.has_misplaced_pods() {
                        self.misplaced.push(at);
                    }
                    CachedFacts::Settled(PlacedGangFacts::from_placed(placed, pods))
                }
                _ => CachedFacts::Unsettled,
            };
        }
        match known {
            CachedFacts::Settled(card) => Some(card),
            CachedFacts::Unread | CachedFacts::Unsettled => None,
        }
    }
}
