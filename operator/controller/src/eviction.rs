//! Evicts gangs that violate a policy with `onViolation: Evict`.
//!
//! Only a certain decision evicts a gang. An uncertain decision only keeps new gangs from starting.

pub(super) mod decisions;
pub(super) mod violations;

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::journal::eviction::EvictionReasons;
use trellis_gang::key::Key;

use super::Controller;
use super::build::PolicyOutcome;
use super::job_context::JobContext;

/// Most jobs that are evicted in one [`WINDOW`].
const MAX_EVICTIONS: usize = 10;
/// Window of the rate limit. The author of a wrong policy has time to correct it before all jobs
/// are evicted.
const WINDOW: Duration = Duration::from_secs(60);
/// Pause before the next check while a watch is broken.
const BROKEN_WATCH_RETRY: Duration = Duration::from_secs(30);
/// Most policies that a message names.
const MAX_NAMED_POLICIES: usize = 3;

/// Returns the message of an evicted job.
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
    /// Admits the eviction of a job, or returns how long the eviction must wait. A job counts once,
    /// even if a failed write is repeated. No eviction is admitted while a watch is broken, because
    /// the violation may have been corrected.
    fn admit(&mut self, job: &Key, is_watch_broken: bool, now: Instant) -> Result<(), Duration> {
        if is_watch_broken {
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
        if self.recent.iter().any(|(recent, _)| recent == job) {
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

/// The eviction of a job, if it is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DueEviction {
    /// Why the job has to be evicted now, in words.
    pub(super) message: Option<String>,
    /// Time of the next check, if the eviction must wait.
    pub(super) check_again_at: Option<Timestamp>,
}

impl Controller {
    /// Decides whether the job's gang is evicted because policies forbid it.
    pub(super) fn due_eviction(
        &self,
        key: &Key,
        job_context: &JobContext,
        policy_outcome: Option<&PolicyOutcome>,
        now: Timestamp,
    ) -> DueEviction {
        let evicting = policy_outcome.and_then(|policy_outcome| policy_outcome.evicting.as_ref());
        let reasons = evicting.map(|evicting| evicting.eviction_reasons(job_context));
        let Some(reasons) = reasons.filter(|reasons| !reasons.is_empty()) else {
            return DueEviction::default();
        };
        // A suspended job stops for that reason, and a gang under commit is rolled back.
        let journal = job_context.journal().and_then(|journal| journal.phase);
        if job_context.job.spec.is_suspended() || journal != Some(PodGroupPhase::Placed) {
            return DueEviction::default();
        }
        let is_watch_broken = self.context.cache.stale_watch().is_some();
        match self
            .eviction_pace
            .lock()
            .admit(key, is_watch_broken, Instant::now())
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
        let (mut limit, start) = (EvictionRateLimit::default(), Instant::now());
        let mut admit = |n, at| limit.admit(&job(n), false, at);
        let second = |n| start + Duration::from_secs(n);
        for n in 0..MAX_EVICTIONS {
            let at = second(u64::try_from(n).unwrap());
            assert_eq!(admit(n, at), Ok(()));
            assert_eq!(admit(n, at), Ok(()), "a repeated eviction counts once");
        }
        assert_eq!(admit(10, second(20)), Err(Duration::from_secs(40)));
        assert_eq!(admit(3, second(20)), Ok(()));
        assert_eq!(admit(10, second(59)), Err(Duration::from_secs(1)));
        assert_eq!(admit(10, second(60)), Ok(()));
        // The second eviction is now the oldest.
        assert_eq!(admit(11, second(60)), Err(Duration::from_secs(1)));
    }

    #[test]
    fn rate_limit_admits_no_eviction_while_a_watch_is_broken() {
        let (mut limit, now) = (EvictionRateLimit::default(), Instant::now());
        assert_eq!(limit.admit(&job(0), true, now), Err(BROKEN_WATCH_RETRY));
        assert!(limit.recent.is_empty());
        // This also holds for a job that was admitted before.
        assert_eq!(limit.admit(&job(0), false, now), Ok(()));
        assert_eq!(limit.admit(&job(0), true, now), Err(BROKEN_WATCH_RETRY));
    }

    #[test]
    fn eviction_message_names_the_forbidding_policies() {
        let message_for = |ids: &[&str]| {
            let reasons = ids
                .iter()
                .map(|id| ((*id).to_owned(), "it runs".to_owned()));
            eviction_message(&reasons.collect())
        };
        assert_eq!(
            message_for(&["a/0", "b/0"]),
            "stopped (onViolation: Evict): it runs, which the policy \"a/0\" forbids; it runs, \
             which the policy \"b/0\" forbids"
        );
        assert!(message_for(&["a", "b", "c", "d", "e"]).ends_with("\"c\" forbids; and 2 more"));
    }
}
