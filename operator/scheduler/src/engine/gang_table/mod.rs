//! All gangs with their stages.
//!
//! `table` has the gangs and the indexes that follow from their stages. `gang_state` is one gang,
//! `placed_gang` a gang with its place, and `gang_facts` the facts that preemptors read.
//! `pod_prefixes` finds the gang of a pod.

mod gang_facts;
mod gang_state;
mod placed_gang;
mod pod_prefixes;
mod table;
#[cfg(test)]
mod tests;

pub(super) use gang_state::{GangStage, GangState};
pub(super) use placed_gang::{
    NodeUsage, PlacedGang, PlacedGroup, PlacedState, choices_from_flavors, group_flavors, placement,
};
pub(super) use table::GangTable;
