//! Preemption: which gangs make room for which.
//!
//! A gang that lacks quota or room now may take the place of other gangs if its queue allows it.
//! Victims are whole gangs, those of lower priority first, and among equals those that lose least
//! work. Before the engine tells any victim to leave, it proves that the gang then fits, and that
//! it would not fit without any single one of the victims.
//!
//! Where to look: [`policy`] has the rules about two gangs, [`lost_work`] the work that a victim
//! loses, [`budget`] the quota check. The search itself and what follows it need the live state,
//! and are in `engine/preempt`.

mod budget;
pub(crate) mod lost_work;
pub(crate) mod policy;

pub(crate) use budget::QuotaBudget;
