//! Reads the objects of a cluster from its API server.

pub(crate) mod cluster_reader;
mod object_reads;
mod policy_facts;
