//! Charges of pods to nodes: whole devices and shares.

use smallvec::SmallVec;

use super::Nodes;
use crate::state::profile::{NodeProfile, PodNeeds, WHOLE_DEVICE};
use crate::state::shape::PodDemand;
use crate::state::{Catalog, NodeIdx, ResourceIdx};

/// The shared devices before a charge.
pub(crate) type SavedShares = SmallVec<[(ResourceIdx, Option<Vec<Vec<i64>>>); 0]>;

impl Nodes {
    /// Charges `times` pods to a node, or releases them if `times` is negative. `held`: they belong
    /// to a placed gang.
    pub(crate) fn charge(&mut self, at: NodeIdx, demand: &PodDemand, times: i64, held: bool) {
        for (resource, need) in demand {
            let used = i128::from(*need).saturating_mul(i128::from(times));
            self.add(*resource, at, used, if held { used } else { 0 });
            if let Some(device) = self.shares.device_of(*resource) {
                self.charge_share(at, device, *need, times);
            }
        }
        self.mark_stale(at);
    }

    /// Undoes the last charge of `pods` pods (negative: the last release), so that every share is
    /// back on its device. `saved` is the result of [`Nodes::saved_shares`] before that charge.
    pub(crate) fn undo(
        &mut self,
        at: NodeIdx,
        demand: &PodDemand,
        (pods, held): (i64, bool),
        saved: SavedShares,
    ) {
        for (resource, need) in demand {
            let used = i128::from(*need).saturating_mul(i128::from(pods));
            let used = used.saturating_neg();
            self.add(*resource, at, used, if held { used } else { 0 });
        }
        for (device, shares) in saved {
            let freed = self.shares.restore(at, device, shares);
            self.ledger
                .add(device, at, i128::from(freed).saturating_neg(), 0);
        }
        self.mark_stale(at);
    }

    /// Returns the shared devices of a node, for the devices of which the demand has a share.
    pub(crate) fn saved_shares(&self, at: NodeIdx, demand: &PodDemand) -> SavedShares {
        if self.shares.kind_count() == 0 {
            return SavedShares::new();
        }
        let devices = demand.iter().filter_map(|(r, _)| self.shares.device_of(*r));
        devices
            .map(|device| (device, self.shares.save(at, device)))
            .collect()
    }

    /// Counts pods on the node as pods of a placed gang, or no longer if `times` is negative.
    pub(crate) fn mark_placed(&mut self, at: NodeIdx, demand: &PodDemand, times: i64) {
        for (resource, need) in demand {
            let held = i128::from(*need).saturating_mul(i128::from(times));
            self.add(*resource, at, 0, held);
        }
    }

    /// Adds usage. If the engine counts thousandths of a device, a whole device also counts as a
    /// thousand of them.
    fn add(&mut self, resource: ResourceIdx, at: NodeIdx, used: i128, held: i128) {
        self.ledger.add(resource, at, used, held);
        if let Some(share) = self.shares.share_of(resource) {
            let whole = i128::from(WHOLE_DEVICE);
            let (used, held) = (used.saturating_mul(whole), held.saturating_mul(whole));
            self.ledger.add(share, at, used, held);
        }
    }

    /// Charges shares of a device, or releases them if `times` is negative. A shared device is no
    /// longer free as a whole.
    fn charge_share(&mut self, at: NodeIdx, device: ResourceIdx, share: i64, times: i64) {
        for _ in 0..times.unsigned_abs() {
            if times > 0 && self.shares.charge(at, device, share) {
                self.ledger.add(device, at, 1, 0);
            } else if times < 0 && self.shares.release(at, device, share) {
                self.ledger.add(device, at, -1, 0);
            }
        }
    }

    /// Starts counting thousandths of all devices of which the catalog knows shares. The caller
    /// must call it before it charges any such share.
    pub(crate) fn enable_shares(&mut self, catalog: &Catalog) {
        let new = catalog
            .shares()
            .get(self.shares.kind_count()..)
            .unwrap_or(&[]);
        for (share, device) in new {
            for at in (0..self.entries.len()).map(NodeIdx::of) {
                let all = self.ledger.allocatable(*device, at);
                self.ledger
                    .set_allocatable(*share, at, all.saturating_mul(WHOLE_DEVICE));
                let (gangs, others) = self.ledger.usage(*device, at);
                let whole = |n: i128| n.saturating_mul(i128::from(WHOLE_DEVICE));
                let used = whole(gangs.saturating_add(others));
                self.ledger.add(*share, at, used, whole(gangs));
            }
            self.shares.add_kind(*share, *device);
        }
    }

    /// Returns the demand in the form that profiles use. None if it requests more than one device
    /// in thousandths, or shares of several devices: no node can provide that.
    pub(crate) fn needs(&self, demand: &PodDemand) -> Option<PodNeeds> {
        let mut needs = PodNeeds {
            amounts: SmallVec::new(),
            share: None,
        };
        for (resource, need) in demand {
            match self.shares.device_of(*resource) {
                Some(device) if needs.share.is_none() && *need <= WHOLE_DEVICE => {
                    needs.share = Some((device, *need));
                }
                Some(_) => return None,
                None => needs.amounts.push((*resource, *need)),
            }
        }
        Some(needs)
    }

    /// Returns the resource that changes together with this one, and by how much at most.
    /// Thousandths change with their device, and a device with its thousandths.
    pub(crate) fn coupled_resource(
        &self,
        resource: ResourceIdx,
        amount: i128,
    ) -> Option<(ResourceIdx, i128)> {
        let share = self.shares.share_of(resource);
        let share = share.map(|share| (share, amount.saturating_mul(i128::from(WHOLE_DEVICE))));
        // A share is at least a thousandth, and may be the last of its device.
        share.or_else(|| Some((self.shares.device_of(resource)?, amount)))
    }

    /// Returns the amount that would be free on a node if all gangs left it.
    pub(crate) fn free_without_gangs(&self, resource: ResourceIdx, at: NodeIdx) -> i64 {
        let others = |resource| {
            let has = i128::from(self.ledger.allocatable(resource, at));
            let (_, others) = self.ledger.usage(resource, at);
            has.saturating_sub(others)
        };
        let free = match self.shares.share_of(resource) {
            // The ledger charges a shared device to no gang, so its thousandths decide.
            Some(share) => others(share).div_euclid(i128::from(WHOLE_DEVICE)),
            None => others(resource),
        };
        i64::try_from(free).unwrap_or(0)
    }

    /// Returns the capacity of an empty node of this kind.
    pub(crate) fn empty_capacity(&self, kind: &NodeProfile, resource: ResourceIdx) -> i64 {
        match self.shares.device_of(resource) {
            Some(device) => kind.free(device).saturating_mul(WHOLE_DEVICE),
            None => kind.free(resource),
        }
    }

    /// Returns the device that a resource is a share of.
    pub(crate) fn shared_device(&self, resource: ResourceIdx) -> Option<ResourceIdx> {
        self.shares.device_of(resource)
    }

    /// True if pods may have shares of a device.
    pub(crate) fn is_shared(&self, device: ResourceIdx) -> bool {
        self.shares.share_of(device).is_some()
    }

    /// Returns the free part of each shared device of a node, in thousandths.
    pub(crate) fn shared_devices(&self, at: NodeIdx) -> impl Iterator<Item = (ResourceIdx, i64)> {
        self.shares.open(at)
    }
}
