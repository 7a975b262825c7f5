//! Gangs: groups of pods that the engine places together or not at all.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::constraints::Constraints;
use crate::ids::{FlavorName, GangId, GroupName, NodeName, PodKey, QueueName, ResourceName};
use crate::limits::LimitDraw;
use crate::merged_group::GroupPart;
use crate::resources::Resources;
use crate::time::Time;
use crate::topology::{SliceLayer, TopologyRequest};

/// A gang. The engine places all of its pods, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gang {
    /// Its name.
    pub id: GangId,
    /// The queue in which it waits. The engine charges its quota.
    pub queue: QueueName,
    /// The priority: higher goes first.
    pub priority: i32,
    /// True if the gang is surplus: more than its job needs. Surplus starts after all other gangs,
    /// delays and preempts none of them, and is the first to make room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub surplus: bool,
    /// The submission time. Among equal priorities the earlier submission goes first, then the
    /// smaller name.
    pub submitted: Time,
    /// The end of a back-off. The engine does not place the gang before this time.
    pub not_before: Option<Time>,
    /// Nodes on which the engine places none of its pods.
    pub excluded_nodes: Vec<NodeName>,
    /// The choice among the nodes with room.
    pub strategy: PlacementStrategy,
    /// How close to each other its pods must or should be. None: anywhere.
    pub topology: Option<TopologyRequest>,
    /// True if the gang may be a victim of preemption. If false, the gang is safe within its
    /// queue's own quota. It still gives back quota that the queue borrows.
    pub preemptible: bool,
    /// True if the gang may preempt other gangs because of its priority. If false, it preempts only
    /// surplus, and gangs that hold quota owed to its queue.
    #[serde(default = "preempts", skip_serializing_if = "preempts_as_most")]
    pub preempts: bool,
    /// True if the gang was a victim before. It then preempts no gang while it would borrow.
    pub preempted: bool,
    /// The time after its placement in which the gang cannot be a victim.
    pub min_runtime: Duration,
    /// The longest time that it stays placed, from its placement. The caller then ends it, not the
    /// engine. None: no limit.
    pub runtime: Option<Duration>,
    /// The predicted runtime, from earlier runs. The gang may exceed it. The engine then plans with
    /// the next larger prediction. None: unknown.
    pub predicted: Option<Duration>,
    /// True if nodes may be provisioned for it, as far as its queue allows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisions: bool,
    /// Flavors of which no nodes may be provisioned for it, each with the reason: a sentence that
    /// names the flavor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub denied_flavors: BTreeMap<FlavorName, String>,
    /// How long its pods may take to stop after the request to stop.
    pub grace: Duration,
    /// Limits outside its queue's quota. All of them must have room. The list may change while the
    /// gang is placed, and counts from then on.
    pub draws: Vec<LimitDraw>,
    /// Its task groups; their names are unique.
    pub groups: Vec<TaskGroup>,
}

/// The preference among the nodes with room.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum PlacementStrategy {
    /// Nodes where the gang takes least of the capacity that other gangs could use.
    #[default]
    Pack,
    /// As many nodes as possible, those with most free capacity first.
    Spread,
}

/// Identical pods of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskGroup {
    /// Its name.
    pub name: GroupName,
    /// The number of pods.
    pub count: u32,
    /// Resources that one pod requests. The engine adds 1 of `pods` for the pod itself.
    pub request: Resources,
    /// The device that packing compares first. Packing ignores it if the pod does not request it.
    /// None: the first device that the pod requests, if any.
    pub device: Option<ResourceName>,
    /// Flavors that it accepts, the best first. Empty: those of its queue, in its order.
    pub flavors: Vec<FlavorName>,
    /// Another task group of the gang. Both groups get the same flavor of each resource that both
    /// request. A group that names no flavors accepts those of the first group of its set that does.
    /// A set has all groups that this field joins. None: the group names no other group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_flavor_as: Option<GroupName>,
    /// Constraints on the node of each pod, besides resources.
    pub constraints: Constraints,
    /// How close to each other its pods must or should be, within the gang's own request.
    pub topology: Option<TopologyRequest>,
    /// True if the pods are also split as evenly as possible over the domains of the preferred level
    /// of `topology`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub balanced: bool,
    /// The slices of the group, coarse to fine: each layer has a finer level of the same topology
    /// than the layer before it, and its `pods` divide those of the layer before it. Empty: the
    /// group is not split.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceLayer>,
    /// True if the slices are a preference. If the slices of a layer do not all have room, the engine
    /// ignores this layer and all finer ones. If it ignores all layers, the pods are in as few domains
    /// of the first layer as possible.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefers_slices: bool,
    /// The task groups that make up a merged group, in the order of their pods. Their counts add up to
    /// `count`. Empty: the group is not merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<GroupPart>,
    /// The prefix of pod names: `<pod_prefix>-<number>`, in the gang's namespace. A merged group
    /// ignores it.
    pub pod_prefix: String,
    /// The numbers of the first pods of the blocks of the group. A block has consecutive numbers, and
    /// all blocks have the same size. Empty: one block, whose first number is 0. A merged group ignores
    /// it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<u32>,
}

/// Returns the value for snapshots that are older than the field.
const fn preempts() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn preempts_as_most(preempts: &bool) -> bool {
    *preempts
}

impl Gang {
    /// Returns a gang with these groups, priority 0 and no constraints, with the epoch as
    /// submission time.
    #[must_use]
    pub fn new(id: GangId, queue: QueueName, groups: Vec<TaskGroup>) -> Self {
        Self {
            id,
            queue,
            priority: 0,
            surplus: false,
            submitted: Time::default(),
            not_before: None,
            excluded_nodes: Vec::new(),
            strategy: PlacementStrategy::default(),
            topology: None,
            preemptible: true,
            preempts: true,
            preempted: false,
            min_runtime: Duration::ZERO,
            runtime: None,
            predicted: None,
            provisions: false,
            denied_flavors: BTreeMap::new(),
            grace: Duration::ZERO,
            draws: Vec::new(),
            groups,
        }
    }

    /// Returns the name of one pod of a group, by its index. The name depends only on gang, group
    /// and index, so it stays the same after a restart.
    #[must_use]
    pub fn pod_key(&self, group: &TaskGroup, index: u32) -> PodKey {
        let namespace = self.id.namespace();
        let (prefix, number) = group.pod_name(index);
        PodKey::new(format!("{namespace}/{prefix}-{number}"))
    }

    /// Returns the group that stands for a task group, and the indexes of the task group's pods in it.
    /// None: the gang has no such task group.
    #[must_use]
    pub fn member(&self, name: &GroupName) -> Option<(&TaskGroup, Range<u32>)> {
        self.groups.iter().find_map(|group| {
            let member = group.members().find(|member| member.name == name)?;
            Some((group, member.pods))
        })
    }

    /// Returns the name of one pod of a task group, by its index there, and the group that stands for
    /// it. None: the gang has no such pod.
    #[must_use]
    pub fn member_pod(&self, name: &GroupName, index: u32) -> Option<(&TaskGroup, PodKey)> {
        let (group, mut pods) = self.member(name)?;
        let at = pods.nth(usize::try_from(index).ok()?)?;
        Some((group, self.pod_key(group, at)))
    }

    /// Returns the names of all pods.
    pub fn pod_keys(&self) -> impl Iterator<Item = PodKey> {
        let groups = self.groups.iter();
        groups.flat_map(|group| (0..group.count).map(|index| self.pod_key(group, index)))
    }

    /// Returns the number of devices of all pods.
    #[must_use]
    pub fn device_count(&self) -> i64 {
        self.groups.iter().fold(0_i64, |sum, group| {
            let devices = group.request.iter().filter(|(name, _)| name.is_device());
            let of_pod = devices.fold(0_i64, |sum, (_, amount)| sum.saturating_add(amount));
            sum.saturating_add(of_pod.saturating_mul(i64::from(group.count)))
        })
    }

    /// Returns the number of pods of all groups.
    #[must_use]
    pub fn pod_count(&self) -> u64 {
        self.groups
            .iter()
            .fold(0, |sum, group| sum.saturating_add(u64::from(group.count)))
    }
}

impl TaskGroup {
    /// Returns a group of this many pods with this request and no constraints.
    #[must_use]
    pub fn new(name: GroupName, count: u32, request: Resources, pod_prefix: String) -> Self {
        Self {
            name,
            count,
            request,
            device: None,
            flavors: Vec::new(),
            constraints: Constraints::default(),
            topology: None,
            balanced: false,
            same_flavor_as: None,
            slices: Vec::new(),
            prefers_slices: false,
            parts: Vec::new(),
            pod_prefix,
            starts: Vec::new(),
        }
    }

    /// Returns the prefix and the number in the name of a pod, by its index in the group.
    #[must_use]
    pub fn pod_name(&self, index: u32) -> (&str, u32) {
        if self.parts.is_empty() {
            return (&self.pod_prefix, self.number_in_blocks(index));
        }
        let mut parts = self.members();
        let part = parts.find(|part| part.pods.contains(&index));
        part.map_or((&self.pod_prefix, index), |part| {
            (part.pod_prefix, index.saturating_sub(part.pods.start))
        })
    }

    fn number_in_blocks(&self, index: u32) -> u32 {
        let size = self.block_size();
        let block = index.checked_div(size).unwrap_or(0);
        let start = usize::try_from(block)
            .ok()
            .and_then(|block| self.starts.get(block));
        match start {
            Some(start) => start.saturating_add(index.checked_rem(size).unwrap_or(0)),
            None => index,
        }
    }

    /// Returns the index of the pod with this prefix and number in its name. None: the group has no
    /// such pod.
    #[must_use]
    pub fn pod_index(&self, prefix: &str, number: u32) -> Option<u32> {
        let mut member = self.members().find(|member| member.pod_prefix == prefix)?;
        if !self.parts.is_empty() || self.starts.is_empty() {
            return member.pods.nth(usize::try_from(number).ok()?);
        }
        let size = self.block_size();
        let within = |start: &u32| number.checked_sub(*start).filter(|at| *at < size);
        let block = self
            .starts
            .iter()
            .position(|start| within(start).is_some())?;
        let before = u32::try_from(block).ok()?.saturating_mul(size);
        Some(before.saturating_add(within(self.starts.get(block)?)?))
    }

    /// Returns the number of pods of each block.
    fn block_size(&self) -> u32 {
        let blocks = u32::try_from(self.starts.len().max(1)).unwrap_or(u32::MAX);
        self.count.checked_div(blocks).unwrap_or(0)
    }
}
