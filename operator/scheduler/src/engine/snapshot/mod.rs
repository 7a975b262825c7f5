//! All that an engine knows, as plain data, to be decided again elsewhere.
//!
//! `take` makes a snapshot of an engine, `restore` an engine of a snapshot, `positions` says
//! where those stand that wait.

mod positions;
mod restore;
mod take;

use serde::{Deserialize, Serialize};

use crate::backfill::Reservation;
use crate::constraints::Constraints;
use crate::explain::WaitReason;
use crate::gang::Gang;
use crate::ids::{FlavorName, LimitName, NodeName, PodKey, QueueName, ResourceName};
use crate::limits::Closure;
use crate::node::Node;
use crate::placement::{History, Placement};
use crate::queue::{Flavor, GroupFlavors, Queue};
use crate::quota::Decay;
use crate::resources::Resources;
use crate::time::Time;
use crate::topology::Topology;

/// All that an engine knows: one that is built from it decides the same.
///
/// Lists are in the order of their names, so that equal engines make equal
/// snapshots. What an engine only remembers to be faster is not in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    /// The latest time that the engine was told.
    pub now: Time,
    /// How it forgets usage.
    pub decay: Decay,
    /// Nodes that are there.
    pub nodes: Vec<Node>,
    /// Pods that have been seen.
    pub pods: Vec<PodSnapshot>,
    /// Every flavor that was ever named, in that order: what is equal otherwise
    /// is told in it.
    pub flavor_names: Vec<FlavorName>,
    /// Flavors that are defined.
    pub flavors: Vec<Flavor>,
    /// Topologies.
    pub topologies: Vec<Topology>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// What queues have held.
    pub lags: Vec<LagSnapshot>,
    /// Limits from which nothing may be drawn.
    pub closed: Vec<(LimitName, Closure)>,
    /// Gangs.
    pub gangs: Vec<GangSnapshot>,
    /// Gangs that are gone, but for pods that still stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopping: Vec<StoppingSnapshot>,
    /// The typical tasks.
    pub history: History,
    /// What was last told to be kept for gangs. What is kept now is worked out anew.
    pub reservations: Vec<Reservation>,
}

/// A pod that has been seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSnapshot {
    /// Its name.
    pub pod: PodKey,
    /// Its node.
    pub node: NodeName,
    /// What it holds, beside the pod itself.
    pub request: Resources,
    /// It is one of a gang that has its place.
    pub held: bool,
    /// It is on the way out, and to be gone by then.
    pub leaves: Option<Time>,
}

/// How far what a queue has held lags behind what it holds: an integer in the
/// engine's own measure, to the last bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LagSnapshot {
    /// The queue.
    pub queue: QueueName,
    /// The resource.
    pub resource: ResourceName,
    /// The lag, as of the beginning of that half-life.
    #[serde(with = "wide")]
    pub lag: i128,
    /// Half-lives since the epoch.
    pub epoch: i64,
}

/// A gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GangSnapshot {
    /// As it was last applied.
    pub gang: Gang,
    /// The back-off of the last release.
    pub not_before: Option<Time>,
    /// It had to leave its place for another, or since its queue was drained.
    pub preempted: bool,
    /// The reason to wait that was last told.
    pub told: Option<WaitReason>,
    /// None: it waits.
    pub place: Option<PlaceSnapshot>,
    /// It has lost its place, and is not tried before it is applied again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// What is kept for it of the place that it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeepSnapshot>,
}

/// A gang that is gone, but for pods that still stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoppingSnapshot {
    /// The gang as it was placed.
    pub gang: Gang,
    /// Those of its pods that are there.
    pub pods: Vec<PodKey>,
    /// By when they are to be gone.
    pub by: Time,
    /// What of its queue it holds until then.
    pub charged: Vec<ChargeSnapshot>,
    /// What of limits.
    pub drawn: Vec<DrawnSnapshot>,
}

/// So much of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DrawnSnapshot {
    /// The limit.
    pub limit: LimitName,
    /// How much.
    #[serde(with = "wide")]
    pub amount: i128,
}

/// What is kept for a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeepSnapshot {
    /// The gang as it was placed.
    pub gang: Gang,
    /// Until when.
    pub until: Time,
    /// By when its pods are to be gone.
    pub by: Time,
    /// The flavors that it was given.
    pub flavors: Vec<GroupFlavors>,
    /// What its queue is charged with.
    pub charged: Vec<ChargeSnapshot>,
    /// The room of its pods.
    pub pods: Vec<KeptPodSnapshot>,
}

/// The room of a pod of a gang for which it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeptPodSnapshot {
    /// The number of its task group.
    pub group: usize,
    /// Its index in that.
    pub index: u32,
    /// The node.
    pub node: NodeName,
    /// What it holds, beside the pod itself.
    pub request: Resources,
    /// The pod is not there. Else it holds this itself, until it is gone.
    pub held: bool,
}

/// The place of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlaceSnapshot {
    /// The gang as it was placed.
    pub gang: Gang,
    /// Where its pods go.
    pub placement: Placement,
    /// When it got it.
    pub since: Time,
    /// What the place is to it.
    pub standing: StandingSnapshot,
    /// When its work was last safe.
    pub checkpoint: Option<Time>,
    /// It is no victim before this time.
    pub protected: Option<Time>,
    /// What the pods of each task group ask of nodes, their flavors' labels
    /// among it as these were when it was placed.
    pub constraints: Vec<Constraints>,
    /// The flavors that it was given.
    pub flavors: Vec<GroupFlavors>,
    /// Pods that are not assumed, by their index, for each task group.
    pub settled: Vec<Vec<u32>>,
    /// Pods that do not hold what was planned, in the same way.
    pub gone: Vec<Vec<u32>>,
    /// What its queue is charged with; once it leaves, what it was.
    pub charged: Vec<ChargeSnapshot>,
}

/// What a placed gang's place is to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum StandingSnapshot {
    /// Its pods are there or are being created.
    Settled,
    /// Its pods come when those of others are gone.
    Nominated,
    /// It is leaving.
    Leaving {
        /// Since when.
        since: Time,
    },
}

/// So much of a resource of a flavor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChargeSnapshot {
    /// The flavor.
    pub flavor: FlavorName,
    /// The resource.
    pub resource: ResourceName,
    /// In base units.
    #[serde(with = "wide")]
    pub amount: i128,
}

/// Numbers of 128 bits as text: JSON has none.
mod wide {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(
        number: &i128,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i128, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
