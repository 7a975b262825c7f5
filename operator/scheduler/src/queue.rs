//! Queues: who may hold how much.

use std::collections::BTreeMap;

use crate::ids::{QueueName, ResourceName};

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its name.
    pub name: QueueName,
    /// How much its gangs may hold together. None: what the nodes have. Some:
    /// of these resources so much each (nominal, in base units), and nothing of
    /// a resource that is not named; `pods` alone need not be named, and then
    /// has no limit. These are Kueue's rules.
    pub quota: Option<BTreeMap<ResourceName, i64>>,
    /// Whether it is stopped.
    pub stop: Stop,
}

/// Whether a queue is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stop {
    /// It is not.
    #[default]
    None,
    /// Nothing of it is started; what runs goes on.
    Hold,
}

/// How many gangs of a queue there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueCounts {
    /// They wait.
    pub pending: usize,
    /// They hold their place.
    pub admitted: usize,
}
