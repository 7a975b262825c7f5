//! Evicts gangs that run something a policy with `onViolation: Evict` forbids.
//!
//! Only a certain decision evicts. An uncertain one keeps new gangs from starting.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::eviction::EvictionReasons;
use trellis_gang::key::Key;

use super::Controller;
use super::build::PolicyOutcome;
use super::job_context::JobContext;

/// Jobs that are evicted in any [`WINDOW`] at most.
const MAX_EVICTIONS: usize = 10;
/// Gives the author of a wrong policy time to take it back before it has stopped everything.
const WINDOW: Duration = Duration::from_secs(60);
/// How long until a blind operator checks again.
const BROKEN_WATCH_RETRY: Duration = Duration::from_secs(30);
/// Policies that a message names at most.
const MAX_NAMED_POLICIES: usize = 3;

/// Message of an evicted job.
fn eviction_message(reasons: &EvictionReasons) -> String {
    let named = reasons.iter().take(MAX_NAMED_POLICIES);
    let named: Vec<_> = named
        .map(|(id, words)| format!("{words}, which the policy {id:?} forbids"))
        .collect();
    let more = match reasons.len().saturating_sub(MAX_NAMED_POLICIES) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("stopped (onViolation: Evict): {}{more}", named.join("; "))
}

/// Jobs that were evicted recently.
#[derive(Debug, Default)]
pub(super) struct EvictionRateLimit {
    recent: VecDeque<(Key, Instant)>,
}

impl EvictionRateLimit {
    /// Admits the eviction of a job, or returns how long it has to wait. A job that asks again
    /// after a failed write is not counted twice. No job is admitted while a watch is broken,
    /// because the violation may have been mended.
    fn admit(&mut self, job: &Key, is_blind: bool, now: Instant) -> Result<(), Duration> {
        if is_blind {
            return Err(BROKEN_WATCH_RETRY);
        }
        let age = |at: Instant| now.saturating_duration_since(at);
        while self
            .recent
            .front()
            .is_some_and(|(_, at)| age(*at) >= WINDOW)
        {
            self.recent.pop_front();
        }
        if self.recent.iter().any(|(begun, _)| begun == job) {
            return Ok(());
        }
        match self.recent.front() {
            Some((_, oldest)) if self.recent.len() >= MAX_EVICTIONS => {
                Err(WINDOW.saturating_sub(age(*oldest)))
            }
            _ => {
                self.recent.push_back((job.clone(), now));
                Ok(())
            }
        }
    }
}

/// Eviction of a job, if it is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DueEviction {
    /// Why the job has to be evicted now, in words.
    pub(super) message: Option<String>,
    /// When to check again, if the eviction has to wait.
    pub(super) check_again_at: Option<Timestamp>,
}

impl Controller {
    /// Decides whether the job's gang is evicted because policies forbid what it runs.
    pub(super) fn due_eviction(
        &self,
        key: &Key,
        seen: &JobContext,
        decided: Option<&PolicyOutcome>,
        now: Timestamp,
    ) -> DueEviction {
        let violated = decided.and_then(|decided| decided.evicting.as_ref());
        let reasons = violated.map(|violated| violated.eviction_reasons(seen));
        let Some(reasons) = reasons.filter(|reasons| !reasons.is_empty()) else {
            return DueEviction::default();
        };
        // A suspended job stops anyway, and a gang that is being placed is rolled back.
        let journal = seen.journal().and_then(|journal| journal.phase);
        if seen.job.spec.is_suspended() || journal != Some(PodGroupPhase::Placed) {
            return DueEviction::default();
        }
        let is_blind = self.context.cache.stale_watch().is_some();
        match self
            .eviction_pace
            .lock()
            .admit(key, is_blind, Instant::now())
        {
            Ok(()) => DueEviction {
                message: Some(eviction_message(&reasons)),
                check_again_at: None,
            },
            Err(wait) => DueEviction {
                message: None,
                check_again_at: SignedDuration::try_from(wait)
                    .ok()
                    .and_then(|wait| now.saturating_add(wait).ok()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(n: usize) -> Key {
        Key::new("ns", &format!("j{n}"))
    }

    #[test]
    fn rate_limit_admits_ten_jobs_a_minute_each_counted_once() {
        let (mut paced, start) = (EvictionRateLimit::default(), Instant::now());
        let mut admit = |n, at| paced.admit(&job(n), false, at);
        let second = |n| start + Duration::from_secs(n);
        for n in 0..MAX_EVICTIONS {
            let at = second(u64::try_from(n).unwrap());
            assert_eq!(admit(n, at), Ok(()));
            assert_eq!(admit(n, at), Ok(()), "its write has failed");
        }
        assert_eq!(admit(10, second(20)), Err(Duration::from_secs(40)));
        assert_eq!(admit(3, second(20)), Ok(()));
        assert_eq!(admit(10, second(59)), Err(Duration::from_secs(1)));
        assert_eq!(admit(10, second(60)), Ok(()));
        // The next to leave is the second.
        assert_eq!(admit(11, second(60)), Err(Duration::from_secs(1)));
    }

    #[test]
    fn rate_limit_admits_no_eviction_while_a_watch_is_broken() {
        let (mut pace, now) = (EvictionRateLimit::default(), Instant::now());
        assert_eq!(pace.admit(&job(0), true, now), Err(BROKEN_WATCH_RETRY));
        assert!(pace.recent.is_empty());
        // Not even one that was being stopped.
        assert_eq!(pace.admit(&job(0), false, now), Ok(()));
        assert_eq!(pace.admit(&job(0), true, now), Err(BROKEN_WATCH_RETRY));
    }

    #[test]
    fn eviction_message_names_the_forbidding_policies() {
        let of = |ids: &[&str]| {
            let all = ids
                .iter()
                .map(|id| ((*id).to_owned(), "it runs".to_owned()));
            eviction_message(&all.collect())
        };
        assert_eq!(
            of(&["a/0", "b/0"]),
            "stopped (onViolation: Evict): it runs, which the policy \"a/0\" forbids; it runs, \
             which the policy \"b/0\" forbids"
        );
        assert!(of(&["a", "b", "c", "d", "e"]).ends_with("\"c\" forbids; and 2 more"));
    }
}
