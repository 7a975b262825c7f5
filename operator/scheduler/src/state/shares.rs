//! Shared devices: the thousandths of each device that are in use. Only traces and simulation
//! request shares, so the state stores nothing for nodes without any.

use std::collections::BTreeMap;

use super::profile::WHOLE_DEVICE;
use super::{NodeIdx, ResourceIdx};

/// The shares that pods have of one device, in thousandths.
type DeviceShares = Vec<i64>;

/// The shared devices of all nodes.
#[derive(Debug, Default)]
pub(crate) struct SharedDevices {
    /// The resource whose unit is a thousandth, and the device.
    kinds: Vec<(ResourceIdx, ResourceIdx)>,
    open: BTreeMap<(NodeIdx, ResourceIdx), Vec<DeviceShares>>,
}

fn free_part(device: &DeviceShares) -> i64 {
    let used = device.iter().fold(0_i64, |sum, s| sum.saturating_add(*s));
    WHOLE_DEVICE.saturating_sub(used)
}

impl SharedDevices {
    /// Returns the number of known kinds of shares.
    pub(crate) fn kind_count(&self) -> usize {
        self.kinds.len()
    }

    /// Makes `share` count thousandths of a device.
    pub(crate) fn add_kind(&mut self, share: ResourceIdx, device: ResourceIdx) {
        self.kinds.push((share, device));
    }

    /// Returns every kind: the resource that counts thousandths, and the device.
    pub(crate) fn share_kinds(&self) -> Vec<(ResourceIdx, ResourceIdx)> {
        self.kinds.clone()
    }

    /// Returns the device that a resource is a share of.
    pub(crate) fn device_of(&self, share: ResourceIdx) -> Option<ResourceIdx> {
        let found = self.kinds.iter().find(|(s, _)| *s == share);
        found.map(|(_, device)| *device)
    }

    /// Returns the resource that counts thousandths of a device.
    pub(crate) fn share_of(&self, device: ResourceIdx) -> Option<ResourceIdx> {
        let found = self.kinds.iter().find(|(_, d)| *d == device);
        found.map(|(share, _)| *share)
    }

    /// Returns the free part of each shared device of a node.
    pub(crate) fn open(&self, node: NodeIdx) -> impl Iterator<Item = (ResourceIdx, i64)> {
        let kinds = self.kinds.iter().map(|(_, device)| *device);
        kinds.flat_map(move |device| {
            let open = self.open.get(&(node, device)).into_iter().flatten();
            open.map(move |shares| (device, free_part(shares)))
        })
    }

    /// Takes a share of the shared device that fits tightest. Returns true if it has to start
    /// sharing a free device.
    pub(crate) fn charge(&mut self, node: NodeIdx, device: ResourceIdx, share: i64) -> bool {
        let open = self.open.entry((node, device)).or_default();
        let fits = open.iter_mut().filter(|d| free_part(d) >= share);
        if let Some(tightest) = fits.min_by_key(|d| free_part(d)) {
            tightest.push(share);
            return false;
        }
        open.push(vec![share]);
        true
    }

    /// Gives a share back. Kubernetes does not report which pod has which device. So pods with
    /// equal shares are interchangeable here, and this function removes the share on the least used
    /// device. Returns true if the device becomes free. To undo tentative changes, use
    /// [`SharedDevices::restore`] instead.
    pub(crate) fn release(&mut self, node: NodeIdx, device: ResourceIdx, share: i64) -> bool {
        let Some(open) = self.open.get_mut(&(node, device)) else {
            return false;
        };
        let has = open.iter().enumerate().filter(|(_, d)| d.contains(&share));
        let Some((at, _)) = has.max_by_key(|(_, d)| free_part(d)) else {
            return false;
        };
        let Some(shares) = open.get_mut(at) else {
            return false;
        };
        if let Some(place) = shares.iter().rposition(|s| *s == share) {
            shares.remove(place);
        }
        let free = shares.is_empty();
        if free {
            open.remove(at);
        }
        if open.is_empty() {
            self.open.remove(&(node, device));
        }
        free
    }

    /// Returns the current shared devices of a node, for [`SharedDevices::restore`]. None if it has
    /// none.
    pub(crate) fn save(&self, node: NodeIdx, device: ResourceIdx) -> Option<Vec<Vec<i64>>> {
        self.open.get(&(node, device)).cloned()
    }

    /// Restores saved devices. Returns how many more devices are free than before.
    pub(crate) fn restore(
        &mut self,
        node: NodeIdx,
        device: ResourceIdx,
        saved: Option<Vec<Vec<i64>>>,
    ) -> i64 {
        let count = |d: &Vec<Vec<i64>>| i64::try_from(d.len()).unwrap_or(i64::MAX);
        let after = saved.as_ref().map_or(0, count);
        let before = match saved {
            Some(devices) => self.open.insert((node, device), devices),
            None => self.open.remove(&(node, device)),
        };
        before.as_ref().map_or(0, count).saturating_sub(after)
    }
}
