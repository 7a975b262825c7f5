//! Snapshots: the whole state of an engine as plain data, to reproduce its decisions elsewhere.
//!
//! `capture` makes a snapshot of an engine, `restore` builds an engine from a snapshot, and
//! `positions` returns the queue positions of pending gangs.

mod capture;
mod positions;
mod restore;

use serde::{Deserialize, Serialize};

use crate::backfill::Reservation;
use crate::constraints::Constraints;
use crate::explain::WaitReason;
use crate::gang::Gang;
use crate::ids::{FlavorName, LimitName, NodeName, PodKey, QueueName, ResourceName};
use crate::limits::LimitClosure;
use crate::node::Node;
use crate::placement::{Placement, TaskHistory};
use crate::provisioning::Provisioning;
use crate::queue::{Flavor, GroupFlavors, Queue};
use crate::quota::UsageDecay;
use crate::resources::Resources;
use crate::time::Time;
use crate::topology::Topology;

/// The whole state of an engine. An engine built from it makes the same decisions.
///
/// Lists are ordered by name, so that equal engines make equal snapshots. The snapshot omits
/// caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    /// The latest time that a caller passed to the engine.
    pub now: Time,
    /// The decay of usage.
    pub decay: UsageDecay,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The known pods.
    pub pods: Vec<PodSnapshot>,
    /// Every flavor ever named, in order of first use. This order breaks ties.
    pub flavor_names: Vec<FlavorName>,
    /// The defined flavors.
    pub flavors: Vec<Flavor>,
    /// The topologies.
    pub topologies: Vec<Topology>,
    /// The queues.
    pub queues: Vec<Queue>,
    /// Past usage of the queues.
    pub lags: Vec<UsageLagSnapshot>,
    /// The closed limits.
    pub closed: Vec<(LimitName, LimitClosure)>,
    /// The gangs.
    pub gangs: Vec<GangSnapshot>,
    /// Deleted gangs whose pods are still stopping.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopping: Vec<StoppingGangSnapshot>,
    /// Flavors whose nodes did not come in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub back_offs: Vec<BackOffSnapshot>,
    /// The typical tasks.
    pub history: TaskHistory,
    /// The last reported reservations. The restored engine computes the current ones again.
    pub reservations: Vec<Reservation>,
}

impl Snapshot {
    /// Counts the pods of placed gangs as not yet created, so that they leave with their gang.
    pub fn bind_pods_to_gangs(&mut self) {
        self.pods.retain(|pod| !pod.held);
        for place in self.gangs.iter_mut().filter_map(|g| g.place.as_mut()) {
            place.settled.iter_mut().for_each(Vec::clear);
        }
    }
}

/// A known pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSnapshot {
    /// Its name.
    pub pod: PodKey,
    /// Its node.
    pub node: NodeName,
    /// Its request, without the pod itself.
    pub request: Resources,
    /// True if it belongs to a placed gang.
    pub held: bool,
    /// When it should be gone, if it is leaving.
    pub leaves: Option<Time>,
}

/// How far a queue's decayed usage lags behind its current usage: an exact integer in the engine's
/// own unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageLagSnapshot {
    /// The queue.
    pub queue: QueueName,
    /// The resource.
    pub resource: ResourceName,
    /// The lag at the start of the half-life `epoch`.
    #[serde(with = "wide")]
    pub lag: i128,
    /// Half-lives since the epoch.
    pub epoch: i64,
}

/// A gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GangSnapshot {
    /// The gang as it was last applied.
    pub gang: Gang,
    /// The back-off of the last release.
    pub not_before: Option<Time>,
    /// True if another gang preempted it, or the engine evicted it because its queue was drained.
    pub preempted: bool,
    /// The reason to wait that was last reported.
    pub told: Option<WaitReason>,
    /// The kind of the obstacle to new nodes that was last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_obstacle: Option<u8>,
    /// None: it is pending.
    pub place: Option<PlaceSnapshot>,
    /// True if it has lost its place and is not tried before the caller applies it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// The place that is kept for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptPlaceSnapshot>,
    /// Since when it has lacked only room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_since: Option<Time>,
    /// The nodes that are provisioned for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<ProvisioningSnapshot>,
}

/// The nodes that are provisioned for a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProvisioningSnapshot {
    /// The state of the nodes.
    pub state: Provisioning,
    /// The flavors of each task group.
    pub flavors: Vec<GroupFlavors>,
}

/// A flavor whose nodes did not come for the gangs of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackOffSnapshot {
    /// The queue.
    pub queue: QueueName,
    /// The flavor.
    pub flavor: FlavorName,
    /// When the engine asks for its nodes again.
    pub until: Time,
    /// Failures in a row.
    pub failures: u32,
}

/// A deleted gang whose pods are still stopping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoppingGangSnapshot {
    /// The gang as it was placed.
    pub gang: Gang,
    /// Its pods that still exist.
    pub pods: Vec<PodKey>,
    /// When they should be gone.
    pub by: Time,
    /// Quota of its queue that it holds until its last pod is gone.
    pub charged: Vec<ChargeSnapshot>,
    /// Limits that it holds until its last pod is gone.
    pub drawn: Vec<LimitChargeSnapshot>,
}

/// An amount of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitChargeSnapshot {
    /// The limit.
    pub limit: LimitName,
    /// The amount, in base units.
    #[serde(with = "wide")]
    pub amount: i128,
}

/// The place that is kept for a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeptPlaceSnapshot {
    /// The gang as it was placed.
    pub gang: Gang,
    /// When the engine stops keeping the place.
    pub until: Time,
    /// When its pods should be gone.
    pub by: Time,
    /// The flavors of each task group.
    pub flavors: Vec<GroupFlavors>,
    /// The charge to its queue.
    pub charged: Vec<ChargeSnapshot>,
    /// The room of its pods.
    pub pods: Vec<PodRoomSnapshot>,
}

/// The kept room of one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodRoomSnapshot {
    /// The number of its task group.
    pub group: usize,
    /// The index of the pod in the group.
    pub index: u32,
    /// The node.
    pub node: NodeName,
    /// Its request, without the pod itself.
    pub request: Resources,
    /// True: the pod is gone, and its room is kept. False: the pod itself still exists and holds
    /// the charge.
    pub held: bool,
}

/// The place of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlaceSnapshot {
    /// The gang as it was placed.
    pub gang: Gang,
    /// The nodes of its pods.
    pub placement: Placement,
    /// When the gang was placed.
    pub since: Time,
    /// The state of the place.
    pub standing: PlacedStateSnapshot,
    /// When its work was last saved.
    pub checkpoint: Option<Time>,
    /// The gang cannot be a victim before this time.
    pub protected: Option<Time>,
    /// The constraints of each task group, including the labels that its flavors had when the gang
    /// was placed.
    pub constraints: Vec<Constraints>,
    /// The flavors of each task group.
    pub flavors: Vec<GroupFlavors>,
    /// Indexes of the pods that are not assumed, for each task group.
    pub settled: Vec<Vec<u32>>,
    /// Indexes of the pods that do not have their planned demand on their planned node, for each
    /// task group.
    pub gone: Vec<Vec<u32>>,
    /// The charge to its queue; for a leaving gang its former charge.
    pub charged: Vec<ChargeSnapshot>,
}

/// The state of a placed gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum PlacedStateSnapshot {
    /// Its pods exist or are being created.
    Settled,
    /// Its pods are created once its victims are gone.
    Nominated,
    /// It is leaving.
    Leaving {
        /// Since when it leaves.
        since: Time,
    },
}

/// An amount of a resource of a flavor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChargeSnapshot {
    /// The flavor.
    pub flavor: FlavorName,
    /// The resource.
    pub resource: ResourceName,
    /// The amount, in base units.
    #[serde(with = "wide")]
    pub amount: i128,
}

/// 128-bit numbers as text, because JSON has none.
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
