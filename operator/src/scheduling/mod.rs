//! From the cluster to the engine, and from its decisions to pods.
//!
//! One task owns the engine. It hears what changes ([`Feed`]), asks the
//! `keeper` what each touched gang needs, lets the engine decide, and starts
//! the writes. It never waits for the API server itself.

pub mod admitted;
pub mod allocation;
mod commit;
mod constraints;
mod deletions;
mod driver;
#[cfg(test)]
mod fixtures;
pub mod flavors;
pub mod gang;
mod journal;
mod keeper;
pub mod namespace_quota;
pub mod neighbours;
mod open_plans;
mod preflight;
pub mod request;
pub mod reserve;
mod unsupported;
pub mod volumes;
mod wish;

pub use commit::Committer;
pub use driver::Driver;
pub use journal::{PLAN_TIME, made_at, makes_room};
pub use wish::{Attempt, Run, Wish};

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use trellis_scheduler::{QueueCounts, QueueMemory, QueueName, QueueStanding, Resources};

use crate::key::Key;
use crate::watch::{Repulsion, SlimPod};
use commit::Outcome;

/// How a queue stands.
#[derive(Clone, Debug, Default)]
pub struct QueueReport {
    /// Jobs that wait and hold a place.
    pub counts: QueueCounts,
    /// What they hold. None: the queue is not known (yet).
    pub standing: Option<QueueStanding>,
    /// What they have held.
    pub memory: Option<QueueMemory>,
}

/// What the scheduler hears.
#[derive(Debug)]
pub enum Feed {
    /// A node is new, changed or gone.
    Node(Arc<str>),
    /// A pod holds something of a node.
    Pod {
        /// The pod.
        pod: Key,
        /// Its uid.
        uid: Box<str>,
        /// The node.
        node: Arc<str>,
        /// What it holds.
        request: Resources,
    },
    /// A pod holds nothing any more.
    PodGone(Key),
    /// Anti-affinity of a pod that is not ours keeps pods out of more or less.
    Repulsion(Arc<Repulsion>),
    /// A DeviceClass is new, changed or gone.
    DeviceClass,
    /// A queue is new, changed or gone.
    Queue(Arc<str>),
    /// A flavor is new, changed or gone.
    Flavor(Arc<str>),
    /// A topology is new, changed or gone.
    Topology(Arc<str>),
    /// A namespace's core ResourceQuotas changed.
    NamespaceQuota(Arc<str>),
    /// Something about a job changed.
    Look(Key),
    /// What the controller wants of a gang. None: the job is gone.
    Wish(Key, Option<Wish>),
    /// Someone asks how queues stand.
    AskQueues(oneshot::Sender<BTreeMap<QueueName, QueueReport>>),
    /// A task has ended.
    Ended(Key, Outcome),
}

impl Feed {
    /// What a pod means for its node.
    #[must_use]
    pub fn pod(key: Key, pod: &SlimPod) -> Self {
        let over = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        match &pod.spec.node_name {
            Some(node) if !over => Self::Pod {
                uid: pod.metadata.uid.as_deref().unwrap_or_default().into(),
                node: node.as_str().into(),
                request: request::of_pod(pod),
                pod: key,
            },
            _ => Self::PodGone(key),
        }
    }
}
