//! The rules. Each one reads the changes that concern it, and keeps what it needs of the past.

mod backwards;
mod early_victim;
mod foreign;
mod hasty_journal;
mod lasting;
mod leak;
mod left_placeholder;
mod over_capacity;
mod over_quota;
mod progress;
mod second_purchase;
mod stale_journal;
mod stuck_plan;
mod torn;
mod torn_slices;
mod two_attempts;
mod unordered_placeholder;
mod unplanned_pod;
mod untrue_status;
mod victim;
mod writes;

use crate::clock::{HealthyClock, Moment};
use crate::cluster::Cluster;
use crate::verifier::{Findings, Step};

/// One rule.
pub(crate) trait Judge {
    /// Takes in the objects that exist when the history starts.
    fn start(&mut self, _cluster: &Cluster, _clock: &HealthyClock) {}

    /// Judges a change.
    fn observe(&mut self, _step: &Step<'_>, _findings: &mut Findings) {}

    /// Judges a state that has lasted too long.
    fn check(&mut self, _cluster: &Cluster, _now: Moment, _findings: &mut Findings) {}
}

pub(crate) fn all() -> Vec<Box<dyn Judge + Send>> {
    vec![
        Box::<lasting::Lasting<torn::Torn>>::default(),
        Box::<two_attempts::TwoAttempts>::default(),
        Box::<over_capacity::OverCapacity>::default(),
        Box::<over_quota::OverQuota>::default(),
        Box::<unplanned_pod::UnplannedPod>::default(),
        Box::<hasty_journal::HastyJournal>::default(),
        Box::new(stale_journal::StaleJournal),
        Box::new(backwards::Backwards),
        Box::<lasting::Lasting<untrue_status::UntrueStatus>>::default(),
        Box::<lasting::Lasting<stuck_plan::StuckPlan>>::default(),
        Box::<lasting::Lasting<leak::Leak>>::default(),
        Box::new(foreign::Foreign),
        Box::<writes::Writes>::default(),
        Box::<victim::Victim>::default(),
        Box::<early_victim::EarlyVictim>::default(),
        Box::<progress::Progress>::default(),
        Box::<unordered_placeholder::UnorderedPlaceholder>::default(),
        Box::<lasting::Lasting<left_placeholder::LeftPlaceholder>>::default(),
        Box::new(second_purchase::SecondPurchase),
    ]
}
