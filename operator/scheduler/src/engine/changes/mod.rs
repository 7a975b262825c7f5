//! Changes that the caller reports. `cluster` applies nodes, topologies, pods, queues and flavors,
//! `gangs` gangs, and `limits` the limits outside queue quota. `departures` is about gangs and pods
//! that are leaving, and `stopping` about deleted gangs whose pods still exist.

mod cluster;
mod departures;
mod gangs;
mod limits;
mod stopping;

pub(super) use stopping::DeletedGang;
