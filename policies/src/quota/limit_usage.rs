//! Usage of each limit, recomputed from the existing jobs.

use std::collections::BTreeMap;

use trellis_api::quantity::Amount;

use super::limit_id::{LimitId, LimitedQuantity};
use super::quota_verdict::QuotaDraw;

/// Amount of one resource that a job holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedAmount {
    /// The flavor in which it holds it.
    pub flavor: String,
    /// The resource.
    pub resource: String,
    /// How much. None: more than can be counted.
    pub amount: Option<Amount>,
}

/// A job that is pending or placed.
#[derive(Clone, Copy, Debug)]
pub struct CountedJob<'a> {
    /// Limits that the job counts against.
    pub draws: &'a [QuotaDraw],
    /// Resources that the job holds. None: the job is pending.
    pub amounts: Option<&'a [AllocatedAmount]>,
}

impl CountedJob<'_> {
    /// Amount that the job counts against the limit. None: it overflows. GPU-hours are metered
    /// rather than held, so they count as 0.
    #[must_use]
    pub fn amount_of(&self, what: &LimitedQuantity) -> Option<Amount> {
        match (what, self.amounts) {
            (LimitedQuantity::RunningJobs, Some(_)) | (LimitedQuantity::QueuedJobs, None) => {
                Some(Amount::from_units(1))
            }
            (
                LimitedQuantity::Resource {
                    flavor, resource, ..
                },
                Some(held),
            ) => held
                .iter()
                .filter(|h| h.resource == *resource)
                .filter(|h| flavor.as_ref().is_none_or(|f| *f == h.flavor))
                .try_fold(Amount::ZERO, |sum, h| sum.checked_add(h.amount?)),
            _ => Some(Amount::ZERO),
        }
    }
}

/// Usage of each limit that a job counts against. None: it overflows.
#[must_use]
pub fn count_usage<'a>(
    jobs: impl IntoIterator<Item = CountedJob<'a>>,
) -> BTreeMap<LimitId, Option<Amount>> {
    let mut used: BTreeMap<LimitId, Option<Amount>> = BTreeMap::new();
    for job in jobs {
        for draw in job.draws {
            let takes = job.amount_of(&draw.limit.quantity);
            let sum = used.entry(draw.limit.clone()).or_insert(Some(Amount::ZERO));
            *sum = sum.and_then(|sum| sum.checked_add(takes?));
        }
    }
    used
}
