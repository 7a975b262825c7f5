//! Nodes in the order in which packing wants them, kept as they change.

use std::collections::BTreeSet;

use super::ledger::{Column, Ledger};
use super::{NodeIdx, ResourceIdx};

/// The whole of a node's cores, as a fraction.
const WHOLE: i64 = 1 << 16;

/// Nodes by what is free on them, tightest first: free devices, then free
/// fraction of the cores, then name.
#[derive(Debug, Default)]
pub(crate) struct PackingIndex {
    order: BTreeSet<Entry>,
    keys: Vec<Option<Key>>,
}

/// What a node is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Free devices. In the index for pods without devices: 0 for nodes without
    /// any, else 1 more than are free, so that such nodes come last.
    devices: u32,
    /// Free fraction of the cores.
    cores: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: Key,
    rank: u32,
    node: NodeIdx,
}

fn count(amount: i64) -> u32 {
    u32::try_from(amount.max(0)).unwrap_or(u32::MAX)
}

/// The part of `whole` that `part` is, rounded down.
pub(crate) fn fraction(part: i64, whole: i64) -> u32 {
    let scaled = i128::from(part.max(0)).saturating_mul(i128::from(WHOLE));
    let fraction = scaled.checked_div(i128::from(whole.max(0))).unwrap_or(0);
    u32::try_from(fraction).unwrap_or(u32::MAX)
}

/// What a node is ordered by: for pods with that device, or for pods without
/// any, where these are all there are. None: such pods cannot be there.
pub(crate) fn key(
    ledger: &Ledger,
    node: NodeIdx,
    device: Option<ResourceIdx>,
    cpu: Option<ResourceIdx>,
    devices: &[ResourceIdx],
) -> Option<Key> {
    let cores = cpu
        .and_then(|r| ledger.column(r))
        .map_or(0, |c| fraction(c.free(node), c.allocatable(node)));
    let has = |c: &&Column| c.allocatable(node) > 0;
    let devices = match device {
        Some(device) => count(ledger.column(device).filter(has)?.free(node)),
        None => devices
            .iter()
            .filter_map(|d| ledger.column(*d))
            .filter(has)
            .map(|c| count(c.free(node)))
            .reduce(u32::saturating_add)
            .map_or(0, |free| free.saturating_add(1)),
    };
    Some(Key { devices, cores })
}

impl PackingIndex {
    /// Puts a node where it belongs; takes it out where there is no key.
    pub(crate) fn place(&mut self, node: NodeIdx, rank: u32, key: Option<Key>) {
        if self.keys.len() <= node.at() {
            self.keys.resize(node.at().saturating_add(1), None);
        }
        let Some(slot) = self.keys.get_mut(node.at()) else {
            return;
        };
        if *slot == key {
            return;
        }
        if let Some(before) = std::mem::replace(slot, key) {
            self.order.remove(&Entry {
                key: before,
                rank,
                node,
            });
        }
        if let Some(key) = key {
            self.order.insert(Entry { key, rank, node });
        }
    }

    /// Forgets all nodes.
    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.keys.clear();
    }

    /// Nodes with at least so many devices and such a fraction of the cores
    /// free, tightest first. Skips the others without looking at each.
    pub(crate) fn walk(&self, devices: u32, cores: u32) -> impl Iterator<Item = NodeIdx> {
        let mut from = Some(Key { devices, cores });
        std::iter::from_fn(move || {
            loop {
                let start = Entry {
                    key: from?,
                    rank: 0,
                    node: NodeIdx::of(0),
                };
                let first = self.order.range(start..).next()?.key;
                if first.cores >= cores {
                    from = first
                        .devices
                        .checked_add(1)
                        .map(|devices| Key { devices, cores });
                    return Some(self.stretch(first));
                }
                from = Some(Key {
                    devices: first.devices,
                    cores,
                });
            }
        })
        .flatten()
    }

    /// Nodes from one key on, while they have as many devices.
    fn stretch(&self, from: Key) -> impl Iterator<Item = NodeIdx> {
        self.order
            .range(
                Entry {
                    key: from,
                    rank: 0,
                    node: NodeIdx::of(0),
                }..,
            )
            .take_while(move |entry| entry.key.devices == from.devices)
            .map(|entry| entry.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(nodes: &[(u32, u32)]) -> PackingIndex {
        let mut index = PackingIndex::default();
        for (at, (devices, cores)) in nodes.iter().enumerate() {
            let key = Key {
                devices: *devices,
                cores: *cores,
            };
            index.place(NodeIdx::of(at), u32::try_from(at).unwrap(), Some(key));
        }
        index
    }

    fn walk(index: &PackingIndex, devices: u32, cores: u32) -> Vec<usize> {
        index.walk(devices, cores).map(NodeIdx::at).collect()
    }

    #[test]
    fn tightest_first_and_what_is_too_small_is_skipped() {
        let index = index(&[(8, 50), (2, 10), (2, 40), (0, 90), (4, 5), (8, 50)]);
        assert_eq!(walk(&index, 0, 0), [3, 1, 2, 4, 0, 5]);
        assert_eq!(walk(&index, 1, 0), [1, 2, 4, 0, 5]);
        assert_eq!(walk(&index, 1, 20), [2, 0, 5]);
        assert_eq!(walk(&index, 9, 0), [0_usize; 0]);
    }

    #[test]
    fn a_node_moves_and_leaves() {
        let mut index = index(&[(8, 50), (4, 50)]);
        index.place(
            NodeIdx::of(0),
            0,
            Some(Key {
                devices: 1,
                cores: 50,
            }),
        );
        assert_eq!(walk(&index, 0, 0), [0, 1]);
        index.place(NodeIdx::of(1), 1, None);
        assert_eq!(walk(&index, 0, 0), [0]);
    }

    #[test]
    fn fractions_are_of_nothing_where_there_is_nothing() {
        assert_eq!(fraction(1, 2), 1 << 15);
        assert_eq!(fraction(-1, 2), 0);
        assert_eq!(fraction(1, 0), 0);
        assert_eq!(fraction(i64::MAX, i64::MAX), 1 << 16);
    }
}
