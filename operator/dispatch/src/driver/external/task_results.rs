//! Handles the result of an external gang's task.

use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;
use tokio::time::Instant;
use tracing::{debug, info};
use trellis_api::Reason;
use trellis_gang::external::ExternalGangRef;
use trellis_gang::key::Key;
use trellis_gang::{GangExplanation, external, journal};
use trellis_machine::clock;

use super::super::{Driver, EngineState};
use crate::SchedulerEvent;
use crate::task_outcome::TaskOutcome;

/// Back-off of a single pod that could not be bound: the first pause, doubled each time.
const FIRST_RETRY: i64 = 5;
const LONGEST_RETRY: i64 = 300;

impl Driver {
    pub(in super::super) fn handle_external_task_result(
        &mut self,
        unit: &Key,
        outcome: TaskOutcome,
    ) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        state.task = None;
        // It is now certain whether the gang's count includes the pod, so the gang's other pods are
        // checked again.
        let joins = state.joins_placed_gang;
        // This explanation says that claims are being bound, which only jobs report.
        self.committer.context().explanations.write().remove(unit);
        let outcome = match outcome {
            TaskOutcome::Avoid(nodes, outcome) => {
                for node in nodes {
                    state.avoided.add_failure(&node, Instant::now());
                }
                *outcome
            }
            outcome => outcome,
        };
        if !matches!(outcome, TaskOutcome::Retry(_)) {
            state.pause.end();
        }
        if let Some(group) = self.pod_group_of(unit, joins).filter(|_| joins) {
            let look = SchedulerEvent::Recheck(external::pod_group_gang_key(&group));
            self.committer.context().send_event(look);
        }
        match outcome {
            TaskOutcome::Done => self.handle_external_task_done(unit),
            TaskOutcome::VictimProtected(kept) => {
                let victim = kept.victim.clone();
                self.handle_external_protected_victim(unit, &victim, kept.message);
            }
            TaskOutcome::PutOff(reason, message) => {
                self.put_off_external_pods(unit, reason, message)
            }
            TaskOutcome::OverQuota(_, message) => {
                self.put_off_external_pods(unit, Reason::ResourceQuotaExceeded, message);
            }
            TaskOutcome::RollBack(reason, message) => match external::parse_gang_key(unit) {
                Some(ExternalGangRef::Group(_)) => self.roll_back(unit, reason, message, true),
                _ => self.put_off_external_pods(unit, reason, message),
            },
            TaskOutcome::Retry(message) => self.retry_external(unit, &message),
            TaskOutcome::Nominated(victims) => self.ask_victims_of_pod_to_leave(unit, victims),
            TaskOutcome::Replan(_) | TaskOutcome::Avoid(..) => {}
        }
    }

    /// Releases a place that was found but not carried out, because the request was withdrawn.
    fn handle_external_task_done(&mut self, unit: &Key) {
        let Some(ExternalGangRef::Pod(pod)) = external::parse_gang_key(unit) else {
            return;
        };
        if self.external_engine_state(unit) == EngineState::Nominated {
            return self.withdraw(unit);
        }
        let there = self.committer.cache().external_pods.get(&pod);
        let is_bound = there.is_some_and(|pod| pod.is_bound());
        if let Some(state) = self.external_pods.gangs.get_mut(unit).filter(|_| is_bound) {
            state.failures = 0;
            state.retry_at = None;
        }
    }

    fn retry_external(&mut self, unit: &Key, message: &str) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        let until = state.pause.begin(Instant::now());
        debug!(gang = %unit, why = %message, "again");
        self.alarms.set(unit, until);
        // A task ends only when it knows whether the plan was written.
        if self.external_place_id(unit).is_none() {
            self.withdraw(unit);
        }
    }

    /// Puts the pods off for this reason. The scheduler tries them again later.
    pub(super) fn put_off_external_pods(&mut self, unit: &Key, reason: Reason, message: String) {
        info!(gang = %unit, %reason, why = %message, "put off");
        self.committer.context().metrics.count_put_off(reason);
        self.withdraw(unit);
        let explanation = GangExplanation::waiting(reason, message.clone());
        if matches!(
            external::parse_gang_key(unit),
            Some(ExternalGangRef::Group(_))
        ) {
            let idle = self
                .external_pods
                .gangs
                .get(unit)
                .is_some_and(|state| state.task.is_none());
            if idle {
                self.write_journal(unit, move |before| {
                    journal::postpone(before, reason, message, clock::now())
                });
            }
            // The report follows that write, because the journal entry for a pending gang would
            // overwrite the retry time.
            return self.explain_to_external_pods(unit, explanation);
        }
        self.explain_to_external_pods(unit, explanation);
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        let doubled = i64::from(2).saturating_pow(state.failures);
        let wait = FIRST_RETRY.saturating_mul(doubled).min(LONGEST_RETRY);
        state.failures = state.failures.saturating_add(1);
        let retry = clock::now().saturating_add(SignedDuration::from_secs(wait));
        state.retry_at = retry.ok();
        let wait = Duration::from_secs(u64::try_from(wait).unwrap_or(0));
        if let Some(at) = Instant::now().checked_add(wait) {
            self.alarms.set(unit, at);
        }
    }

    /// Returns the state of the gang in the engine.
    pub(in super::super) fn external_engine_state(&self, unit: &Key) -> EngineState {
        let state = self.external_pods.gangs.get(unit);
        state.map(|state| state.engine_state).unwrap_or_default()
    }
}
