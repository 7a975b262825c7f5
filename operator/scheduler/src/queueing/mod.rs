//! Pending gangs: their order, and the changes that they wait for.

mod flavor_choice;
mod flavors;
mod parking;
mod pending_gangs;
mod queues;

pub(crate) use flavor_choice::{FlavorChoice, NoFlavorAssignment, combine, flavor_choices};
pub(crate) use flavors::Flavors;
pub(crate) use parking::{Blockage, Parking, Signal, WaitKind, WakeCondition};
pub(crate) use pending_gangs::{GangClass, OrderKey, PendingGangs};
pub(crate) use queues::{LiftedCharge, NominatedRoom, Queues};
