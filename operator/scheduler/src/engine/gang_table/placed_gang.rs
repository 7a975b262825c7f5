//! A placed gang.

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use crate::gang::Gang;
use crate::placement::{NodeCharge, Placement, PodRuns};
use crate::preemption::lost_work::Stake;
use crate::queue::GroupFlavors;
use crate::queueing::FlavorChoice;
use crate::quota::Demand;
use crate::state::{Catalog, DemandIdx, GangShape, KnownPods, NodeIdx, Nodes};
use crate::time::Time;

/// A gang as it was placed, with its placement and its assumed pods. An assumed pod is charged to
/// its planned node, because the engine has not seen the pod yet.
#[derive(Debug)]
pub(crate) struct PlacedGang {
    pub(crate) gang: Arc<Gang>,
    pub(crate) shape: Arc<GangShape>,
    /// The flavors that hold its charge, by task group; empty if its queue offers none.
    pub(crate) choices: Vec<FlavorChoice>,
    /// When it was placed.
    pub(crate) since: Time,
    /// Only the table changes the state, because its indexes follow from the states.
    pub(super) state: PlacedState,
    /// The time of its last reported checkpoint.
    pub(crate) checkpoint: Option<Time>,
    /// The gang cannot be a victim before this time, even after its minimum runtime.
    pub(crate) protected_until: Option<Time>,
    /// The placed groups, in the order of the gang's groups.
    pub(crate) groups: Vec<PlacedGroup>,
}

/// The state of a placed gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlacedState {
    /// Its pods exist or are being created.
    #[default]
    Settled,
    /// Its place is reserved, and its pods are created once its nodes and quota are free.
    Nominated,
    /// It is leaving. Until its pods are gone, it holds its nodes and its former charge `charged`.
    /// Other gangs already plan with both.
    Leaving { charged: Demand, since: Time },
}

impl PlacedState {
    pub(crate) fn is_nominated(&self) -> bool {
        *self == Self::Nominated
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving_charge().is_some()
    }

    /// Returns the former charge of a leaving gang, and when it began to leave.
    pub(crate) fn leaving_charge(&self) -> Option<(&Demand, Time)> {
        match self {
            Self::Leaving { charged, since } => Some((charged, *since)),
            Self::Settled | Self::Nominated => None,
        }
    }
}

/// Usage of a node by equal pods of a gang.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeUsage {
    pub(crate) node: NodeIdx,
    pub(crate) demand: DemandIdx,
    pub(crate) pods: u32,
}

impl NodeUsage {
    /// Returns the charge of these pods.
    pub(crate) fn to_charge(self, catalog: &Catalog) -> NodeCharge {
        NodeCharge {
            node: self.node,
            demand: catalog.demand(self.demand),
            pods: self.pods,
            in_placed_gang: true,
        }
    }
}

/// One task group of a placed gang.
#[derive(Debug, Default)]
pub(crate) struct PlacedGroup {
    runs: PodRuns,
    /// For each run, the index after its last pod.
    ends: Vec<u32>,
    assumed: FixedBitSet,
    /// Pods that do not have their planned demand on their planned node.
    misplaced: FixedBitSet,
}

impl PlacedGroup {
    /// Creates a group whose pods are all assumed.
    pub(crate) fn new(runs: PodRuns) -> Self {
        let mut end = 0_u32;
        let ends: Vec<u32> = runs
            .iter()
            .map(|(_, pods)| {
                end = end.saturating_add(*pods);
                end
            })
            .collect();
        let mut assumed = FixedBitSet::with_capacity(end as usize);
        assumed.insert_range(..);
        Self {
            runs,
            ends,
            assumed,
            misplaced: FixedBitSet::new(),
        }
    }

    /// Returns the nodes with the number of pods on each, in the order of pod indexes.
    pub(crate) fn runs(&self) -> &PodRuns {
        &self.runs
    }

    /// Returns the number of pods that have a node.
    pub(crate) fn count(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the node of one pod.
    pub(crate) fn node(&self, index: u32) -> Option<NodeIdx> {
        let run = self.ends.partition_point(|end| *end <= index);
        self.runs.get(run).map(|(node, _)| *node)
    }

    pub(crate) fn is_assumed(&self, index: u32) -> bool {
        self.assumed.contains(index as usize)
    }

    /// Assumes the pod again. Returns its node.
    pub(crate) fn assume(&mut self, index: u32) -> Option<NodeIdx> {
        let node = self.node(index)?;
        self.assumed.set(index as usize, true);
        self.set_in_place(index, true);
        Some(node)
    }

    /// Ends the assumption of a pod. Returns true if it was assumed.
    pub(crate) fn confirm(&mut self, index: u32) -> bool {
        let was = self.is_assumed(index);
        if was {
            self.assumed.set(index as usize, false);
        }
        was
    }

    /// Returns the indexes of the misplaced pods.
    pub(crate) fn misplaced(&self) -> impl Iterator<Item = u32> {
        self.misplaced
            .ones()
            .filter_map(|at| u32::try_from(at).ok())
    }

    /// Returns the indexes of the pods that are not assumed.
    pub(crate) fn confirmed(&self) -> impl Iterator<Item = u32> {
        (0..self.count()).filter(|index| !self.is_assumed(*index))
    }

    /// Records if the pod has its planned demand on its planned node.
    pub(crate) fn set_in_place(&mut self, index: u32, there: bool) {
        if there != self.misplaced.contains(index as usize) {
            return;
        }
        self.misplaced.grow(self.count() as usize);
        if index < self.count() {
            self.misplaced.set(index as usize, !there);
        }
    }

    /// Returns the nodes with the number of pods on each that are as planned.
    pub(crate) fn pods_in_place(&self) -> impl Iterator<Item = (NodeIdx, u32)> {
        let mut from = 0_u32;
        let runs = self.runs.iter().zip(&self.ends);
        let there = runs.map(move |((node, pods), end)| {
            let last = self.misplaced.len().min(*end as usize);
            let gone = self.misplaced.count_ones(last.min(from as usize)..last);
            from = *end;
            let gone = u32::try_from(gone).unwrap_or(u32::MAX);
            (*node, pods.saturating_sub(gone))
        });
        there.filter(|(_, pods)| *pods > 0)
    }

    /// Returns the nodes with the number of assumed pods on each.
    pub(crate) fn assumed_runs(&self) -> PodRuns {
        let mut from = 0_u32;
        self.runs
            .iter()
            .zip(&self.ends)
            .map(|((node, _), end)| {
                let here = self.assumed.count_ones(from as usize..*end as usize);
                from = *end;
                (*node, u32::try_from(here).unwrap_or(u32::MAX))
            })
            .filter(|(_, pods)| *pods > 0)
            .collect()
    }
}

/// Returns the placement with names instead of numbers.
pub(crate) fn placement<'r>(
    nodes: &Nodes,
    gang: &Gang,
    groups: impl Iterator<Item = &'r PodRuns>,
) -> Placement {
    gang.groups
        .iter()
        .zip(groups)
        .flat_map(|(group, runs)| group.split_runs(runs))
        .map(|(group, runs)| {
            let runs = runs.into_iter();
            let named = runs.map(|(node, pods)| (nodes.name(node).clone(), pods));
            (group.clone(), named.collect())
        })
        .collect()
}

/// Returns the flavors of each task group.
pub(crate) fn group_flavors(gang: &Gang, choices: &[FlavorChoice]) -> Vec<GroupFlavors> {
    let groups = gang.groups.iter().enumerate();
    groups
        .flat_map(|(number, group)| group.members().map(move |member| (number, member)))
        .map(|(number, member)| GroupFlavors {
            group: member.name.clone(),
            flavors: choices.get(number).cloned().unwrap_or_default(),
        })
        .collect()
}

/// Returns the choice of each group of a gang from the flavors of task groups. The flavors of groups
/// that are not given are unknown.
pub(crate) fn choices_from_flavors(gang: &Gang, flavors: &[GroupFlavors]) -> Vec<FlavorChoice> {
    let groups = gang.groups.iter();
    let choices = groups.map(|group| {
        let given = flavors.iter().find(|given| group.stands_for(&given.group));
        given.map(|given| given.flavors.clone()).unwrap_or_default()
    });
    choices.collect()
}

impl PlacedGang {
    /// Creates a settled gang whose pods are all assumed. `groups` are the nodes of each group.
    pub(crate) fn new(
        gang: Arc<Gang>,
        shape: Arc<GangShape>,
        choices: Vec<FlavorChoice>,
        groups: Vec<PodRuns>,
        since: Time,
    ) -> Self {
        Self {
            gang,
            shape,
            choices,
            since,
            state: PlacedState::Settled,
            checkpoint: None,
            protected_until: None,
            groups: groups.into_iter().map(PlacedGroup::new).collect(),
        }
    }

    pub(crate) fn state(&self) -> &PlacedState {
        &self.state
    }

    /// Returns the placement of the gang.
    pub(crate) fn placement(&self, nodes: &Nodes) -> Placement {
        placement(nodes, &self.gang, self.groups.iter().map(PlacedGroup::runs))
    }

    /// Returns the loss if the gang became a victim.
    pub(crate) fn stake(&self) -> Stake {
        let devices = self.shape.groups.iter().map(|group| {
            let each = group.device.map_or(1, |device| group.need(device).max(1));
            u64::try_from(each)
                .unwrap_or(0)
                .saturating_mul(u64::from(group.count))
        });
        Stake {
            devices: devices.fold(0, u64::saturating_add),
            since: self.since,
            checkpoint: self.checkpoint,
        }
    }

    /// True if some pods do not have their planned demand on their planned node.
    pub(crate) fn has_misplaced_pods(&self) -> bool {
        self.groups
            .iter()
            .any(|group| group.misplaced().next().is_some())
    }

    /// Returns the usage by its pods, on planned and other nodes.
    pub(crate) fn node_usages(&self, pods: &KnownPods) -> SmallVec<[NodeUsage; 1]> {
        let mut parts = SmallVec::new();
        for (shape, group) in self.shape.groups.iter().zip(&self.groups) {
            parts.extend(group.pods_in_place().map(|(node, pods)| NodeUsage {
                node,
                demand: shape.demand_idx,
                pods,
            }));
        }
        for (group, planned) in self.gang.groups.iter().zip(&self.groups) {
            let gone = planned
                .misplaced()
                .map(|index| self.gang.pod_key(group, index));
            let elsewhere = gone.filter_map(|pod| pods.get(&pod));
            parts.extend(
                elsewhere
                    .filter(|seen| seen.in_placed_gang)
                    .map(|seen| NodeUsage {
                        node: seen.node,
                        demand: seen.demand,
                        pods: 1,
                    }),
            );
        }
        parts
    }
}
