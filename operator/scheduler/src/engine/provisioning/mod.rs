//! Provisioning: which gangs get new nodes, and how long the engine waits for them.
//!
//! A gang for which nodes are provisioned stays pending. Like a gang that restarts, it has a kept
//! place, which holds quota and room. Part of the room is on *planned nodes*, which do not exist
//! yet. At each turn the engine tries the gang again: it starts if it fits on existing nodes, and
//! otherwise its kept place moves to the nodes that have arrived.
//!
//! `search` finds the new nodes that a gang needs, and `planned_nodes` adds them to the nodes for
//! that search only. `addable_nodes` limits their number, and `obstacles` explains why a gang gets
//! none. `lifecycle` begins and ends the provisioning for a gang. `back_offs` records
//! the flavors whose nodes came late.

mod addable_nodes;
mod back_offs;
mod lifecycle;
mod obstacles;
mod planned_nodes;
mod search;

use std::collections::BTreeMap;

use super::flavor_assignment::FlavorAssignment;
use crate::ids::FlavorName;
use crate::placement::Placement;
use crate::provisioning::Provisioning;
use crate::queueing::{FlavorChoice, WakeCondition};
pub(super) use back_offs::{BackOff, ProvisioningBackOffs};

/// The new nodes with which a gang could start.
#[derive(Debug)]
pub(super) struct ProvisioningPlan {
    pub(super) assignment: FlavorAssignment,
    /// The nodes of its pods, among them planned ones.
    pub(super) placement: Placement,
    /// The number of planned nodes that it uses, by flavor.
    pub(super) nodes: BTreeMap<FlavorName, u32>,
    /// When the engine tries the gang again.
    pub(super) wake: WakeCondition,
}

/// The provisioning for one gang.
#[derive(Clone, Debug)]
pub(super) struct GangProvisioning {
    pub(super) state: Provisioning,
    /// The flavors of each task group. The gang uses no other ones while its nodes come.
    pub(super) choices: Vec<FlavorChoice>,
}
