//! When gangs that have their place end.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::GangId;
use crate::state::GangIdx;
use crate::time::Time;

/// Placed gangs in the order in which they are taken to end: those whose end is
/// known by it, then the others by when they were placed; ties by name.
///
/// One that is past its end has no known end any more: it is not taken to end in a
/// moment, again and again.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    known: BTreeSet<(Time, GangId, GangIdx)>,
    unknown: BTreeSet<(Time, GangId, GangIdx)>,
    terms: BTreeMap<GangIdx, Term>,
}

#[derive(Debug)]
struct Term {
    id: GangId,
    since: Time,
    end: Option<Time>,
}

impl Ends {
    /// A gang has had its place since then, and ends then.
    pub(crate) fn insert(&mut self, at: GangIdx, id: &GangId, since: Time, end: Option<Time>) {
        self.remove(at);
        let id = id.clone();
        match end {
            Some(end) => self.known.insert((end, id.clone(), at)),
            None => self.unknown.insert((since, id.clone(), at)),
        };
        self.terms.insert(at, Term { id, since, end });
    }

    /// A gang has its place no longer.
    pub(crate) fn remove(&mut self, at: GangIdx) {
        let Some(Term { id, since, end }) = self.terms.remove(&at) else {
            return;
        };
        if let Some(end) = end {
            self.known.remove(&(end, id.clone(), at));
        }
        self.unknown.remove(&(since, id, at));
    }

    /// It is so late now.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some((end, ..)) = self.known.first()
            && *end < now
            && let Some((_, id, at)) = self.known.pop_first()
        {
            if let Some(term) = self.terms.get(&at) {
                self.unknown.insert((term.since, id, at));
            }
        }
    }

    /// Everyone, with the end that is known.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Option<Time>, GangIdx)> {
        let known = self.known.iter().map(|(end, _, at)| (Some(*end), *at));
        known.chain(self.unknown.iter().map(|(_, _, at)| (None, *at)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(ends: &Ends) -> Vec<(Option<i64>, usize)> {
        ends.iter()
            .map(|(end, at)| (end.map(Time::as_millis), at.at()))
            .collect()
    }

    #[test]
    fn who_is_past_its_end_goes_among_those_without() {
        let mut ends = Ends::default();
        let ms = Time::from_millis;
        let mut insert = |at: usize, since, end: Option<i64>| {
            let id = GangId::new(format!("a/{at}"));
            ends.insert(GangIdx::of(at), &id, ms(since), end.map(ms));
        };
        insert(0, 5, None);
        insert(1, 0, Some(20));
        insert(2, 3, Some(10));
        insert(3, 7, None);
        assert_eq!(
            order(&ends),
            [(Some(10), 2), (Some(20), 1), (None, 0), (None, 3)]
        );
        ends.advance(ms(10));
        assert_eq!(order(&ends).len(), 4, "what ends now is not late");
        assert_eq!(order(&ends).first(), Some(&(Some(10), 2)));
        ends.advance(ms(11));
        assert_eq!(
            order(&ends),
            [(Some(20), 1), (None, 2), (None, 0), (None, 3)]
        );
        for at in 0..4 {
            ends.remove(GangIdx::of(at));
        }
        assert!(ends.is_empty() && order(&ends).is_empty());
    }
}
