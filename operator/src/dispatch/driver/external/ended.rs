//! What has come of the task of an external gang.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tracing::{debug, info};
use trellis_api::Reason;

use super::super::{Driver, Inside};
use crate::dispatch::Feed;
use crate::dispatch::commit::Outcome;
use crate::gang::Certificate;
use crate::gang::external;
use crate::gang::external::Unit;
use crate::gang::journal;
use crate::gang::key::Key;

/// Back-off of a pod alone that could not be bound: the first, doubled each time.
const FIRST_RETRY: i64 = 5;
const LONGEST_RETRY: i64 = 300;

impl Driver {
    pub(in super::super) fn ended_external_pods(&mut self, unit: &Key, outcome: Outcome) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        state.task = None;
        // Whether it has joined its gang or not, others are asked about without it, or with it.
        let joins = state.joins;
        // That its claims are being bound is told of jobs.
        self.committer.context().certificates.write().remove(unit);
        let outcome = match outcome {
            Outcome::Avoid(nodes, outcome) => {
                for node in nodes {
                    state.avoided.note(&node, Instant::now());
                }
                *outcome
            }
            outcome => outcome,
        };
        if !matches!(outcome, Outcome::Again(_)) {
            state.pause.end();
        }
        if let Some(group) = self.gang_of(unit, joins).filter(|_| joins) {
            let look = Feed::Look(external::of_group(&group));
            self.committer.context().tell(look);
        }
        match outcome {
            Outcome::Done => self.is_done(unit),
            Outcome::Kept(kept) => {
                let victim = kept.victim.clone();
                self.kept_for_external_pods(unit, &victim, kept.message);
            }
            Outcome::PutOff(reason, message) => self.put_external_pods_off(unit, reason, message),
            Outcome::OverQuota(_, message) => {
                self.put_external_pods_off(unit, Reason::ResourceQuotaExceeded, message);
            }
            Outcome::Undo(reason, message) => match external::unit(unit) {
                Some(Unit::Group(_)) => self.undo(unit, reason, message, true),
                _ => self.put_external_pods_off(unit, reason, message),
            },
            Outcome::Again(message) => self.again(unit, &message),
            Outcome::Nominated(victims) => self.tell_victims_of_pod(unit, victims),
            Outcome::Replan(_) | Outcome::Avoid(..) => {}
        }
    }

    /// A place that was found and is not carried out is not had: nobody wanted it any more.
    fn is_done(&mut self, unit: &Key) {
        let Some(Unit::Pod(pod)) = external::unit(unit) else {
            return;
        };
        if self.inside_of_external_pods(unit) == Inside::Nominated {
            return self.withdraw(unit);
        }
        let there = self.committer.context().cache.external_pods.get(&pod);
        let is_bound = there.is_some_and(|pod| pod.is_bound());
        if let Some(state) = self.external_pods.gangs.get_mut(unit).filter(|_| is_bound) {
            state.failures = 0;
            state.retry = None;
        }
    }

    fn again(&mut self, unit: &Key, message: &str) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        let until = state.pause.begin(Instant::now());
        debug!(gang = %unit, why = %message, "again");
        self.alarms.set(unit, until);
        // Whether the plan was written is known: a task does not end before.
        if self.external_pods_plan(unit).is_none() {
            self.withdraw(unit);
        }
    }

    /// The pods are not placed for this reason, and tried again later.
    pub(super) fn put_external_pods_off(&mut self, unit: &Key, reason: Reason, message: String) {
        info!(gang = %unit, %reason, why = %message, "put off");
        self.committer.context().counts.put_off(reason);
        self.withdraw(unit);
        let certificate = Certificate::waits(reason, message.clone());
        if matches!(external::unit(unit), Some(Unit::Group(_))) {
            let idle = self
                .external_pods
                .gangs
                .get(unit)
                .is_some_and(|state| state.task.is_none());
            if idle {
                self.write(unit, move |before| {
                    journal::put_off(before, reason, message, Timestamp::now())
                });
            }
            // After that: to write that it waits would come in the way of when it is tried again.
            return self.say_to_external_pods(unit, certificate);
        }
        self.say_to_external_pods(unit, certificate);
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        let doubled = i64::from(2).saturating_pow(state.failures);
        let wait = FIRST_RETRY.saturating_mul(doubled).min(LONGEST_RETRY);
        state.failures = state.failures.saturating_add(1);
        let retry = Timestamp::now().saturating_add(SignedDuration::from_secs(wait));
        state.retry = retry.ok();
        let wait = Duration::from_secs(u64::try_from(wait).unwrap_or(0));
        if let Some(at) = Instant::now().checked_add(wait) {
            self.alarms.set(unit, at);
        }
    }

    /// Where the gang is in the engine.
    pub(in super::super) fn inside_of_external_pods(&self, unit: &Key) -> Inside {
        let state = self.external_pods.gangs.get(unit);
        state.map(|state| state.inside).unwrap_or_default()
    }
}
