//! All gangs with their stages. `table` has the gangs and the indexes that follow from their
//! stages, `placed_gang` a gang with its place, and `gang_facts` what preemptors read of it.

mod gang_facts;
mod placed_gang;
mod table;

pub(super) use placed_gang::{
    NodeUsage, PlacedGang, PlacedGroup, PlacedState, group_flavors, placement,
};
pub(super) use table::GangTable;
