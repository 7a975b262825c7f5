//! Limits outside queue quota: how much the gangs of a team or a user may hold together, over all
//! queues. A gang lists the limits that it draws on. The caller decides whose limits these are and
//! why.
//!
//! A limit is hard: no gang starts above it. The engine does not preempt gangs or keep them pending
//! to make room in a limit. It charges limits together with the queue's quota, for the whole gang
//! at once, from the placement until the gang must leave. `pending_limits` has the limits on the
//! number of pending gangs.

mod closure;
mod draw;
mod ledger;
mod pending_limits;
mod shortage;

pub use closure::LimitClosure;
pub use draw::{LimitDraw, LimitUnit};
pub(crate) use ledger::LimitLedger;
pub(crate) use pending_limits::PendingLimits;
