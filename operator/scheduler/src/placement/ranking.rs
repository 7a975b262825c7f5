//! Classes of nodes in the order in which packing prefers them for a demand.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::fragmentation::Fragmentation;
use super::free_slices::FreeSlices;
use crate::state::{
    Catalog, GroupShape, NodeClass, NodeIdx, NodeProfile, Nodes, PodDemand, PodNeeds,
    PreferenceTier, ResourceIdx, WHOLE_DEVICE, fraction,
};

/// Maximum number of entries of all rankings together, per class, plus a constant (5 MB, and half
/// as much again if they are also kept by class). This bounds their memory. The least recently used
/// ranking is dropped first.
const PLACES_PER_CLASS: usize = 2;
const BASE_PLACES: usize = 1 << 17;

/// The rank of a class, the most preferred first. Nodes of equal rank are ordered by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClassRank {
    /// The loss of devices that typical tasks can use, per pod: FGD.
    loss: i64,
    /// Best fit: free devices in thousandths. For pods without devices: 0 for nodes without
    /// devices, otherwise 1 more than the free devices, so that nodes with devices come last.
    pub(super) devices: i64,
    /// Then the free fraction of the cores: nodes in use come before empty ones.
    cores_fraction: u32,
    /// Then the free cores, in thousandths: among empty nodes the smaller comes first.
    pub(super) cores: i64,
}

impl ClassRank {
    /// Returns the opposite order: most free devices first, then most free cores.
    pub(super) fn to_most_free(self) -> MostFree {
        Reverse((self.devices, self.cores))
    }
}

/// Free devices, then free cores, both in thousandths, the most first.
pub(super) type MostFree = Reverse<(i64, i64)>;

/// A usable node: tier, rank of its class, position by name, node, and number of pods that fit.
pub(super) type NodeChoice<By> = (PreferenceTier, By, u32, NodeIdx, u32);

/// The rank of a node, and how many of the group's pods it holds.
pub(super) type NodeRank = (ClassRank, u32);

/// The classes that hold a pod, in order.
#[derive(Debug)]
struct DemandRanking {
    needs: PodNeeds,
    /// Classes from this number on have not been ranked yet.
    first_unranked: usize,
    places: BTreeSet<(ClassRank, usize)>,
    /// The ranks by class number, filled on first use.
    by_class: Option<FxHashMap<usize, NodeRank>>,
    used: u64,
}

type RankingKey = (Arc<Vec<(ResourceIdx, i64)>>, Option<ResourceIdx>, u32);

/// Rankings of recently placed demands.
#[derive(Debug, Default)]
pub(super) struct Rankings {
    by_demand: FxHashMap<RankingKey, DemandRanking>,
    /// Devices of a class that typical tasks can use, by class number.
    usable: Vec<Option<i64>>,
    /// The age of the classes that the numbers belong to.
    age: u64,
    clock: u64,
}

impl DemandRanking {
    fn look_up(&self, count: u32, nodes: &Nodes) -> FxHashMap<usize, NodeRank> {
        let wanted = |(order, number): &(ClassRank, usize)| {
            let profile = &nodes.classes().get(*number)?.profile;
            Some((*number, (*order, profile.count_fitting(&self.needs, count))))
        };
        self.places.iter().filter_map(wanted).collect()
    }
}

impl Rankings {
    /// Forgets all scores.
    pub(super) fn clear(&mut self) {
        self.by_demand.clear();
        self.usable.clear();
    }

    /// Brings the ranking of a group up to date, by ranking new classes only. With `by_class`, the
    /// caller can also look up the rank of a node. None if no node could ever hold a pod.
    pub(super) fn refresh<'a>(
        &'a mut self,
        group: &GroupShape,
        nodes: &'a Nodes,
        catalog: &Catalog,
        (fragmentation, free_slices): (&Fragmentation, &'a FreeSlices),
        by_class: bool,
    ) -> Option<CurrentRanking<'a>> {
        if self.age != nodes.classes().age() {
            self.clear();
            self.age = nodes.classes().age();
        }
        self.clock = self.clock.saturating_add(1);
        let key = (Arc::clone(&group.demand), group.device, group.count);
        if !self.by_demand.contains_key(&key) {
            // Resources that no node has get new numbers when their last pod is gone, so cached
            // rankings must not name them.
            let demand: &PodDemand = &group.demand;
            if demand.iter().any(|(r, _)| nodes.column(*r).is_none()) {
                return None;
            }
            self.drop_least_used(nodes.classes().len());
            let ranking = DemandRanking {
                needs: nodes.needs(demand)?,
                first_unranked: 0,
                places: BTreeSet::new(),
                by_class: None,
                used: 0,
            };
            self.by_demand.insert(key.clone(), ranking);
        }
        let ranking = self.by_demand.get_mut(&key)?;
        ranking.used = self.clock;
        self.usable.resize(nodes.classes().len(), None);
        if by_class && ranking.by_class.is_none() {
            ranking.by_class = Some(ranking.look_up(group.count, nodes));
        }
        for (number, class) in nodes.classes().starting_at(ranking.first_unranked) {
            let profile = &class.profile;
            let pods = profile.count_fitting(&ranking.needs, group.count);
            if pods == 0 {
                continue;
            }
            let slot = self.usable.get_mut(number)?;
            let before = *slot.get_or_insert_with(|| fragmentation.usable_devices(profile));
            let after = fragmentation.usable_devices(&profile.with_pods(&ranking.needs, pods));
            let order = ClassRank {
                loss: loss_per_pod(before.saturating_sub(after), pods),
                devices: free_devices(profile, group.device, nodes),
                cores_fraction: fraction(profile.free(catalog.cpu()), profile.cores()),
                cores: profile.free(catalog.cpu()),
            };
            ranking.places.insert((order, number));
            if let Some(by_class) = &mut ranking.by_class {
                by_class.insert(number, (order, pods));
            }
        }
        ranking.first_unranked = nodes.classes().len();
        Some(CurrentRanking {
            ranking,
            nodes,
            free_slices,
        })
    }

    /// Drops the least recently used rankings.
    fn drop_least_used(&mut self, classes: usize) {
        let most = classes
            .saturating_mul(PLACES_PER_CLASS)
            .saturating_add(BASE_PLACES);
        loop {
            let places = self.by_demand.values().map(|r| r.places.len());
            if places.fold(self.by_demand.len(), usize::saturating_add) <= most {
                return;
            }
            let oldest = self.by_demand.iter().min_by_key(|(_, r)| r.used);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.by_demand.remove(&key);
        }
    }
}

/// Returns the loss per pod, in parts of 2^16.
pub(super) fn loss_per_pod(loss: i64, pods: u32) -> i64 {
    let fine = i128::from(loss).saturating_mul(1 << 16);
    let share = fine.checked_div(i128::from(pods)).unwrap_or(fine);
    i64::try_from(share).unwrap_or(i64::MAX)
}

/// Returns the free devices as [`ClassRank`] counts them.
fn free_devices(profile: &NodeProfile, device: Option<ResourceIdx>, nodes: &Nodes) -> i64 {
    let free = |device: ResourceIdx| {
        let device = nodes.shared_device(device).unwrap_or(device);
        let whole = profile.free(device).saturating_mul(WHOLE_DEVICE);
        profile.shared_free(device).fold(whole, i64::saturating_add)
    };
    match device {
        Some(device) => free(device),
        None if profile.has_devices() => {
            let all = nodes.devices().iter().map(|d| free(*d));
            all.fold(1, i64::saturating_add)
        }
        None => 0,
    }
}

/// A ranking that is up to date.
pub(super) struct CurrentRanking<'a> {
    ranking: &'a DemandRanking,
    nodes: &'a Nodes,
    free_slices: &'a FreeSlices,
}

impl<'a> CurrentRanking<'a> {
    /// Returns the ranked nodes.
    pub(super) fn nodes(&self) -> &'a Nodes {
        self.nodes
    }

    /// Returns the free slices that gangs of the history need.
    pub(super) fn free_slices(&self) -> &'a FreeSlices {
        self.free_slices
    }

    /// Returns the classes that hold a pod and have members, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClassRank, &'a NodeClass)> + use<'a> {
        let nodes = self.nodes;
        let places = self.ranking.places.iter();
        places
            .filter_map(move |(order, number)| Some((*order, nodes.classes().get(*number)?)))
            .filter(|(_, class)| !class.members.is_empty())
    }

    /// False if all nodes together hold fewer pods, before any exclusions.
    pub(super) fn may_hold(&self, count: u32) -> bool {
        let mut left = u64::from(count);
        let mut classes = self.iter();
        left == 0
            || classes.any(|(_, class)| {
                let members = u64::try_from(class.members.len()).unwrap_or(u64::MAX);
                let pods = u64::from(self.fits(class, count)).saturating_mul(members);
                left = left.saturating_sub(pods);
                left == 0
            })
    }

    /// Returns a function that returns the rank of a node, or None if the node holds no pod. The
    /// ranking must be by class.
    pub(super) fn rank_lookup(&self) -> impl FnMut(NodeIdx) -> Option<NodeRank> + use<'a> {
        let (nodes, ranking) = (self.nodes, self.ranking);
        // Neighbouring nodes are usually of one class.
        let mut last: Option<(usize, Option<NodeRank>)> = None;
        move |node| {
            let class = nodes.classes().class_of(node)?;
            match last {
                Some((before, wanted)) if before == class => wanted,
                _ => {
                    let wanted = ranking.by_class.as_ref()?.get(&class).copied();
                    last = Some((class, wanted));
                    wanted
                }
            }
        }
    }

    /// Returns the position of a node by name.
    pub(super) fn position_by_name(&self, node: NodeIdx) -> u32 {
        self.nodes.position_by_name(node)
    }

    /// Returns how many pods a node of the class holds, at most `most`.
    pub(super) fn fits(&self, class: &NodeClass, most: u32) -> u32 {
        self.count_fitting(&class.profile, most)
    }

    /// Returns how many pods a node with this profile holds, at most `most`.
    pub(super) fn count_fitting(&self, profile: &NodeProfile, most: u32) -> u32 {
        profile.count_fitting(&self.ranking.needs, most)
    }

    /// Returns the profile with pods of the group on it, all of which must fit.
    pub(super) fn profile_with_pods(&self, profile: &NodeProfile, pods: u32) -> NodeProfile {
        profile.with_pods(&self.ranking.needs, pods)
    }
}
