//! Who makes room for whom.
//!
//! A gang that lacks quota or room now, and whose queue allows it, may take the
//! place of others: of whole gangs, those of lower priority always first, among
//! equals those whose work is lost most cheaply. Before anyone is told to leave it
//! is proved that the gang then fits, and that it would not without any single one
//! of them.
//!
//! Where to look: [`policy`] is the rules about two gangs, [`price`] what is lost,
//! [`budget`] what quota allows; the search itself and what becomes of its result
//! need the live state, and are in `engine/preempt`.

mod budget;
pub(crate) mod policy;
pub(crate) mod price;

pub(crate) use budget::Budget;
