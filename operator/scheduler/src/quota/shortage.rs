//! The numbers with which an explanation says why a demand does not fit.

use super::amounts::{Demand, FlavorResource};
use super::availability::ResourceOffer;
use super::tree::QuotaTree;
use super::tree::quota_arithmetic::QuotaCell;
use crate::ids::QueueName;
use crate::state::QueueIdx;

/// A resource of a flavor that a queue has too little of. Amounts are in base units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuotaShortage {
    pub(crate) flavor_resource: FlavorResource,
    pub(crate) needs: i128,
    /// The available amount by the formula. Negative: gangs hold more than the quota.
    pub(crate) available: i128,
    /// The exceeded limits, from the queue up; never empty. The demand fits if an administrator
    /// raises each of them by its missing amount. A smaller raise does not suffice.
    pub(crate) exceeded_limits: Vec<ExceededLimit>,
}

impl QuotaShortage {
    /// Returns the least amount that gangs in the queue's tree must give back before the demand can
    /// fit.
    pub(crate) fn least_release(&self) -> i128 {
        self.needs.saturating_sub(self.available.max(0))
    }
}

/// A limit that is exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExceededLimit {
    pub(crate) queue: QueueName,
    /// True: the queue's borrowing limit. False: the quota of the root.
    pub(crate) borrowing_limit: bool,
    /// The most that may count against the queue's quota.
    pub(crate) max: i128,
    /// The amount that counts against it now.
    pub(crate) used: i128,
    pub(crate) missing: i128,
}

impl QuotaTree {
    /// Returns the resources of a demand that are not available now, in the demand's order. It
    /// leaves out resources that the queue does not offer (see [`QuotaTree::offers`]).
    pub(crate) fn shortages(&self, queue: QueueIdx, demand: &Demand) -> Vec<QuotaShortage> {
        self.find_shortages(queue, demand, QuotaCell::usage)
    }

    /// Returns the resources of a demand that would not be available even without any usage. The
    /// demand can never fit these quotas.
    pub(crate) fn permanent_shortages(
        &self,
        queue: QueueIdx,
        demand: &Demand,
    ) -> Vec<QuotaShortage> {
        self.find_shortages(queue, demand, |_| 0)
    }

    fn find_shortages(
        &self,
        queue: QueueIdx,
        demand: &Demand,
        usage: impl Fn(&QuotaCell) -> i128 + Copy,
    ) -> Vec<QuotaShortage> {
        let quota =
            |(what, _): &(FlavorResource, i128)| self.offer(queue, *what) == ResourceOffer::Quota;
        let lacks = demand.iter().filter(quota).filter_map(|(what, needs)| {
            let shortages: Vec<ExceededLimit> = self
                .climb(queue, what, needs, usage)
                .filter(|step| step.missing > 0)
                .filter_map(|step| {
                    let root = step.node.parent.is_none();
                    Some(ExceededLimit {
                        queue: step.node.name.clone(),
                        borrowing_limit: !root,
                        max: step.node.cell(what).max_usage(root)?,
                        used: step.used,
                        missing: step.missing,
                    })
                })
                .collect();
            (!shortages.is_empty()).then(|| QuotaShortage {
                flavor_resource: what,
                needs,
                available: self.compute_available(queue, what, usage).unwrap_or(0),
                exceeded_limits: shortages,
            })
        });
        lacks.collect()
    }
}
