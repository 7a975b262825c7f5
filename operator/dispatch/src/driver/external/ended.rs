//! Handles the result of an external gang's task.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tracing::{debug, info};
use trellis_api::Reason;
use trellis_gang::external::Unit;
use trellis_gang::key::Key;
use trellis_gang::{Certificate, external, journal};

use super::super::{Driver, Inside};
use crate::Feed;
use crate::commit::Outcome;

/// Back-off of a single pod that could not be bound: the first pause, doubled each time.
const FIRST_RETRY: i64 = 5;
const LONGEST_RETRY: i64 = 300;

impl Driver {
    pub(in super::super) fn ended_external_pods(&mut self, unit: &Key, outcome: Outcome) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        state.task = None;
        // The gang's count now includes the pod or not, so the gang's other pods are checked again.
        let joins = state.joins;
        // This explanation says that claims are being bound, which is shown for jobs only.
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

    /// Releases a place that was found but not carried out, because the request was withdrawn.
    fn is_done(&mut self, unit: &Key) {
        let Some(Unit::Pod(pod)) = external::unit(unit) else {
            return;
        };
        if self.inside_of_external_pods(unit) == Inside::Nominated {
            return self.withdraw(unit);
        }
        let there = self.committer.cache().external_pods.get(&pod);
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
        // A task ends only when it knows whether the plan was written.
        if self.external_pods_plan(unit).is_none() {
            self.withdraw(unit);
        }
    }

    /// Puts the pods off for this reason. They are tried again later.
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
            // Reported after that write: the journal entry for a pending gang would overwrite the
            // retry time.
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

    /// State of the gang in the engine.
    pub(in super::super) fn inside_of_external_pods(&self, unit: &Key) -> Inside {
        let state = self.external_pods.gangs.get(unit);
        state.map(|state| state.inside).unwrap_or_default()
    }
}
