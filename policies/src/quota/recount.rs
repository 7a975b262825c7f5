//! What is held of each limit, counted anew from the jobs that are there.

use std::collections::BTreeMap;

use trellis_api::quantity::Amount;

use super::draw::Draw;
use super::limit::{LimitId, What};

/// What a job holds of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The flavor in which it holds it.
    pub flavor: String,
    /// The resource.
    pub resource: String,
    /// How much. None: more than can be counted.
    pub amount: Option<Amount>,
}

/// A job that waits, or that holds a place.
#[derive(Clone, Copy, Debug)]
pub struct Holding<'a> {
    /// What it draws on.
    pub draws: &'a [Draw],
    /// What it holds. None: it waits for a place.
    pub held: Option<&'a [Held]>,
}

impl Holding<'_> {
    /// How much of the limit the job takes. None: more than can be counted. GPU-hours are
    /// not held, but burnt: 0.
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

/// What is held of each limit that someone draws on. None: more than can be counted.
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
