//! Writes conditions of the pods of an external gang, each reason once, and the status of its
//! PodGroup.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;
use trellis_api::Reason;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::external::{ExternalGangRef, plan};
use trellis_gang::key::Key;
use trellis_gang::{GangExplanation, external};

use super::super::Driver;
use crate::SchedulerEvent;

/// How long a reason that mostly passes by itself must last before it is written. Pods come one
/// after the other, and their claims later.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// Shortest time between two conditions of a pod, so that a flapping reason does not cause a stream
/// of writes. A reason that never settles is also written at this interval.
const MIN_CONDITION_INTERVAL: Duration = Duration::from_secs(10);
/// How often the pause doubles after failed writes, and for a gang whose reason keeps changing.
/// Each change costs a write per pod.
const MAX_DOUBLINGS: u32 = 5;
/// The longest pause. A gang whose reason has not changed for this long is quiet.
const QUIET_TIME: Duration = MIN_CONDITION_INTERVAL.saturating_mul(1 << MAX_DOUBLINGS);

/// State of the conditions written to the pods of one gang.
#[derive(Debug, Default)]
pub(super) struct ConditionWrites {
    /// Last condition of each pod, by uid.
    pub(super) written: BTreeMap<String, WrittenCondition>,
    /// The running task that writes conditions: its number, and the explanation that it writes.
    pub(super) running_task: Option<(u64, GangExplanation)>,
    /// Number of tasks in a row that failed for some pods.
    failed_tasks: u32,
    /// How often the reason has changed without a quiet time between.
    pub(super) changes: u32,
    /// The last reason that counted as a change. Pods that get the same reason later do not count
    /// as a change.
    last_reason: Option<Reason>,
    /// When a reason that differed from the pods' conditions was last due.
    last_change: Option<Instant>,
    /// Explanation to write later.
    delayed: Option<GangExplanation>,
    /// Explanation that may pass by itself.
    settling: Option<SettlingExplanation>,
    /// Reason last written to the PodGroup's status, and when.
    pub(super) status_write: Option<(Reason, Instant)>,
}

#[derive(Debug)]
pub(super) struct WrittenCondition {
    /// Empty for a pod whose condition could not be written.
    pub(super) reason_prefix: String,
    /// The pod gets no other condition before this time.
    not_before: Instant,
}

#[derive(Debug)]
struct SettlingExplanation {
    message: String,
    /// The explanation is written at this time if it is still the same.
    write_at: Instant,
    /// By this time, an explanation is written in any case.
    latest: Instant,
    is_written: bool,
}

fn add_saturating(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now)
}

impl ConditionWrites {
    /// Returns the pause until pods that are written now may get another condition. `is_change`:
    /// some pods had another reason before.
    fn next_pause(&mut self, reason: Reason, is_change: bool) -> Duration {
        if is_change && self.last_reason.replace(reason) != Some(reason) {
            self.changes = self.changes.saturating_add(1).min(MAX_DOUBLINGS);
        }
        MIN_CONDITION_INTERVAL.saturating_mul(1 << self.changes)
    }

    /// Records that a reason that differs from the pods' conditions is due.
    fn record_change(&mut self, now: Instant) {
        let since = self.last_change.replace(now);
        if since.is_some_and(|since| now.duration_since(since) >= QUIET_TIME) {
            self.changes = 0;
            self.last_reason = None;
        }
    }
}

/// Returns the message of the pods' conditions. Only the PodGroup shows how many pods are missing.
/// Otherwise every pod that comes or goes would cause a write to each other pod.
fn pod_condition_message(unit: &Key, explanation: &GangExplanation) -> String {
    match external::parse_gang_key(unit) {
        Some(ExternalGangRef::Group(group)) if explanation.reason == Reason::MembersMissing => {
            format!(
                "fewer pods without scheduling gates are there than PodGroup {:?} asks for (spec.minMember): its status says how many",
                &*group.name
            )
        }
        _ => explanation.message.clone(),
    }
}

impl ConditionWrites {
    /// Drops an explanation that no longer holds.
    pub(super) fn drop_delayed(&mut self) {
        self.delayed = None;
    }
}

impl Driver {
    /// Reports why pods have no node.
    pub(in super::super) fn explain_to_external_pods(
        &mut self,
        unit: &Key,
        explanation: GangExplanation,
    ) {
        // A delayed explanation is outdated now.
        if let Some(state) = self.external_pods.gangs.get_mut(unit) {
            state.conditions.delayed = None;
        }
        // The pods already show the reason of the failure, and the retry is not worth a write.
        if explanation.reason == Reason::BackingOff {
            return;
        }
        let passes = matches!(
            explanation.reason,
            Reason::MembersMissing | Reason::ClaimNotBound
        );
        let is_said = match passes && !self.has_settled(unit, &explanation.message) {
            true => false,
            // Both calls run, even if the first returns false.
            false => {
                self.write_external_conditions(unit, &explanation)
                    & self.write_group_status(unit, &explanation)
            }
        };
        if !is_said {
            let state = self.external_pods.gangs.entry(unit.clone()).or_default();
            state.conditions.delayed = Some(explanation);
        }
    }

    /// Writes a delayed explanation. Any newer one would have replaced it.
    pub(super) fn write_delayed_explanation(&mut self, unit: &Key) {
        let state = self.external_pods.gangs.get_mut(unit);
        if let Some(explanation) = state.and_then(|state| state.conditions.delayed.take()) {
            self.explain_to_external_pods(unit, explanation);
        }
    }

    /// Writes the condition of pods that do not have it yet. Returns false if some are written
    /// later.
    fn write_external_conditions(&mut self, unit: &Key, explanation: &GangExplanation) -> bool {
        let reason = explanation.reason;
        let words = format!("{reason}: ");
        let waiting = self.pods_of_unit(unit).into_iter();
        let mut waiting: Vec<_> = waiting
            .filter(|(_, pod)| pod.is_waiting() && pod.scheduling_gates().next().is_none())
            .collect();
        if matches!(
            external::parse_gang_key(unit),
            Some(ExternalGangRef::Group(_))
        ) {
            // Pods that are placed singly get their own explanation.
            waiting.retain(|(pod, _)| {
                !self
                    .external_pods
                    .gangs
                    .contains_key(&external::pod_gang_key(pod))
            });
        }
        let number = self.external_pods.next_condition_task();
        let conditions = &mut self
            .external_pods
            .gangs
            .entry(unit.clone())
            .or_default()
            .conditions;
        if conditions.running_task.is_some() {
            // The condition is written once that task has ended.
            return false;
        }
        let there: HashSet<&str> = waiting.iter().map(|(_, pod)| pod.uid.as_str()).collect();
        conditions
            .written
            .retain(|uid, _| there.contains(uid.as_str()));
        let now = Instant::now();
        // The condition of a pod whose write failed is unknown.
        let is_change = |written_condition: &WrittenCondition| {
            !written_condition.reason_prefix.is_empty() && written_condition.reason_prefix != words
        };
        if conditions.written.values().any(is_change) {
            conditions.record_change(now);
        }
        let mut written = conditions.written.values();
        let is_rewritable =
            written.any(|condition| is_change(condition) && condition.not_before <= now);
        let next = add_saturating(now, conditions.next_pause(reason, is_rewritable));
        let mut to_write = Vec::new();
        let mut later: Option<Instant> = None;
        for (key, pod) in waiting {
            let written_condition = conditions.written.get(&pod.uid);
            if written_condition.is_some_and(|condition| condition.reason_prefix == words) {
                continue;
            }
            if let Some(next) = written_condition
                .map(|condition| condition.not_before)
                .filter(|next| *next > now)
            {
                later = Some(later.map_or(next, |later| later.min(next)));
                continue;
            }
            // An earlier leader wrote this condition.
            let shown = pod.unscheduled_condition.as_ref();
            let is_shown = shown.is_some_and(|(_, message)| message.starts_with(&words));
            if written_condition.is_some() || !is_shown {
                to_write.push((key.name.to_string(), pod.uid.clone()));
            }
            let written_condition = WrittenCondition {
                reason_prefix: words.clone(),
                not_before: next,
            };
            conditions
                .written
                .insert(pod.uid.clone(), written_condition);
        }
        if let Some(later) = later {
            self.alarms.set(unit, later);
        }
        if !to_write.is_empty() {
            let message = pod_condition_message(unit, explanation);
            debug!(gang = %unit, %reason, why = %message, pods = to_write.len(), "waits");
            conditions.running_task = Some((number, explanation.clone()));
            let all: Vec<String> = to_write.iter().map(|(_, uid)| uid.clone()).collect();
            let (committer, namespace) = (self.committer.clone(), unit.namespace.to_string());
            let context = committer.context().clone();
            let task = tokio::spawn(async move {
                committer
                    .write_pod_conditions(namespace, to_write, reason, message)
                    .await
            });
            let unit = unit.clone();
            tokio::spawn(async move {
                // If the task panicked, any of the writes may have failed.
                let missed = task.await.unwrap_or(all);
                context.send_event(SchedulerEvent::ConditionsWritten(unit, number, missed));
            });
        }
        later.is_none()
    }

    /// Handles the result of a task. The pods in `missed` are written again after a growing pause.
    pub(in super::super) fn handle_condition_results(
        &mut self,
        unit: &Key,
        number: u64,
        missed: &[String],
    ) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        let conditions = &mut state.conditions;
        let is_same_task = |(running, _): &mut (u64, GangExplanation)| *running == number;
        let Some((_, explanation)) = conditions.running_task.take_if(is_same_task) else {
            return;
        };
        let wait = MIN_CONDITION_INTERVAL.saturating_mul(1 << conditions.failed_tasks);
        let next = add_saturating(Instant::now(), wait);
        conditions.failed_tasks = match missed.is_empty() {
            true => 0,
            false => conditions.failed_tasks.saturating_add(1).min(MAX_DOUBLINGS),
        };
        for uid in missed {
            let words = String::new();
            conditions.written.insert(
                uid.clone(),
                WrittenCondition {
                    reason_prefix: words,
                    not_before: next,
                },
            );
        }
        if !missed.is_empty() {
            conditions.delayed.get_or_insert(explanation);
        }
        self.write_delayed_explanation(unit);
    }

    /// Returns true once a message has been the same for a while, or messages have changed for
    /// longer than `MIN_CONDITION_INTERVAL`.
    fn has_settled(&mut self, unit: &Key, message: &str) -> bool {
        let now = Instant::now();
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let before = state.conditions.settling.take();
        let mut settling = match before {
            Some(before) if before.message == message => before,
            before => {
                let latest = before.filter(|before| !before.is_written);
                let latest = latest.map_or_else(
                    || add_saturating(now, MIN_CONDITION_INTERVAL),
                    |before| before.latest,
                );
                SettlingExplanation {
                    message: message.to_owned(),
                    write_at: add_saturating(now, SETTLE_TIME).min(latest),
                    latest,
                    is_written: false,
                }
            }
        };
        settling.is_written = settling.write_at <= now;
        if !settling.is_written {
            self.alarms.set(unit, settling.write_at);
        }
        let is_written = settling.is_written;
        state.conditions.settling = Some(settling);
        is_written
    }

    /// Writes the reason to the PodGroup's status. Returns false if it is written later.
    fn write_group_status(&mut self, unit: &Key, explanation: &GangExplanation) -> bool {
        let Some(ExternalGangRef::Group(group)) = external::parse_gang_key(unit) else {
            return true;
        };
        let Some(group) = self.users_pod_group(&group) else {
            return true;
        };
        let GangExplanation {
            reason, message, ..
        } = explanation.clone();
        let journal = group.status.as_ref();
        let is_pending =
            journal.and_then(|j| j.phase).unwrap_or_default() == PodGroupPhase::Pending;
        let is_written = journal.is_some_and(|journal| {
            let says =
                reason != Reason::MembersMissing || journal.message.as_ref() == Some(&message);
            journal.reason == Some(reason) && says
        });
        if !is_pending || is_written {
            return true;
        }
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return true;
        };
        if state.task.is_some() {
            // The journal is being written. The reason follows.
            return false;
        }
        let now = Instant::now();
        let next = state.conditions.status_write.map(|(before, at)| {
            let pause = if before == reason {
                SETTLE_TIME
            } else {
                MIN_CONDITION_INTERVAL
            };
            add_saturating(at, pause)
        });
        if let Some(next) = next.filter(|next| *next > now) {
            self.alarms.set(unit, next);
            return false;
        }
        state.conditions.status_write = Some((reason, now));
        self.write_journal(unit, move |before| {
            plan::set_wait_reason(before, reason, &message)
        });
        true
    }
}
