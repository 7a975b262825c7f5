//! Runs replicas of the operator on a simulated cluster, in virtual time and with faults.
//!
//! The operator is the production code: [`trellis_operator::Replica`] with two clients. Each replica
//! has a tokio runtime of its own, whose clock is paused, and a simulated machine. Its requests go
//! through a simulated network to a simulated API server (`trellis-api-server`), where kubelets, a
//! garbage collector, a controller of Jobs, an autoscaler and users act, too. The rules of
//! `trellis-verify` judge all that the API server stores.
//!
//! A seed makes a [`Script`]. The same script always gives the same [`Outcome`].

mod access;
mod admission;
mod autoscaler;
mod cluster;
mod coverage;
mod elastic_gangs;
mod end_state;
mod error_log;
mod garbage_collector;
mod job_controller;
mod kubelet;
mod network;
mod node_orders;
mod oracle;
mod panics;
mod pod_deletions;
mod random;
mod replica;
mod script;
pub mod search;
mod shrink;
mod simulation;
mod time;
mod trace;
mod transport;
mod users;

pub use cluster::{HEALTH_LABEL, queue_spec};
pub use coverage::Coverage;
pub use elastic_gangs::ElasticCounts;
pub use node_orders::OrderCounts;
pub use panics::record_panics;
pub use random::RandomSequence;
pub use script::{
    Act, ActScript, AfterWrite, AutoscalerScript, ElasticScript, Fault, FaultScript, JobScript,
    KubeletDelays, NetworkDelays, Priority, QueueScript, Script, WriteChoice, WriteFault,
    WriteKind,
};
pub use shrink::shrink;
pub use simulation::{Outcome, run};
