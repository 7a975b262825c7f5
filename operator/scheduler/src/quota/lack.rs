//! Why a demand does not fit, as numbers for an explanation.

use super::amounts::{Demand, FlavorResource};
use super::cell::Cell;
use super::room::Offer;
use super::tree::{QueueIdx, Tree};
use crate::ids::QueueName;

/// A resource of a flavor that a queue has too little of. Amounts are in base units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(crate) what: FlavorResource,
    pub(crate) needs: i128,
    /// By the formula; negative if more is held than there is.
    pub(crate) available: i128,
    /// The limits that are exceeded, from the queue up; never empty. The demand fits if each of
    /// them is raised by what is missing, and not with less.
    pub(crate) shortages: Vec<Shortage>,
}

impl Lack {
    /// The least that must be given back in the queue's tree before the demand can fit.
    pub(crate) fn least_release(&self) -> i128 {
        self.needs.saturating_sub(self.available.max(0))
    }
}

/// A limit that is exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) queue: QueueName,
    /// True: the queue's borrowing limit. False: the quota of the root.
    pub(crate) borrowing_limit: bool,
    /// The most that may count against the queue's quota.
    pub(crate) most: i128,
    /// The amount that counts against it now.
    pub(crate) used: i128,
    pub(crate) missing: i128,
}

impl Tree {
    /// The resources of a demand that are not available now, in the demand's order. Resources that
    /// the queue does not offer are left out (see [`Tree::offers`]).
    pub(crate) fn lacks(&self, queue: QueueIdx, demand: &Demand) -> Vec<Lack> {
        self.lacking(queue, demand, Cell::usage)
    }

    /// The resources of a demand that would not be available even without any usage: the demand can
    /// never fit these quotas.
    pub(crate) fn lacks_ever(&self, queue: QueueIdx, demand: &Demand) -> Vec<Lack> {
        self.lacking(queue, demand, |_| 0)
    }

    fn lacking(
        &self,
        queue: QueueIdx,
        demand: &Demand,
        usage: impl Fn(&Cell) -> i128 + Copy,
    ) -> Vec<Lack> {
        let quota = |(what, _): &(FlavorResource, i128)| self.offer(queue, *what) == Offer::Quota;
        let lacks = demand.iter().filter(quota).filter_map(|(what, needs)| {
            let shortages: Vec<Shortage> = self
                .climb(queue, what, needs, usage)
                .filter(|step| step.missing > 0)
                .filter_map(|step| {
                    let root = step.node.parent.is_none();
                    Some(Shortage {
                        queue: step.node.name.clone(),
                        borrowing_limit: !root,
                        most: step.node.cell(what).bound(root)?,
                        used: step.used,
                        missing: step.missing,
                    })
                })
                .collect();
            (!shortages.is_empty()).then(|| Lack {
                what,
                needs,
                available: self.room(queue, what, usage).unwrap_or(0),
                shortages,
            })
        });
        lacks.collect()
    }
}
