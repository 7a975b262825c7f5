//! The quota checks for a gang that would start.

use super::super::{Blockage, Signal, WaitKind, WakeCondition};
use super::Queues;
use super::holders::QueueHolder;
use crate::explain::{OwnQuota, QuotaRaise, ShareComparison, UnblockingChange, WaitDetail};
use crate::ids::{FlavorName, GangId, QueueName, ResourceName};
use crate::queue::{QueueStop, ReclaimPolicy};
use crate::quota::{ClaimKind, Demand, FlavorResource, QuotaShortage};
use crate::state::{Catalog, QueueIdx};

/// The largest number of gangs and of queues that an explanation names.
const MAX_NAMED: usize = 3;

impl Queues {
    /// Checks that the queue exists, is configured correctly and is not stopped.
    pub(crate) fn check_open(&self, name: &QueueName) -> Result<(), Box<Blockage>> {
        let queue = name.clone();
        let blocked = |detail| {
            let mut wake = WakeCondition::default();
            wake.on_rise(Signal::Queues, 1);
            Err(Blockage::new(detail, wake))
        };
        let Some((config, at)) = self.configs.get(name).zip(self.tree.find(name)) else {
            return blocked(WaitDetail::QueueNotFound { queue });
        };
        if config.stop != QueueStop::None {
            return blocked(WaitDetail::QueueStopped { queue });
        }
        let fault = match self.tree.fault(at) {
            Some(fault) => Some(fault.to_string()),
            None if !self.tree.is_leaf(at) => {
                Some("has queues below it, and gangs wait in queues that have none".to_owned())
            }
            None => None,
        };
        match fault {
            Some(fault) => blocked(WaitDetail::QueueMisconfigured { queue, fault }),
            None => Ok(()),
        }
    }

    /// Checks that the queue has quota left for the demand, now and after the leaving gangs are
    /// gone.
    pub(crate) fn admit(
        &mut self,
        name: &QueueName,
        demand: &Demand,
        catalog: &Catalog,
    ) -> Result<(), Box<Blockage>> {
        let Some(at) = self.tree.find(name) else {
            return self.check_open(name);
        };
        if self.tree.fits(at, demand) {
            return self.admit_with_leaving_gangs(name, at, demand, catalog);
        }
        let mut wake = WakeCondition::default();
        wake.on_rise(Signal::Queues, 1);
        let mut all = demand.iter();
        if let Some((what, needs)) = all.find(|(what, _)| !self.tree.offers(at, *what)) {
            let detail = WaitDetail::NotOffered {
                queue: name.clone(),
                resource: catalog.name(what.resource),
                needs,
                offers: self.resources_offered(name, catalog),
            };
            return Err(Blockage::new(detail, wake));
        }
        let never = self.tree.permanent_shortages(at, demand);
        if let Some(lack) = scarcest(never.clone(), catalog) {
            let detail = WaitDetail::ExceedsQuota {
                queue: name.clone(),
                flavor: self.named_flavor(lack.flavor_resource),
                resource: catalog.name(lack.flavor_resource.resource),
                needs: lack.needs,
                most: lack.available.max(0),
            };
            // Gangs end, so their usage does not change the raise that makes a start possible.
            let change = self.quota_raises(never, catalog);
            return Err(Blockage::new(detail, wake).with_change(Some(change)));
        }
        let Some(lack) = scarcest(self.tree.shortages(at, demand), catalog) else {
            // The queue offers all of the demand and lacks none of it: the demand fits.
            return Ok(());
        };
        wake.on_rise(
            Signal::QuotaFreed(self.root(name), lack.flavor_resource),
            lack.least_release(),
        );
        let blocked = Blockage::new(self.exceeded_detail(name, at, &lack, catalog), wake);
        let change = self.quota_raises(self.tree.shortages(at, demand), catalog);
        Err(blocked.with_change(Some(change)).with_kind(WaitKind::Quota))
    }

    /// Checks that quota suffices now. The caller has checked that it suffices after the leaving
    /// gangs are gone.
    fn admit_with_leaving_gangs(
        &mut self,
        name: &QueueName,
        at: QueueIdx,
        demand: &Demand,
        catalog: &Catalog,
    ) -> Result<(), Box<Blockage>> {
        if self.has_plenty(at, demand) {
            return Ok(());
        }
        let shift = self.shift_to_running(at, demand);
        self.apply_shift(&shift, 1);
        let lack = scarcest(self.tree.shortages(at, demand), catalog);
        let blockage = lack.map(|lack| {
            let mut wake = WakeCondition::default();
            wake.on_rise(Signal::Queues, 1).on_rise(
                Signal::QuotaFreed(self.root(name), lack.flavor_resource),
                lack.least_release(),
            );
            let mut detail = self.exceeded_detail(name, at, &lack, catalog);
            if let WaitDetail::QuotaExceeded {
                holders, largest, ..
            } = &mut detail
            {
                (*holders, *largest) = self.largest_holders(name, lack.flavor_resource, true);
            }
            let change = self.quota_raises(self.tree.shortages(at, demand), catalog);
            let blocked = Blockage::new(detail, wake).with_change(Some(change));
            blocked.with_kind(WaitKind::Quota)
        });
        self.apply_shift(&shift, -1);
        blockage.map_or(Ok(()), Err)
    }

    /// Returns the limits to raise, and the least raises that admit the demand.
    fn quota_raises(&self, lacks: Vec<QuotaShortage>, catalog: &Catalog) -> UnblockingChange {
        let raises = lacks.into_iter().flat_map(|lack| {
            let (flavor, resource) = (
                self.named_flavor(lack.flavor_resource),
                catalog.name(lack.flavor_resource.resource),
            );
            lack.exceeded_limits
                .into_iter()
                .map(move |shortage| QuotaRaise {
                    queue: shortage.queue,
                    borrowing_limit: shortage.borrowing_limit,
                    flavor: flavor.clone(),
                    resource: resource.clone(),
                    by: shortage.missing,
                })
        });
        UnblockingChange::Raise(raises.collect())
    }

    /// Returns the resources that a queue offers, ordered by name.
    pub(crate) fn resources_offered(
        &self,
        name: &QueueName,
        catalog: &Catalog,
    ) -> Vec<ResourceName> {
        let offered = self.offered_groups(name, catalog);
        let first = offered.iter().filter_map(|group| group.flavors.first());
        let mut offers: Vec<ResourceName> = first.flat_map(|f| f.quotas.keys().cloned()).collect();
        offers.sort_unstable();
        offers
    }

    fn exceeded_detail(
        &self,
        name: &QueueName,
        at: QueueIdx,
        lack: &QuotaShortage,
        catalog: &Catalog,
    ) -> WaitDetail {
        let what = lack.flavor_resource;
        let worst = lack.exceeded_limits.iter().max_by_key(|s| s.missing);
        let (holders, largest) = self.largest_holders(name, what, false);
        let borrowers = self
            .tree
            .borrowers(at, what, lack.needs, MAX_NAMED)
            .into_iter()
            .filter(|b| b.queue != *name)
            .map(|b| (b.queue, b.borrowed))
            .collect();
        WaitDetail::QuotaExceeded {
            queue: worst.map_or_else(|| name.clone(), |s| s.queue.clone()),
            borrowing_limit: worst.is_some_and(|s| s.borrowing_limit),
            flavor: self.named_flavor(what),
            resource: catalog.name(what.resource),
            needs: lack.needs,
            most: worst.map_or(0, |s| s.max),
            used: worst.map_or(0, |s| s.used),
            own: self.own_quota(name, at, what, lack.needs),
            missing: worst.map_or(0, |s| s.missing),
            holders,
            largest,
            queues: Vec::new(),
            borrowers,
            fair_share: None,
        }
    }

    /// Returns the state of the own quota of a queue that has a parent.
    fn own_quota(
        &self,
        name: &QueueName,
        at: QueueIdx,
        what: FlavorResource,
        needs: i128,
    ) -> Option<OwnQuota> {
        self.configs.get(name)?.parent.as_ref()?;
        let standings = self.tree.quota_usages(at);
        let standing = standings.iter().find(|s| s.flavor_resource == what)?;
        let left = standing.nominal.saturating_sub(standing.usage).max(0);
        let available = self.tree.available(at, what)?;
        Some(OwnQuota {
            queue: name.clone(),
            nominal: standing.nominal,
            usage: standing.usage,
            may_borrow: available.saturating_sub(left).max(0),
            would_borrow: needs.saturating_sub(left).max(0),
            reclaim: None,
        })
    }

    /// Returns the explanation with two additions: the other queues that hold the missing quota,
    /// and the policy that keeps the gang's queue from reclaiming it. None: the explanation has
    /// another reason.
    ///
    /// It takes longer than the check itself, so the engine calls it only for gangs whose
    /// explanation it reports.
    pub(crate) fn add_holders(
        &self,
        name: &QueueName,
        demand: &Demand,
        detail: &WaitDetail,
        catalog: &Catalog,
    ) -> Option<WaitDetail> {
        let mut full_detail = detail.clone();
        let WaitDetail::QuotaExceeded {
            queue,
            flavor,
            resource,
            own,
            queues,
            borrowers,
            fair_share,
            ..
        } = &mut full_detail
        else {
            return None;
        };
        let at = self.tree.find(name)?;
        let is_it = |what: FlavorResource| {
            catalog.name(what.resource) == *resource && self.named_flavor(what) == *flavor
        };
        let (what, _) = demand.iter().find(|(what, _)| is_it(*what))?;
        *queues = self.tree.quota_holders(queue, what, name, MAX_NAMED);
        let owed = |borrower: &QueueName| {
            let borrower = self.tree.find(borrower);
            let claim = borrower.and_then(|b| self.tree.claim(at, demand, b, |w| w == what));
            claim.is_some_and(|claimed| claimed.terms.kind == ClaimKind::Owed)
        };
        if let Some(own) = own
            && borrowers.iter().any(|(borrower, _)| owed(borrower))
        {
            let reclaim = self.preemption_policy(name).unwrap_or_default().reclaim;
            own.reclaim = (reclaim != ReclaimPolicy::Any).then_some(reclaim);
        }
        *fair_share = self.compare_shares((name, at), demand, borrowers);
        Some(full_detail)
    }

    /// Compares the share of a queue, with this demand, to the largest share of these borrowers. None:
    /// the queue takes nothing by fair share, or has no common parent with any of them.
    fn compare_shares(
        &self,
        (name, at): (&QueueName, QueueIdx),
        demand: &Demand,
        borrowers: &[(QueueName, i128)],
    ) -> Option<ShareComparison> {
        if !self.preemption_policy(name)?.shares_fairly() {
            return None;
        }
        let compared = borrowers.iter().filter_map(|(borrower, _)| {
            let holder = self.tree.find(borrower)?;
            let empty = Demand::default();
            let (share, other_share) = self.tree.compare_shares((at, demand), (holder, &empty))?;
            let name = |of, beside| {
                let compared = self.tree.child_of_common_parent(of, beside)?;
                self.tree.name(compared).cloned()
            };
            Some(ShareComparison {
                queue: name(at, holder)?,
                share,
                other: name(holder, at)?,
                other_share,
            })
        });
        // If shares are equal, the queue that borrows most comes first.
        let rank = |shares: &ShareComparison| {
            let is_larger = shares.share < shares.other_share;
            (is_larger, shares.other_share)
        };
        compared.reduce(|best, next| match rank(&next) > rank(&best) {
            true => next,
            false => best,
        })
    }

    /// Returns the flavor's name. None: it is the default flavor.
    fn named_flavor(&self, what: FlavorResource) -> Option<FlavorName> {
        self.flavors
            .name(what.flavor)
            .filter(|name| **name != FlavorName::default())
            .cloned()
    }

    /// Adds to `wake` the signals after which quota may block the gang.
    pub(crate) fn watch(&mut self, name: &QueueName, demand: &Demand, wake: &mut WakeCondition) {
        wake.on_rise(Signal::Queues, 1);
        let Some(at) = self.tree.find(name) else {
            return;
        };
        let mut least: Vec<_> = demand
            .iter()
            .map(|(what, _)| self.tree.available(at, what))
            .collect();
        let shift = self.shift_to_running(at, demand);
        if !shift.is_empty() {
            self.apply_shift(&shift, 1);
            for ((what, _), least) in demand.iter().zip(&mut least) {
                *least = (*least).min(self.tree.available(at, what));
            }
            self.apply_shift(&shift, -1);
        }
        for ((what, needs), available) in demand.iter().zip(least) {
            if let Some(available) = available {
                let left = available.saturating_sub(needs);
                wake.on_rise(
                    Signal::QuotaTaken(self.root(name), what),
                    left.saturating_add(1),
                );
            }
        }
    }

    /// Returns how many gangs of a queue hold some of a resource, and the gangs that hold most.
    /// Counts leaving gangs if `leavers` is true.
    fn largest_holders(
        &self,
        name: &QueueName,
        what: FlavorResource,
        leavers: bool,
    ) -> (u32, Vec<(GangId, i128)>) {
        let held = |holder: &QueueHolder| {
            let amount = self.charge_by_number(holder.charge)?.amount(what);
            (amount > 0).then(|| (holder.id.clone(), amount))
        };
        let holders = self.holders.get(name).into_iter();
        let holders = holders.flat_map(|h| h.iter());
        let mut holders: Vec<(GangId, i128)> = holders.filter_map(held).collect();
        if leavers {
            let leave = self.leaving_gangs(name, what);
            holders.extend(leave.filter(|(_, amount)| *amount > 0));
        }
        holders.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let count = u32::try_from(holders.len()).unwrap_or(u32::MAX);
        holders.truncate(MAX_NAMED);
        (count, holders)
    }
}

/// Returns the scarcest resource. Devices come first, then the resource with the largest missing
/// part of the need, then the smaller name.
fn scarcest(lacks: Vec<QuotaShortage>, catalog: &Catalog) -> Option<QuotaShortage> {
    lacks.into_iter().min_by_key(|lack| {
        let name = catalog.name(lack.flavor_resource.resource);
        let missing = lack.least_release().saturating_mul(1 << 20);
        let part = missing.checked_div(lack.needs).unwrap_or(0);
        (!name.is_device(), std::cmp::Reverse(part), name)
    })
}
