//! The expected ends of gangs, together and by queue.

use std::collections::BTreeMap;

use super::expected_ends::ExpectedEnds;
use super::run_term::RunTerm;
use crate::ids::{GangId, QueueName};
use crate::state::GangIdx;
use crate::time::Time;

/// The expected ends of all placed and stopping gangs, and of kept places.
///
/// INVARIANT: a placed gang is in the list of all gangs and in the list of the queue that it was
/// placed from, with the same term. After [`Self::start_version`] the caller adds the placed gangs
/// again. A stopping gang then remains only in the list of all gangs, which is the list that the
/// engine reads while a gang stops.
#[derive(Debug, Default)]
pub(crate) struct EndTable {
    all: ExpectedEnds,
    by_queue: BTreeMap<QueueName, ExpectedEnds>,
    /// When the table last checked for gangs that are past their end.
    checked_at: Time,
    /// The version of the queue configuration that the terms belong to.
    config_version: u64,
}

impl EndTable {
    /// Adds a gang that was placed from a queue, or changes its term.
    pub(super) fn insert(
        &mut self,
        at: GangIdx,
        id: &GangId,
        queue: QueueName,
        term: RunTerm,
        now: Time,
    ) {
        let of_queue = self.by_queue.entry(queue).or_default();
        for ends in [of_queue, &mut self.all] {
            ends.insert(at, id, term, now);
        }
    }

    /// Removes a gang that is no longer placed.
    pub(super) fn remove(&mut self, at: GangIdx, id: &GangId, queue: &QueueName) {
        if let Some(ends) = self.by_queue.get_mut(queue) {
            ends.remove(at, id);
            if ends.is_empty() {
                self.by_queue.remove(queue);
            }
        }
        self.all.remove(at, id);
    }

    /// Advances the time.
    pub(crate) fn advance(&mut self, now: Time) {
        if self.checked_at == now {
            return;
        }
        self.checked_at = now;
        self.all.advance(now);
        for ends in self.by_queue.values_mut() {
            ends.advance(now);
        }
    }

    /// Starts a version of the queue configuration, which has the runtimes by queue. Returns the
    /// gangs whose terms the caller must insert again: all of them, or none if the version is the
    /// current one.
    pub(crate) fn start_version(&mut self, config_version: u64) -> Vec<GangIdx> {
        if self.config_version == config_version {
            return Vec::new();
        }
        self.config_version = config_version;
        self.by_queue.clear();
        self.all.iter().map(|(_, at)| at).collect()
    }

    /// Returns the ends of all gangs.
    pub(crate) fn all(&self) -> &ExpectedEnds {
        &self.all
    }

    /// Returns the ends of the gangs of a queue. None: it has no placed gang.
    pub(crate) fn of_queue(&self, queue: &QueueName) -> Option<&ExpectedEnds> {
        self.by_queue.get(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: Time = Time::from_millis(0);

    fn term(minutes: u64) -> RunTerm {
        RunTerm {
            since: NOW,
            limit: Some(Duration::from_mins(minutes)),
            predicted: None,
            grace: Duration::ZERO,
            stop_requested: None,
        }
    }

    fn queue(name: &str) -> QueueName {
        QueueName::new(name)
    }

    fn table() -> EndTable {
        let mut table = EndTable::default();
        for (at, of) in [(0, "p"), (1, "q"), (2, "q")] {
            let id = GangId::new(format!("ns/{at}"));
            table.insert(GangIdx::of(at), &id, queue(of), term(5), NOW);
        }
        table
    }

    fn gangs(ends: Option<&ExpectedEnds>) -> Vec<usize> {
        let ends = ends.into_iter().flat_map(ExpectedEnds::iter);
        ends.map(|(_, at)| at.at()).collect()
    }

    #[test]
    fn gang_is_in_the_lists_of_all_gangs_and_of_its_queue() {
        let mut table = table();
        assert_eq!(gangs(Some(table.all())), [0, 1, 2]);
        assert_eq!(gangs(table.of_queue(&queue("q"))), [1, 2]);
        let first = GangId::new("ns/0");
        table.insert(GangIdx::of(0), &first, queue("p"), term(9), NOW);
        assert_eq!(gangs(Some(table.all())), [1, 2, 0], "it now ends last");
        table.remove(GangIdx::of(0), &first, &queue("p"));
        assert!(table.of_queue(&queue("p")).is_none());
        assert_eq!(gangs(Some(table.all())), [1, 2]);
    }

    #[test]
    fn both_lists_advance_once_the_time_changes() {
        let mut table = table();
        let late = Time::from_millis(600_000);
        table.advance(late);
        let ends = [table.all(), table.of_queue(&queue("q")).unwrap()];
        for ends in ends {
            assert!(ends.iter().all(|(end, _)| end.is_none()), "all are late");
        }
    }

    #[test]
    fn new_configuration_asks_once_for_the_terms_of_all_gangs() {
        let mut table = table();
        assert!(table.start_version(0).is_empty());
        let again = table.start_version(1);
        assert_eq!(
            again.iter().map(|at| at.at()).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert!(table.of_queue(&queue("q")).is_none());
        assert!(table.start_version(1).is_empty());
    }
}
