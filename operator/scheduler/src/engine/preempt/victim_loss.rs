//! The loss of a set of victims.

use smallvec::SmallVec;

use crate::preemption::policy::VictimRank;

/// The loss of a set of victims, the smaller the better. It compares first the loss in the highest
/// rank, then in the next ranks, then the number of gangs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct VictimLoss {
    /// Device-seconds by rank, the highest first.
    by_rank: SmallVec<[(VictimRank, u64); 2]>,
    gangs: usize,
}

impl VictimLoss {
    /// Adds a victim.
    pub(super) fn add(&mut self, rank: VictimRank, device_seconds: u64) {
        self.gangs = self.gangs.saturating_add(1);
        match self.by_rank.binary_search_by(|(known, _)| rank.cmp(known)) {
            Ok(at) => {
                if let Some((_, sum)) = self.by_rank.get_mut(at) {
                    *sum = sum.saturating_add(device_seconds);
                }
            }
            Err(at) => self.by_rank.insert(at, (rank, device_seconds)),
        }
    }

    /// Returns the highest rank of a victim, and the total loss.
    pub(super) fn total(&self) -> Option<(VictimRank, u64)> {
        let (highest, _) = self.by_rank.first()?;
        let all = self.by_rank.iter().map(|(_, lost)| *lost);
        Some((*highest, all.fold(0, u64::saturating_add)))
    }
}
