//! Preemption: decides which gangs make room for another gang.
//!
//! A gang that lacks quota or room now may take the place of other gangs if its queue allows it.
//! Victims are whole gangs. Gangs of lower priority leave first, and among equals those that lose
//! least work. Before any victim leaves, the engine proves two facts: the gang fits without all
//! victims, and it would not fit if any single victim stayed.
//!
//! Where to look: [`policy`] has the rules about two gangs, [`lost_work`] the work that a victim
//! loses, [`budget`] the quota check. The search itself and its follow-up need the live state, and
//! are in `engine/preempt`.

mod budget;
pub(crate) mod lost_work;
pub(crate) mod policy;

pub(crate) use budget::QuotaBudget;
