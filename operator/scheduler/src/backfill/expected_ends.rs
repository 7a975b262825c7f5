//! The expected ends of placed gangs.

use std::collections::{BTreeMap, BTreeSet};

use super::run_term::{ExpectedEnd, RunTerm};
use crate::ids::GangId;
use crate::state::GangIdx;
use crate::time::Time;

/// Placed gangs in the order in which the engine assumes that they end. First come gangs with a
/// known end, then gangs that are late to stop, then the rest by the time of their placement. Ties
/// go by name.
///
/// A gang that is past its end either gets the next predicted end or has no known end any more. So
/// the engine does not assume for ever that it ends in a moment.
#[derive(Debug, Default)]
pub(crate) struct ExpectedEnds {
    known: BTreeSet<(Time, GangId, GangIdx)>,
    unknown: BTreeSet<(Option<Time>, GangId, GangIdx)>,
    terms: BTreeMap<GangIdx, (RunTerm, Option<Time>)>,
}

impl ExpectedEnds {
    /// Adds a placed gang with this term.
    pub(crate) fn insert(&mut self, at: GangIdx, id: &GangId, term: RunTerm, now: Time) {
        self.remove(at, id);
        self.insert_term(at, id.clone(), term, now);
    }

    fn insert_term(&mut self, at: GangIdx, id: GangId, term: RunTerm, now: Time) {
        let end = term.end(now).map(|ExpectedEnd { at, .. }| at);
        match end {
            Some(end) => self.known.insert((end, id, at)),
            None => self.unknown.insert((term.rank(), id, at)),
        };
        self.terms.insert(at, (term, end));
    }

    /// Removes a gang that is no longer placed.
    pub(crate) fn remove(&mut self, at: GangIdx, id: &GangId) {
        match self.terms.remove(&at) {
            Some((_, Some(end))) => self.known.remove(&(end, id.clone(), at)),
            Some((term, None)) => self.unknown.remove(&(term.rank(), id.clone(), at)),
            None => false,
        };
    }

    /// Advances the time.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some((end, ..)) = self.known.first()
            && *end < now
            && let Some((_, id, at)) = self.known.pop_first()
        {
            if let Some((term, _)) = self.terms.remove(&at) {
                self.insert_term(at, id, term, now);
            }
        }
    }

    /// Returns all gangs, with their known end.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Option<Time>, GangIdx)> {
        let known = self.known.iter().map(|(end, _, at)| (Some(*end), *at));
        known.chain(self.unknown.iter().map(|(_, _, at)| (None, *at)))
    }

    /// Returns the number of gangs at the end of the order: their end is unknown, and they are not told
    /// to stop.
    pub(crate) fn unforeseen_count(&self) -> usize {
        let late = self.unknown.iter().take_while(|(rank, ..)| rank.is_none());
        self.unknown.len().saturating_sub(late.count())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn order(ends: &ExpectedEnds) -> Vec<(Option<i64>, usize)> {
        ends.iter()
            .map(|(end, at)| (end.map(Time::as_millis), at.at()))
            .collect()
    }

    fn minute(n: i64) -> Time {
        Time::from_millis(n.saturating_mul(60_000))
    }

    fn term(since: i64, limit: Option<u64>, predicted: Option<u64>) -> RunTerm {
        RunTerm {
            since: minute(since),
            limit: limit.map(Duration::from_mins),
            predicted: predicted.map(Duration::from_mins),
            grace: Duration::ZERO,
            stop_requested: None,
        }
    }

    #[test]
    fn gang_past_its_limit_has_no_known_end() {
        let mut ends = ExpectedEnds::default();
        let mut insert = |at: usize, term| {
            let id = GangId::new(format!("a/{at}"));
            ends.insert(GangIdx::of(at), &id, term, minute(7));
        };
        insert(0, term(5, None, None));
        insert(1, term(0, Some(20), None));
        insert(2, term(3, Some(7), None));
        insert(3, term(7, None, None));
        let end = |minutes| Some(minute(minutes).as_millis());
        assert_eq!(
            order(&ends),
            [(end(10), 2), (end(20), 1), (None, 0), (None, 3)]
        );
        ends.advance(minute(10));
        assert_eq!(order(&ends).len(), 4, "what ends now is not late");
        assert_eq!(order(&ends).first(), Some(&(end(10), 2)));
        ends.advance(minute(10).plus_millis(1));
        assert_eq!(
            order(&ends),
            [(end(20), 1), (None, 2), (None, 0), (None, 3)]
        );
        for at in 0..4 {
            ends.remove(GangIdx::of(at), &GangId::new(format!("a/{at}")));
        }
        assert!(ends.is_empty() && order(&ends).is_empty());
    }

    #[test]
    fn stopping_gang_ends_with_its_grace_before_gangs_without_known_end() {
        let mut ends = ExpectedEnds::default();
        let mut insert = |at: usize, term| {
            let id = GangId::new(format!("a/{at}"));
            ends.insert(GangIdx::of(at), &id, term, minute(7));
        };
        insert(0, term(1, None, None));
        insert(1, term(2, Some(100), None));
        let term = RunTerm {
            grace: Duration::from_mins(2),
            stop_requested: Some(minute(7)),
            ..term(3, Some(100), Some(50))
        };
        insert(2, term);
        let end = |minutes| Some(minute(minutes).as_millis());
        assert_eq!(order(&ends), [(end(9), 2), (end(102), 1), (None, 0)]);
        ends.advance(minute(9).plus_millis(1));
        assert_eq!(order(&ends), [(end(102), 1), (None, 2), (None, 0)]);
        ends.remove(GangIdx::of(2), &GangId::new("a/2"));
        assert_eq!(order(&ends), [(end(102), 1), (None, 0)]);
    }

    #[test]
    fn gang_past_its_prediction_gets_the_next_prediction_until_its_limit() {
        let mut ends = ExpectedEnds::default();
        let id = GangId::new("a/long");
        ends.insert(GangIdx::of(0), &id, term(0, Some(20), Some(10)), minute(0));
        let mut first = |now: i64| {
            ends.advance(minute(now).plus_millis(1));
            order(&ends).first().and_then(|(end, _)| *end)
        };
        let end = |minutes| Some(minute(minutes).as_millis());
        assert_eq!(first(9), end(10));
        assert_eq!(first(10), end(11));
        assert_eq!(first(11), end(16));
        assert_eq!(first(16), end(20));
        assert_eq!(first(20), None);
    }
}
