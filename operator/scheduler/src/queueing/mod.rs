//! Pending gangs: their order, and what they wait for.

mod assignment;
mod flavors;
mod order;
mod parking;
mod queues;

pub(crate) use assignment::{Choice, NoWay, choices, combine};
pub(crate) use flavors::Flavors;
pub(crate) use order::{Class, OrderKey, Waiting};
pub(crate) use parking::{Blocked, Parking, Phase, Signal, Wake};
pub(crate) use queues::{Aside, FollowerRoom, Queues};
