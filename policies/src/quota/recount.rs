//! Usage of each limit, recomputed from the existing jobs.

use std::collections::BTreeMap;

use trellis_api::quantity::Amount;

use super::draw::Draw;
use super::limit::{LimitId, What};

/// Amount of one resource that a job holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The flavor in which it holds it.
    pub flavor: String,
    /// The resource.
    pub resource: String,
    /// How much. None: more than can be counted.
    pub amount: Option<Amount>,
}

/// A job that is pending or placed.
#[derive(Clone, Copy, Debug)]
pub struct Holding<'a> {
    /// Limits that the job counts against.
    pub draws: &'a [Draw],
    /// Resources that the job holds. None: the job is pending.
    pub held: Option<&'a [Held]>,
}

impl Holding<'_> {
    /// Amount that the job counts against the limit. None: it overflows. GPU-hours are metered
    /// rather than held, so they count as 0.
    #[must_use]
    pub fn takes(&self, what: &What) -> Option<Amount> {
        match (what, self.held) {
            (What::RunningJobs, Some(_)) | (What::QueuedJobs, None) => Some(Amount::from_units(1)),
            (
                What::Resource {
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
pub fn recount<'a>(
    jobs: impl IntoIterator<Item = Holding<'a>>,
) -> BTreeMap<LimitId, Option<Amount>> {
    let mut used: BTreeMap<LimitId, Option<Amount>> = BTreeMap::new();
    for job in jobs {
        for draw in job.draws {
            let takes = job.takes(&draw.limit.what);
            let sum = used.entry(draw.limit.clone()).or_insert(Some(Amount::ZERO));
            *sum = sum.and_then(|sum| sum.checked_add(takes?));
        }
    }
    used
}
