//! Limits that are none of a queue's: how much the gangs of a team, a user or whomever
//! else may hold together, wherever they wait. A gang says what it draws on; whose
//! limits these are, and why, is the caller's business.
//!
//! A limit is hard: nothing starts past it, and nobody is preempted or kept waiting for
//! it. It is charged with the quota of the queue: for the whole gang at once, from when
//! the gang has its place until it is told to leave. Only limits of how many wait are
//! kept otherwise: by `line`.

mod closure;
mod draw;
mod ledger;
mod line;
mod shortage;

pub use closure::Closure;
pub use draw::{Draw, Drawn};
pub(crate) use ledger::Ledger;
pub(crate) use line::Lines;
