//! Who waits, in which order, and for what.

mod order;
mod parking;
mod quota;

pub(crate) use order::{OrderKey, Waiting};
pub(crate) use parking::{Blocked, Parking, Signal, Wake};
pub(crate) use quota::Queues;
