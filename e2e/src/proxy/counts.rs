//! How much of what has come by.

use std::{
    collections::BTreeMap,
    fmt,
    ops::{Add, AddAssign},
};

use super::{Request, Verb, request::is_write};

/// The key by which requests are counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The verb of the requests.
    pub verb: Verb,
    /// As in [`Request::resource`].
    pub resource: String,
    /// True for dry runs.
    pub dry_run: bool,
}

impl From<&Request> for RequestKey {
    fn from(request: &Request) -> Self {
        Self {
            user_agent: request.user_agent.clone(),
            verb: request.verb,
            resource: request.resource.clone(),
            dry_run: request.dry_run,
        }
    }
}

impl RequestKey {
    /// True if these requests are writes. See [`Request::is_write`].
    pub fn is_write(&self) -> bool {
        is_write(self.verb, &self.resource, self.dry_run)
    }
}

/// How many, and how much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrafficTotals {
    /// Requests that came in, those that were made to fail included.
    pub requests: u64,
    /// Bytes of their bodies.
    pub request_bytes: u64,
    /// Bytes of the bodies of the answers, as they went over the wire. A watch counts as it runs.
    pub response_bytes: u64,
    /// Answers with a status of 400 or more, and connections that were cut.
    pub failures: u64,
}

impl AddAssign for TrafficTotals {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
        self.failures += other.failures;
    }
}

impl Add for TrafficTotals {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

/// Counts of the requests that passed a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestCounts(BTreeMap<RequestKey, TrafficTotals>);

impl RequestCounts {
    pub(super) fn add(&mut self, key: &RequestKey, tally: TrafficTotals) {
        match self.0.get_mut(key) {
            Some(known) => *known += tally,
            None => drop(self.0.insert(key.clone(), tally)),
        }
    }

    /// Every key with its tally, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&RequestKey, &TrafficTotals)> {
        self.0.iter()
    }

    /// The sum over the keys that `matches`.
    pub fn sum(&self, matches: impl Fn(&RequestKey) -> bool) -> TrafficTotals {
        self.0
            .iter()
            .filter(|(key, _)| matches(key))
            .fold(TrafficTotals::default(), |sum, (_, tally)| sum + *tally)
    }

    /// All requests.
    pub fn total_requests(&self) -> u64 {
        self.sum(|_| true).requests
    }

    /// Requests that change something, dry runs not among them.
    pub fn total_writes(&self) -> u64 {
        self.sum(RequestKey::is_write).requests
    }

    /// Requests with this verb on this resource, dry runs not among them.
    pub fn count_of(&self, verb: Verb, resource: &str) -> u64 {
        self.sum(|key| key.verb == verb && key.resource == resource && !key.dry_run)
            .requests
    }

    /// Dry runs with this verb on this resource.
    pub fn count_dry_runs(&self, verb: Verb, resource: &str) -> u64 {
        self.sum(|key| key.verb == verb && key.resource == resource && key.dry_run)
            .requests
    }
}

/// A table, a line a key.
impl fmt::Display for RequestCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, tally) in &self.0 {
            let dry = if key.dry_run { " (dry run)" } else { "" };
            writeln!(
                formatter,
                "{:>8} {:>10} B in {:>10} B out {:>5} failed  {} {}{dry}  {}",
                tally.requests,
                tally.request_bytes,
                tally.response_bytes,
                tally.failures,
                key.verb,
                key.resource,
                key.user_agent,
            )?;
        }
        Ok(())
    }
}
