//! All gangs by number, and the facts that preemptors read of each.

use super::GangState;
use super::Stage;
use super::placed::Standing;
use super::preempt::Card;
use crate::ids::GangId;
use crate::state::{GangIdx, Pods, Slots};

/// All gangs. A preemptor reads a few numbers of thousands of placed gangs, so these are stored
/// side by side. They are cached from the first read until the gang may have changed, that is,
/// until it is borrowed mutably.
#[derive(Debug, Default)]
pub(super) struct Roster {
    gangs: Slots<GangState>,
    /// By number of the gang, as far as they have been read.
    cards: Vec<Known>,
    /// Gangs with pods that are not where they were planned: these pods may move while the gang
    /// does not change.
    scattered: Vec<GangIdx>,
}

#[derive(Debug, Default)]
enum Known {
    /// Not read yet.
    #[default]
    Nothing,
    /// The gang is not placed, or is nominated or leaving.
    Unsettled,
    Settled(Card),
}

impl Roster {
    pub(super) fn insert(&mut self, gang: GangState) -> usize {
        let at = self.gangs.insert(gang);
        self.forget(at);
        at
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<GangState> {
        self.forget(at);
        self.gangs.remove(at)
    }

    pub(super) fn get(&self, at: usize) -> Option<&GangState> {
        self.gangs.get(at)
    }

    /// The name of a gang.
    pub(super) fn name(&self, at: GangIdx) -> Option<&GangId> {
        match self.cards.get(at.at()) {
            Some(Known::Settled(card)) => Some(&card.id),
            _ => Some(&self.get(at.at())?.gang.id),
        }
    }

    /// A gang, to be changed.
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut GangState> {
        self.forget(at);
        self.gangs.get_mut(at)
    }

    fn forget(&mut self, at: usize) {
        if let Some(known) = self.cards.get_mut(at) {
            *known = Known::Nothing;
        }
    }

    /// Must be called before cards are read: pods that are not where they were planned are looked
    /// up again.
    pub(super) fn start_reading(&mut self) {
        for at in std::mem::take(&mut self.scattered) {
            self.forget(at.at());
        }
    }

    /// The facts about a placed gang. None: it is not placed, or is nominated or leaving.
    pub(super) fn card(&mut self, at: GangIdx, pods: &Pods) -> Option<&Card> {
        if self.cards.len() <= at.at() {
            let all = at.at().saturating_add(1);
            self.cards.resize_with(all, Known::default);
        }
        let known = self.cards.get_mut(at.at())?;
        if matches!(known, Known::Nothing) {
            *known = match &self.gangs.get(at.at())?.stage {
                Stage::Placed(placed) if placed.standing == Standing::Settled => {
                    if placed.is_scattered() {
                        self.scattered.push(at);
                    }
                    Known::Settled(Card::of(placed, pods))
                }
                _ => Known::Unsettled,
            };
        }
        match known {
            Known::Settled(card) => Some(card),
            Known::Nothing | Known::Unsettled => None,
        }
    }
}
