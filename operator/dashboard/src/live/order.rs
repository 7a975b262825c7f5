//! The order of the jobs that wait. Pure.
//!
//! When the first job of a queue starts, the position of each job behind it changes. A reader that
//! has the order knows all of these positions: the job that started is gone, and the jobs behind it
//! move up. So the stream tells an order only if it differs from what such a reader expects.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use trellis_api::visibility::JobState;

use super::row::Row as _;

/// The keys of the jobs that wait, by queue, in the order of their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueOrders(BTreeMap<String, Vec<String>>);

impl QueueOrders {
    /// Reads the orders from the positions of the jobs.
    pub(crate) fn read<'j>(jobs: impl Iterator<Item = &'j JobState>) -> Self {
        let mut queues: BTreeMap<String, Vec<(u32, String)>> = BTreeMap::new();
        for job in jobs {
            if let Some(position) = job.position {
                let waiting = queues.entry(job.queue.clone()).or_default();
                waiting.push((position, job.key()));
            }
        }
        let orders = queues.into_iter().map(|(queue, mut waiting)| {
            waiting.sort();
            (queue, waiting.into_iter().map(|(_, key)| key).collect())
        });
        Self(orders.collect())
    }

    /// Returns the orders that a reader of `before` does not expect.
    pub(crate) fn news_since(&self, before: &Self) -> BTreeMap<String, Vec<String>> {
        let orders = self.0.iter();
        let news = orders.filter(|(queue, order)| {
            let old = before.0.get(*queue).map_or(&[][..], Vec::as_slice);
            expected_order(old, order) != **order
        });
        news.map(|(queue, order)| (queue.clone(), order.clone()))
            .collect()
    }

    /// Gives each job that waits its position. Rows that the stream has not sent anew have an older
    /// one.
    pub(crate) fn position<'j>(&self, jobs: &[&'j JobState]) -> Vec<Cow<'j, JobState>> {
        let orders = self.0.values().flat_map(|order| (1_u32..).zip(order));
        let positions: BTreeMap<&str, u32> = orders
            .map(|(position, key)| (key.as_str(), position))
            .collect();
        let placed = jobs.iter().map(|job| {
            let position = positions.get(job.key().as_str()).copied();
            if position == job.position {
                return Cow::Borrowed(*job);
            }
            Cow::Owned(JobState {
                position,
                ..(*job).clone()
            })
        });
        placed.collect()
    }
}

/// Returns the order that a reader expects who knows the old order and the jobs that wait now: the
/// old jobs that still wait, and then the new ones.
fn expected_order(old: &[String], now: &[String]) -> Vec<String> {
    let waits: BTreeSet<&String> = now.iter().collect();
    let known: BTreeSet<&String> = old.iter().collect();
    let stay = old.iter().filter(|key| waits.contains(key));
    let come = now.iter().filter(|key| !known.contains(key));
    stay.chain(come).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(names: &[&str]) -> Vec<JobState> {
        let jobs = (1..).zip(names).map(|(position, name)| JobState {
            position: Some(position),
            ..JobState::new("ml", name, "research")
        });
        jobs.collect()
    }

    fn orders(names: &[&str]) -> QueueOrders {
        QueueOrders::read(waiting(names).iter())
    }

    #[test]
    fn reader_expects_starts_and_arrivals_but_no_overtaking() {
        let before = orders(&["a", "b", "c"]);
        for expected in [
            &["a", "b", "c"][..],
            &["b", "c"],
            &["a", "c", "d", "e"],
            &["d"],
            &[],
        ] {
            let news = orders(expected).news_since(&before);
            assert!(news.is_empty(), "{expected:?}: {news:?}");
        }
        for unexpected in [&["b", "a", "c"][..], &["d", "a", "b", "c"], &["c", "a"]] {
            let now = orders(unexpected);
            let order = unexpected.iter().map(|name| format!("ml/{name}")).collect();
            let expected = BTreeMap::from([("research".to_owned(), order)]);
            assert_eq!(now.news_since(&before), expected);
        }
    }

    #[test]
    fn whole_list_has_the_positions_of_the_order() {
        let old = waiting(&["a", "b", "c"]);
        let placed = JobState::new("ml", "p", "research");
        let rows: Vec<&JobState> = old.iter().skip(1).chain([&placed]).collect();
        let positioned = orders(&["c", "b"]).position(&rows);
        let positions: Vec<_> = positioned.iter().map(|job| job.position).collect();
        assert_eq!(positions, [Some(2), Some(1), None]);
    }
}
