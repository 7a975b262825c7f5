//! All gangs by number, with the indexes that follow from their stages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::gang_facts::PlacedGangFacts;
use super::gang_state::{GangStage, GangState};
use super::placed_gang::{PlacedGang, PlacedGroup, PlacedState};
use super::pod_prefixes::PodPrefixes;
use crate::explain::WaitExplanation;
use crate::gang::Gang;
use crate::ids::{GangId, PodKey};
use crate::state::{GangIdx, GangShape, KnownPods, Slots};
use crate::time::Time;

/// All gangs. A preemptor reads a few numbers of thousands of placed gangs, so the table stores
/// these numbers side by side. It caches them from the first read until the gang is borrowed
/// mutably.
///
/// INVARIANT: the indexes agree with the gangs. `by_id` has every gang except those that are
/// stopping, `pod_prefixes` the groups of all placed gangs, `placed_count` their number, and
/// `nominated` and `leaving` the placed gangs in that state. Only methods of the table add gangs
/// and change their stages.
#[derive(Debug, Default)]
pub(in crate::engine) struct GangTable {
    gangs: Slots<GangState>,
    by_id: BTreeMap<GangId, GangIdx>,
    pod_prefixes: PodPrefixes,
    placed_count: usize,
    nominated: BTreeSet<GangIdx>,
    leaving: BTreeSet<GangIdx>,
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
    /// Adds a pending gang. No other gang may have its name.
    pub(in crate::engine) fn insert(&mut self, gang: Gang, shape: Arc<GangShape>) -> GangIdx {
        let id = gang.id.clone();
        let at = self.insert_state(GangState::new(
            Arc::new(gang),
            shape,
            GangStage::Pending(None),
        ));
        self.by_id.insert(id, at);
        at
    }

    /// Adds a deleted gang of which this many pods are still stopping. A new gang may have its
    /// name.
    pub(in crate::engine) fn insert_stopping(
        &mut self,
        gang: Arc<Gang>,
        shape: Arc<GangShape>,
        pods: u32,
        by: Time,
    ) -> GangIdx {
        let stage = GangStage::Stopping { pods, by };
        self.insert_state(GangState::new(gang, shape, stage))
    }

    fn insert_state(&mut self, gang: GangState) -> GangIdx {
        let at = GangIdx::of(self.gangs.insert(gang));
        self.forget_facts(at);
        at
    }

    /// Removes a gang. The caller must have released its charges.
    pub(in crate::engine) fn remove(&mut self, at: GangIdx) -> Option<GangState> {
        self.take_placed(at);
        let state = self.gangs.remove(at.at())?;
        if self.by_id.get(&state.gang.id) == Some(&at) {
            self.by_id.remove(&state.gang.id);
        }
        Some(state)
    }

    /// Returns the number of a gang that is not stopping.
    pub(in crate::engine) fn find(&self, id: &GangId) -> Option<GangIdx> {
        self.by_id.get(id).copied()
    }

    /// Returns all gangs that are not stopping, by name.
    pub(in crate::engine) fn iter(&self) -> impl Iterator<Item = (GangIdx, &GangState)> {
        let all = self.by_id.values();
        all.filter_map(|at| Some((*at, self.get(*at)?)))
    }

    pub(in crate::engine) fn get(&self, at: GangIdx) -> Option<&GangState> {
        self.gangs.get(at.at())
    }

    /// Returns a gang to change, and drops its cached facts. The caller must not change its id.
    pub(in crate::engine) fn get_mut(&mut self, at: GangIdx) -> Option<&mut GangState> {
        self.forget_facts(at);
        self.gangs.get_mut(at.at())
    }

    /// Returns a placed gang.
    pub(in crate::engine) fn placed(&self, at: GangIdx) -> Option<&PlacedGang> {
        self.get(at)?.placed()
    }

    /// Returns a placed gang to change. Its pods must keep their names.
    pub(in crate::engine) fn placed_mut(&mut self, at: GangIdx) -> Option<&mut PlacedGang> {
        match &mut self.get_mut(at)?.stage {
            GangStage::Placed(placed) => Some(placed),
            GangStage::Pending(_) | GangStage::Stopping { .. } => None,
        }
    }

    /// Returns a task group of a placed gang.
    pub(in crate::engine) fn group(&self, at: GangIdx, group: usize) -> Option<&PlacedGroup> {
        self.placed(at)?.groups.get(group)
    }

    /// Returns a placed gang that is neither nominated nor leaving.
    pub(in crate::engine) fn settled(&self, at: GangIdx) -> Option<&PlacedGang> {
        let placed = self.placed(at);
        placed.filter(|placed| *placed.state() == PlacedState::Settled)
    }

    /// Records the explanation of the last try of a pending gang.
    pub(in crate::engine) fn set_explanation(&mut self, at: GangIdx, explanation: WaitExplanation) {
        if let Some(state) = self.get_mut(at)
            && state.is_pending()
        {
            state.stage = GangStage::Pending(Some(explanation));
        }
    }

    /// Puts a pending gang on its place.
    pub(in crate::engine) fn place(&mut self, at: GangIdx, placed: PlacedGang) {
        let Some(state) = self.get_mut(at).filter(|state| state.is_pending()) else {
            return;
        };
        state.not_before = None;
        state.short_since = None;
        state.reported_reason = None;
        let gang = Arc::clone(&placed.gang);
        let (nominated, leaving) = (placed.state.is_nominated(), placed.state.is_leaving());
        state.stage = GangStage::Placed(Box::new(placed));
        self.pod_prefixes.insert(at, &gang);
        self.placed_count = self.placed_count.saturating_add(1);
        self.index_state(at, nominated, leaving);
    }

    /// Takes a gang out of its place, if it has one. The gang is pending again.
    pub(in crate::engine) fn take_placed(&mut self, at: GangIdx) -> Option<Box<PlacedGang>> {
        self.placed(at)?;
        let state = self.get_mut(at)?;
        let stage = std::mem::replace(&mut state.stage, GangStage::Pending(None));
        let GangStage::Placed(placed) = stage else {
            return None;
        };
        self.pod_prefixes.remove(at, &placed.gang);
        self.placed_count = self.placed_count.saturating_sub(1);
        self.index_state(at, false, false);
        Some(placed)
    }

    /// Changes the state of a placed gang. Returns its state before.
    pub(in crate::engine) fn set_placed_state(
        &mut self,
        at: GangIdx,
        state: PlacedState,
    ) -> Option<PlacedState> {
        let (nominated, leaving) = (state.is_nominated(), state.is_leaving());
        let before = std::mem::replace(&mut self.placed_mut(at)?.state, state);
        self.index_state(at, nominated, leaving);
        Some(before)
    }

    fn index_state(&mut self, at: GangIdx, nominated: bool, leaving: bool) {
        for (index, has) in [
            (&mut self.nominated, nominated),
            (&mut self.leaving, leaving),
        ] {
            if has {
                index.insert(at);
            } else {
                index.remove(&at);
            }
        }
    }

    /// Counts a pod of a stopping gang as gone. Returns true if it was the last one.
    pub(in crate::engine) fn count_stopped_pod(&mut self, at: GangIdx) -> bool {
        let Some(state) = self.get_mut(at) else {
            return false;
        };
        let GangStage::Stopping { pods, .. } = &mut state.stage else {
            return false;
        };
        *pods = pods.saturating_sub(1);
        *pods == 0
    }

    /// Returns the number of placed gangs.
    pub(in crate::engine) fn placed_count(&self) -> usize {
        self.placed_count
    }

    /// Returns the gangs that start once their victims have left, by number.
    pub(in crate::engine) fn nominated(&self) -> impl Iterator<Item = (GangIdx, &PlacedGang)> {
        let all = self.nominated.iter();
        all.filter_map(|at| Some((*at, self.placed(*at)?)))
    }

    pub(in crate::engine) fn is_nominated(&self, at: GangIdx) -> bool {
        self.nominated.contains(&at)
    }

    /// Returns the gangs that are leaving their place, by number.
    pub(in crate::engine) fn leaving(&self) -> impl Iterator<Item = &PlacedGang> {
        self.leaving.iter().filter_map(|at| self.placed(*at))
    }

    pub(in crate::engine) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Returns the gang, group and index of a pod of a placed gang. If several gangs claim the
    /// name, prefers one in which the pod is still assumed.
    pub(in crate::engine) fn pod_owner(&self, pod: &PodKey) -> Option<(GangIdx, usize, u32)> {
        let possible = self.pod_prefixes.find(pod)?;
        // The owner, and if the pod is assumed.
        let claim = |(gang, group): &(GangIdx, usize)| {
            let placed = self.placed(*gang)?;
            let asked = placed.gang.groups.get(*group)?;
            let index = asked.pod_index(possible.prefix, possible.number)?;
            let planned = placed.groups.get(*group)?;
            let owner = (*gang, *group, index);
            (index < planned.count()).then(|| (owner, planned.is_assumed(index)))
        };
        let mut claims = possible.groups.iter().filter_map(claim);
        let (first, is_assumed) = claims.next()?;
        match is_assumed {
            true => Some(first),
            false => Some(claims.find(|c| c.1).map_or(first, |(owner, _)| owner)),
        }
    }

    /// Returns the number of task groups by whose names pods are found.
    #[cfg(test)]
    pub(super) fn named_group_count(&self) -> usize {
        self.pod_prefixes.group_count()
    }

    /// Returns the name of a gang.
    pub(in crate::engine) fn name(&self, at: GangIdx) -> Option<&GangId> {
        match self.facts.get(at.at()) {
            Some(CachedFacts::Settled(card)) => Some(&card.id),
            _ => Some(&self.get(at)?.gang.id),
        }
    }

    fn forget_facts(&mut self, at: GangIdx) {
        if let Some(known) = self.facts.get_mut(at.at()) {
            *known = CachedFacts::Unread;
        }
    }

    /// Drops the facts of gangs with pods that are not where they were planned. The caller must
    /// call it before it reads facts.
    pub(in crate::engine) fn forget_misplaced(&mut self) {
        for at in std::mem::take(&mut self.misplaced) {
            self.forget_facts(at);
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
                GangStage::Placed(placed) if *placed.state() == PlacedState::Settled => {
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
