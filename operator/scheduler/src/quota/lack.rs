//! Why a demand does not fit, as numbers for a certificate.

use super::amounts::{Demand, FlavorResource};
use super::cell::Cell;
use super::room::Offer;
use super::tree::{QueueIdx, Tree};
use crate::ids::QueueName;

/// A resource of a flavor of which a queue may not be given enough. Amounts are in
/// base units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(crate) what: FlavorResource,
    pub(crate) needs: i128,
    /// By the formula; negative where more is held than there is.
    pub(crate) available: i128,
    /// What stands in the way, from the queue up: never empty. If each of these
    /// limits is raised by what is missing, and no less, the demand fits.
    pub(crate) shortages: Vec<Shortage>,
}

impl Lack {
    /// The demand cannot fit before so much has been given back in the queue's tree.
    pub(crate) fn least_release(&self) -> i128 {
        self.needs.saturating_sub(self.available.max(0))
    }
}

/// A limit that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) queue: QueueName,
    /// Whether it is the queue's borrowing limit; else it is the quota of the root.
    pub(crate) borrowing_limit: bool,
    /// The most that may count against the queue's quota.
    pub(crate) most: i128,
    /// What does.
    pub(crate) used: i128,
    pub(crate) missing: i128,
}

impl Tree {
    /// What of a demand is not available now, in its order. What the queue does not
    /// offer is left out (see [`Tree::offers`]).
    pub(crate) fn lacks(&self, queue: QueueIdx, demand: &Demand) -> Vec<Lack> {
        self.lacking(queue, demand, Cell::usage)
    }

    /// What of a demand would not be available with everything else gone: it can
    /// never fit as the quotas are.
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
