//! The free capacity of a node as a value. Nodes with equal profiles suit every pod equally well.

use smallvec::SmallVec;

use super::{NodeIdx, ResourceIdx};

/// A whole device, in thousandths.
pub(crate) const WHOLE_DEVICE: i64 = 1_000;

/// Returns `part` as a fraction of `whole`, in parts of 2^16, rounded down.
pub(crate) fn fraction(part: i64, whole: i64) -> u32 {
    let scaled = i128::from(part.max(0)).saturating_mul(1 << 16);
    let fraction = scaled.checked_div(i128::from(whole.max(0))).unwrap_or(0);
    u32::try_from(fraction).unwrap_or(u32::MAX)
}

/// The demand of one pod, without constraints.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodNeeds {
    /// Counts and base units, none of them 0.
    pub(crate) amounts: SmallVec<[(ResourceIdx, i64); 6]>,
    /// A share of one device: the device, and 1 to 1000 thousandths.
    pub(crate) share: Option<(ResourceIdx, i64)>,
}

/// The free capacity of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeProfile {
    /// Free amounts by index of the resource. For devices: the number that no pod has a share of.
    free: SmallVec<[i64; 8]>,
    /// The free part of shared devices, in thousandths, the smallest first.
    shared_devices: SmallVec<[(ResourceIdx, i64); 0]>,
    /// All cores of the node, in thousandths.
    cores: i64,
    /// True if the node has devices, free or not.
    devices: bool,
    /// The signatures of typical tasks that the node meets, one bit each.
    pub(crate) met_signatures: u128,
}

impl NodeProfile {
    pub(crate) fn new(cores: i64, devices: bool) -> Self {
        Self {
            cores,
            devices,
            ..Self::default()
        }
    }

    /// Sets the free amount of a resource.
    pub(crate) fn set(&mut self, resource: ResourceIdx, free: i64) {
        if self.free.len() <= resource.at() {
            self.free.resize(resource.at().saturating_add(1), 0);
        }
        if let Some(slot) = self.free.get_mut(resource.at()) {
            *slot = free.max(0);
        }
    }

    /// Adds a device that is shared.
    pub(crate) fn add_shared_device(&mut self, device: ResourceIdx, left: i64) {
        self.shared_devices.push((device, left));
        self.shared_devices.sort_unstable();
    }

    /// Returns the free amount of a resource.
    pub(crate) fn free(&self, resource: ResourceIdx) -> i64 {
        self.free.get(resource.at()).copied().unwrap_or(0)
    }

    /// Returns the free part of each shared device of a kind, the smallest first.
    pub(crate) fn shared_free(&self, device: ResourceIdx) -> impl Iterator<Item = i64> {
        let of = move |open: &&(ResourceIdx, i64)| open.0 == device;
        self.shared_devices.iter().filter(of).map(|(_, left)| *left)
    }

    /// Returns all cores of the node.
    pub(crate) fn cores(&self) -> i64 {
        self.cores
    }

    pub(crate) fn has_devices(&self) -> bool {
        self.devices
    }

    /// True if one pod fits.
    pub(crate) fn fits_pod(&self, needs: &PodNeeds) -> bool {
        needs.amounts.iter().all(|(r, need)| self.free(*r) >= *need)
            && needs.share.is_none_or(|(device, share)| {
                self.free(device) > 0 || self.shared_free(device).any(|left| left >= share)
            })
    }

    /// Returns how many pods fit, at most `most`.
    pub(crate) fn count_fitting(&self, needs: &PodNeeds, most: u32) -> u32 {
        let mut pods = i64::from(most);
        for (resource, need) in &needs.amounts {
            let free = self.free(*resource);
            if need.checked_mul(pods).is_none_or(|needs| needs > free) {
                pods = free.checked_div(*need).unwrap_or(0);
            }
        }
        if let Some((device, share)) = needs.share {
            let places = |left: i64| left.checked_div(share).unwrap_or(0);
            let whole = self.free(device).saturating_mul(places(WHOLE_DEVICE));
            let open = self.shared_free(device).map(places);
            pods = pods.min(open.fold(whole, i64::saturating_add));
        }
        u32::try_from(pods).unwrap_or(0)
    }

    /// Returns the profile with `pods` pods on it, all of which must fit.
    pub(crate) fn with_pods(&self, needs: &PodNeeds, pods: u32) -> Self {
        let mut after = self.clone();
        for (resource, need) in &needs.amounts {
            let used = need.saturating_mul(i64::from(pods));
            after.set(*resource, self.free(*resource).saturating_sub(used));
        }
        if let Some((device, share)) = needs.share {
            for _ in 0..pods {
                after.charge_share(device, share);
            }
        }
        after
    }

    /// Charges a share to the device that fits tightest, as [`super::shares`] does.
    fn charge_share(&mut self, device: ResourceIdx, share: i64) {
        let fits = |(d, left): &&mut (ResourceIdx, i64)| *d == device && *left >= share;
        if let Some((_, left)) = self.shared_devices.iter_mut().find(fits) {
            *left = left.saturating_sub(share);
        } else {
            self.set(device, self.free(device).saturating_sub(1));
            self.shared_devices
                .push((device, WHOLE_DEVICE.saturating_sub(share)));
        }
        self.shared_devices.sort_unstable();
    }
}

/// Nodes with equal profiles.
pub(crate) type ClassMembers = std::collections::BTreeSet<(u32, NodeIdx)>;
