//! Limits outside queue quota: how much the gangs of a team or a user may hold together, in
//! whatever queue. A gang lists the limits that it draws on; the caller decides whose limits these
//! are and why.
//!
//! A limit is hard: no gang starts past it, and no gang is preempted or kept pending to make room
//! in it. It is charged together with the queue's quota, for the whole gang at once, from when the
//! gang is placed until it is told to leave. Limits on the number of pending gangs are kept
//! separately, in `line`.
//! kept otherwise: by `line`.

mod closure;
mod draw;
mod ledger;
mod pending_limits;
mod shortage;

pub use closure::LimitClosure;
pub use draw::{LimitDraw, LimitUnit};
pub(crate) use ledger::LimitLedger;
pub(crate) use pending_limits::PendingLimits;
