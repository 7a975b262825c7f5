//! Counts of requests by client, verb and resource.

use std::{
    collections::BTreeMap,
    fmt,
    ops::{Add, AddAssign},
};

use super::{
    Request, Verb,
    request::{is_lease, is_write},
};

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
    /// Returns true if these requests are writes. See [`Request::is_write`].
    pub fn is_write(&self) -> bool {
        is_write(self.verb, &self.resource, self.dry_run)
    }

    /// Returns true for requests of leader election. See [`Request::is_lease`].
    pub fn is_lease(&self) -> bool {
        is_lease(&self.resource)
    }
}

/// Number and size of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrafficTotals {
    /// Number of requests, including failed ones.
    pub requests: u64,
    /// Size of the request bodies, in bytes.
    pub request_bytes: u64,
    /// Size of the response bodies on the wire, in bytes. A running watch counts continuously.
    pub response_bytes: u64,
    /// Number of answers with a status of 400 or more, and of cut connections.
    pub failures: u64,
    /// Number of answers of the API server with a status below 300. A request whose client has gone
    /// before the answer counts neither as a success nor as a failure.
    pub successes: u64,
}

impl AddAssign for TrafficTotals {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
        self.failures += other.failures;
        self.successes += other.successes;
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

    /// Returns every key with its totals, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&RequestKey, &TrafficTotals)> {
        self.0.iter()
    }

    /// Returns the sum over the matching keys.
    pub fn sum(&self, matches: impl Fn(&RequestKey) -> bool) -> TrafficTotals {
        self.0
            .iter()
            .filter(|(key, _)| matches(key))
            .fold(TrafficTotals::default(), |sum, (_, tally)| sum + *tally)
    }

    /// Returns the number of all requests.
    pub fn total_requests(&self) -> u64 {
        self.sum(|_| true).requests
    }

    /// Returns the number of writes, without dry runs.
    pub fn total_writes(&self) -> u64 {
        self.sum(RequestKey::is_write).requests
    }

    /// Returns the number of requests with this verb and resource, without dry runs.
    pub fn count_of(&self, verb: Verb, resource: &str) -> u64 {
        self.sum(|key| key.verb == verb && key.resource == resource && !key.dry_run)
            .requests
    }

    /// Returns the number of dry runs with this verb and resource.
    pub fn count_dry_runs(&self, verb: Verb, resource: &str) -> u64 {
        self.sum(|key| key.verb == verb && key.resource == resource && key.dry_run)
            .requests
    }
}

/// Renders a table with one line per key.
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
