//! Evicts gangs that run something a policy with `onViolation: Evict` forbids.
//!
//! Only a certain decision evicts. An uncertain one keeps new gangs from starting.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::job::JobProfile;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::eviction::{EvictionReasons, eviction_reasons};
use trellis_gang::key::Key;
use trellis_policies::cedar::JobDecision;

use super::Controller;
use super::build::Decided;
use super::dereference::Surrounded;

/// Jobs that are evicted in any [`WINDOW`] at most.
const MOST: usize = 10;
/// Gives the author of a wrong policy time to take it back before it has stopped everything.
const WINDOW: Duration = Duration::from_secs(60);
/// How long until a blind operator checks again.
const UNSEEN: Duration = Duration::from_secs(30);
/// Policies that a message names at most.
const NAMED: usize = 3;

/// Demands of a job, as it was built, that evicting policies forbid.
#[derive(Clone, Debug)]
pub(super) struct Violated {
    /// Decision on the job as it is. If its stamp is not trusted, also the decision for the
    /// requester that the stamp names.
    decisions: Vec<JobDecision>,
    /// Hash of the compiled job.
    compiled: String,
    /// Profile with which the job was compiled.
    profile: Option<JobProfile>,
}

impl Violated {
    /// None: no demand is a reason to evict the job.
    pub(super) fn of(
        decision: JobDecision,
        believed: Option<JobDecision>,
        compiled: String,
        profile: Option<JobProfile>,
    ) -> Option<Self> {
        if decision.evicting(|_| true).is_empty() {
            return None;
        }
        Some(Self {
            decisions: [decision].into_iter().chain(believed).collect(),
            compiled,
            profile,
        })
    }

    /// Reasons to evict the running gang. Empty if they are not certain.
    pub(super) fn eviction_reasons(&self, seen: &Surrounded) -> EvictionReasons {
        let Some(plan) = seen.place().filter(|_| seen.is_placed()) else {
            return EvictionReasons::new();
        };
        // Compiled with another profile it is not what runs.
        let is_what_runs =
            plan.compiled == self.compiled || seen.told_profile() == self.profile.as_ref();
        if !(seen.namespace_labels.is_some() && is_what_runs) {
            return EvictionReasons::new();
        }
        eviction_reasons(plan, &self.decisions)
    }
}

/// Message of an evicted job.
fn told(reasons: &EvictionReasons) -> String {
    let named = reasons.iter().take(NAMED);
    let named: Vec<_> = named
        .map(|(id, words)| format!("{words}, which the policy {id:?} forbids"))
        .collect();
    let more = match reasons.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("stopped (onViolation: Evict): {}{more}", named.join("; "))
}

/// Jobs that were evicted recently.
#[derive(Debug, Default)]
pub(super) struct Pace {
    begun: VecDeque<(Key, Instant)>,
}

impl Pace {
    /// Admits the eviction of a job, or returns how long it has to wait. A job that asks again
    /// after a failed write is not counted twice. No job is admitted while a watch is broken,
    /// because the violation may have been mended.
    fn admit(&mut self, job: &Key, is_blind: bool, now: Instant) -> Result<(), Duration> {
        if is_blind {
            return Err(UNSEEN);
        }
        let age = |at: Instant| now.saturating_duration_since(at);
        while self.begun.front().is_some_and(|(_, at)| age(*at) >= WINDOW) {
            self.begun.pop_front();
        }
        if self.begun.iter().any(|(begun, _)| begun == job) {
            return Ok(());
        }
        match self.begun.front() {
            Some((_, oldest)) if self.begun.len() >= MOST => {
                Err(WINDOW.saturating_sub(age(*oldest)))
            }
            _ => {
                self.begun.push_back((job.clone(), now));
                Ok(())
            }
        }
    }
}

/// Eviction of a job, if it is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Eviction {
    /// Why the job has to be evicted now, in words.
    pub(super) now: Option<String>,
    /// When to check again, if the eviction has to wait.
    pub(super) again: Option<Timestamp>,
}

impl Controller {
    /// Decides whether the job's gang is evicted because policies forbid what it runs.
    pub(super) fn eviction(
        &self,
        key: &Key,
        seen: &Surrounded,
        decided: Option<&Decided>,
        now: Timestamp,
    ) -> Eviction {
        let violated = decided.and_then(|decided| decided.violated.as_ref());
        let reasons = violated.map(|violated| violated.eviction_reasons(seen));
        let Some(reasons) = reasons.filter(|reasons| !reasons.is_empty()) else {
            return Eviction::default();
        };
        // A suspended job stops anyway, and a gang that is being placed is rolled back.
        let journal = seen.journal().and_then(|journal| journal.phase);
        if seen.job.spec.is_suspended() || journal != Some(PodGroupPhase::Placed) {
            return Eviction::default();
        }
        let is_blind = self.context.cache.unseen().is_some();
        match self.pace.lock().admit(key, is_blind, Instant::now()) {
            Ok(()) => Eviction {
                now: Some(told(&reasons)),
                again: None,
            },
            Err(wait) => Eviction {
                now: None,
                again: SignedDuration::try_from(wait)
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
    fn ten_jobs_a_minute_and_each_is_counted_once() {
        let (mut paced, start) = (Pace::default(), Instant::now());
        let mut admit = |n, at| paced.admit(&job(n), false, at);
        let second = |n| start + Duration::from_secs(n);
        for n in 0..MOST {
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
    fn who_sees_nothing_stops_nobody_and_counts_nobody() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert_eq!(pace.admit(&job(0), true, now), Err(UNSEEN));
        assert!(pace.begun.is_empty());
        // Not even one that was being stopped.
        assert_eq!(pace.admit(&job(0), false, now), Ok(()));
        assert_eq!(pace.admit(&job(0), true, now), Err(UNSEEN));
    }

    #[test]
    fn a_job_names_the_policies_that_stop_it() {
        let of = |ids: &[&str]| {
            let all = ids
                .iter()
                .map(|id| ((*id).to_owned(), "it runs".to_owned()));
            told(&all.collect())
        };
        assert_eq!(
            of(&["a/0", "b/0"]),
            "stopped (onViolation: Evict): it runs, which the policy \"a/0\" forbids; it runs, \
             which the policy \"b/0\" forbids"
        );
        assert!(of(&["a", "b", "c", "d", "e"]).ends_with("\"c\" forbids; and 2 more"));
    }
}
