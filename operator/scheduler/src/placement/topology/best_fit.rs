//! Best fit among domains: the least free capacity first, so that whole domains
//! stay free for gangs that need them.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::ops::Range;

use smallvec::SmallVec;

use super::super::ranking::ClassRank;
use crate::state::{
    Catalog, ConstraintSignature, GroupShape, Layout, NodeIdx, Nodes, PreferenceTier,
    ResourceColumn, ResourceIdx, WHOLE_DEVICE,
};

/// Free capacity, the least first: devices in thousandths, then cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FreeCapacity {
    devices: i64,
    cores: i64,
}

impl FreeCapacity {
    /// Returns the free capacity of a node whose class has this rank for a group. It is the same as
    /// [`FreeLookup::get`] for that group alone.
    pub(super) fn from_class_rank(order: ClassRank) -> Self {
        Self {
            devices: order.devices,
            cores: order.cores,
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            devices: self.devices.saturating_add(other.devices),
            cores: self.cores.saturating_add(other.cores),
        }
    }
}

/// A device that counts towards free capacity.
struct CountedDevice<'a> {
    resource: ResourceIdx,
    column: &'a ResourceColumn,
    /// True if pods may have shares of it.
    is_shared: bool,
}

/// Looks up the free capacity of nodes.
pub(super) struct FreeLookup<'a> {
    nodes: &'a Nodes,
    devices: SmallVec<[CountedDevice<'a>; 2]>,
    cores: Option<&'a ResourceColumn>,
    /// True if the pods use no devices. Every node with devices then counts one thousandth more
    /// than its free devices, so that nodes without devices come first.
    avoids_devices: bool,
}

impl<'a> FreeLookup<'a> {
    /// Counts the devices that these groups use, or all devices if the groups use none.
    pub(super) fn new<'g>(
        nodes: &'a Nodes,
        catalog: &Catalog,
        groups: impl Iterator<Item = &'g GroupShape>,
    ) -> Self {
        let used = groups.filter(|group| group.count > 0);
        let used = used.filter_map(|group| group.device);
        let mut kinds: SmallVec<[ResourceIdx; 2]> = used
            .map(|device| nodes.shared_device(device).unwrap_or(device))
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        let avoids_devices = kinds.is_empty();
        if avoids_devices {
            kinds.extend(nodes.devices().iter().copied());
        }
        let columns = kinds.into_iter();
        Self {
            nodes,
            devices: columns
                .filter_map(|resource| {
                    Some(CountedDevice {
                        resource,
                        column: nodes.column(resource)?,
                        is_shared: nodes.is_shared(resource),
                    })
                })
                .collect(),
            cores: nodes.column(catalog.cpu()),
            avoids_devices,
        }
    }

    pub(super) fn get(&self, node: NodeIdx) -> FreeCapacity {
        let mut devices = 0_i64;
        let mut has_devices = false;
        for device in &self.devices {
            has_devices |= self.avoids_devices && device.column.allocatable(node) > 0;
            let whole = device.column.free(node).max(0).saturating_mul(WHOLE_DEVICE);
            devices = devices.saturating_add(whole);
            if device.is_shared {
                let open = self.nodes.shared_devices(node);
                let open = open.filter(|(shared, _)| *shared == device.resource);
                let left = open.map(|(_, left)| left);
                devices = left.fold(devices, i64::saturating_add);
            }
        }
        FreeCapacity {
            devices: devices.saturating_add(i64::from(has_devices)),
            cores: self.cores.map_or(0, |cores| cores.free(node).max(0)),
        }
    }
}

/// The distance of pods from the nodes that they prefer, the smallest first: by discouraging
/// taints, then by the weights of the preferences that the nodes meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PreferenceDistance {
    discouraging: u128,
    preference: Reverse<i128>,
}

impl PreferenceDistance {
    /// Sums up `count` pods that fill the preferred nodes first; `seats` are nodes with the number
    /// of pods that each holds.
    pub(super) fn for_pods(
        signature: &ConstraintSignature,
        count: u64,
        seats: impl Iterator<Item = (NodeIdx, u32)>,
    ) -> Self {
        let mut sum = Self::default();
        if !signature.has_tiers() {
            return sum;
        }
        let mut tiers: Vec<(PreferenceTier, u32)> = seats
            .map(|(node, pods)| (signature.tier(node), pods))
            .collect();
        tiers.sort_unstable();
        let mut left = count;
        for (tier, pods) in tiers {
            let pods = u64::from(pods).min(left);
            left = left.saturating_sub(pods);
            let (discouraging, preference) = tier.times(pods);
            sum = sum.plus(Self {
                discouraging,
                preference: Reverse(preference),
            });
        }
        sum
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let Self {
            discouraging,
            preference: Reverse(preference),
        } = other;
        Self {
            discouraging: self.discouraging.saturating_add(discouraging),
            preference: Reverse(self.preference.0.saturating_add(preference)),
        }
    }
}

/// Nodes of a topology by their places in its row, with the free capacity of each node that the
/// pods may use.
pub(super) struct TopologyRow<'r, P, F> {
    pub(super) layout: &'r Layout,
    pub(super) len: usize,
    /// The place of a node in the row of the topology.
    pub(super) position: P,
    pub(super) free_capacity: F,
    /// True if the pods prefer some nodes to others.
    pub(super) has_tiers: bool,
}

impl<P: Fn(usize) -> u32, F: Fn(usize) -> FreeCapacity> TopologyRow<'_, P, F> {
    /// Sorts domains of a level, best fit first. The order is by free capacity, then by the nodes
    /// that the pods prefer, then by the free capacity of the domains one level up and so on, then
    /// by name. `stretch` returns the nodes of the row that are in a domain. `domains` must be in
    /// the order of the row.
    pub(super) fn sorted<T>(
        &self,
        depth: usize,
        domains: Vec<T>,
        stretch: impl Fn(&T) -> Range<usize>,
        distance: impl Fn(&T) -> PreferenceDistance,
    ) -> Vec<T> {
        if domains.len() < 2 {
            return domains;
        }
        let with_free = |domain: T| {
            let free = stretch(&domain).map(&self.free_capacity);
            (
                free.fold(FreeCapacity::default(), FreeCapacity::plus),
                domain,
            )
        };
        let mut domains: Vec<(FreeCapacity, T)> = domains.into_iter().map(with_free).collect();
        // Both sorts are stable: equal domains stay in the order of their names.
        domains.sort_by_key(|(free, _)| *free);
        let above = OnceCell::new();
        for equal in domains.chunk_by_mut(|(a, _), (b, _)| a == b) {
            let (Some((_, first)), Some((_, last))) = (equal.first(), equal.last()) else {
                continue;
            };
            let parent = |domain: &T| {
                let place = (self.position)(stretch(domain).start);
                self.layout.domain_at(depth.checked_sub(1)?, place)
            };
            // The domains are in the order of the row, so all domains between the first and the
            // last have the same parent.
            let is_one_parent = parent(first) == parent(last);
            if equal.len() < 2 || is_one_parent && !self.has_tiers {
                continue;
            }
            let above = above.get_or_init(|| self.levels_above(depth));
            equal.sort_by_cached_key(|(_, domain)| {
                let place = (self.position)(stretch(domain).start);
                let above = above.iter().enumerate().rev().map(|(depth, free)| {
                    let domain = self.layout.domain_at(depth, place);
                    domain.and_then(|at| free.get(at as usize)).copied()
                });
                let above: SmallVec<[Option<FreeCapacity>; 2]> = above.collect();
                (distance(domain), above)
            });
        }
        domains.into_iter().map(|(_, domain)| domain).collect()
    }

    /// Returns the free capacity of each domain of each coarser level.
    fn levels_above(&self, depth: usize) -> Vec<Vec<FreeCapacity>> {
        let level = |depth: usize| {
            let mut free = vec![FreeCapacity::default(); self.layout.domain_count(depth)];
            for at in 0..self.len {
                let domain = self.layout.domain_at(depth, (self.position)(at));
                if let Some(sum) = domain.and_then(|domain| free.get_mut(domain as usize)) {
                    *sum = sum.plus((self.free_capacity)(at));
                }
            }
            free
        };
        (0..depth).map(level).collect()
    }
}
