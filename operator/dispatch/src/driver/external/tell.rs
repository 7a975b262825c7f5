//! Writes conditions of the pods of an external gang, each reason once, and the status of its
//! PodGroup.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;
use trellis_api::Reason;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::external::{Unit, plan};
use trellis_gang::key::Key;
use trellis_gang::{Certificate, external};

use super::super::Driver;
use crate::Feed;

/// How long a reason that mostly passes by itself must stay the same before it is written: pods
/// come one after the other, and their claims after them.
const SETTLES: Duration = Duration::from_secs(2);
/// Least time between two conditions of a pod, so that a reason that comes and goes does not become
/// a stream of writes. A reason that never settles is written that often, too.
const AGAIN: Duration = Duration::from_secs(10);
/// How often the pause is doubled after failed writes, and for a gang whose reason changes again
/// and again: each change costs a write per pod.
const DOUBLED: u32 = 5;
/// The longest pause. A gang whose reason has not changed for so long is quiet.
const QUIET: Duration = AGAIN.saturating_mul(1 << DOUBLED);

/// State of the conditions written to the pods of one gang.
#[derive(Debug, Default)]
pub(super) struct Telling {
    /// Last condition of each pod, by uid.
    pub(super) told: HashMap<String, Told>,
    /// The one task that writes conditions: its number, and what it writes.
    pub(super) under_way: Option<(u64, Certificate)>,
    /// Tasks in a row that failed for some pods.
    misses: u32,
    /// How often the reason has changed without a quiet time between.
    pub(super) changes: u32,
    /// The last such reason. Pods that get the same reason later do not count as a change.
    changed_to: Option<Reason>,
    /// When a reason was last due that differed from the pods' conditions.
    restless: Option<Instant>,
    /// Explanation to write later.
    unsaid: Option<Certificate>,
    /// Explanation that may pass by itself.
    settling: Option<Settling>,
    /// Reason last written to the PodGroup's status, and when.
    pub(super) noted: Option<(Reason, Instant)>,
}

#[derive(Debug)]
pub(super) struct Told {
    /// Empty for a pod whose condition could not be written.
    pub(super) words: String,
    /// The pod gets no other condition before.
    next: Instant,
}

#[derive(Debug)]
struct Settling {
    message: String,
    /// Written then, if it is still the same.
    at: Instant,
    /// Something is written by then.
    latest: Instant,
    said: bool,
}

fn after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now)
}

impl Telling {
    /// Pause until pods that are written now may get another condition. `is_change`: some pods had
    /// another reason before.
    fn pause(&mut self, reason: Reason, is_change: bool) -> Duration {
        if is_change && self.changed_to.replace(reason) != Some(reason) {
            self.changes = self.changes.saturating_add(1).min(DOUBLED);
        }
        AGAIN.saturating_mul(1 << self.changes)
    }

    /// Notes that a reason is due that differs from the pods' conditions.
    fn stirs(&mut self, now: Instant) {
        let since = self.restless.replace(now);
        if since.is_some_and(|since| now.duration_since(since) >= QUIET) {
            self.changes = 0;
            self.changed_to = None;
        }
    }
}

/// Message of the pods' conditions. Only the PodGroup shows how many pods are missing: otherwise
/// each pod would be written again whenever another comes or goes.
fn words_for_pods(unit: &Key, certificate: &Certificate) -> String {
    match external::unit(unit) {
        Some(Unit::Group(group)) if certificate.reason == Reason::MembersMissing => format!(
            "fewer pods without scheduling gates are there than PodGroup {:?} asks for (spec.minMember): its status says how many",
            &*group.name
        ),
        _ => certificate.message.clone(),
    }
}

impl Telling {
    /// Drops an explanation that no longer holds.
    pub(super) fn forget(&mut self) {
        self.unsaid = None;
    }
}

impl Driver {
    /// Shows why pods have no node.
    pub(in super::super) fn say_to_external_pods(&mut self, unit: &Key, certificate: Certificate) {
        // A delayed explanation is outdated now.
        if let Some(state) = self.external_pods.gangs.get_mut(unit) {
            state.telling.unsaid = None;
        }
        // The reason of the failure has been shown already, and the retry is not worth a write.
        if certificate.reason == Reason::BackingOff {
            return;
        }
        let passes = matches!(
            certificate.reason,
            Reason::MembersMissing | Reason::ClaimNotBound
        );
        let is_said = match passes && !self.has_settled(unit, &certificate.message) {
            true => false,
            // Both run, whatever the first returns.
            false => {
                self.tell_external_pods(unit, &certificate) & self.note_waiting(unit, &certificate)
            }
        };
        if !is_said {
            let state = self.external_pods.gangs.entry(unit.clone()).or_default();
            state.telling.unsaid = Some(certificate);
        }
    }

    /// Writes a delayed explanation. Any newer one would have replaced it.
    pub(super) fn say_what_is_left(&mut self, unit: &Key) {
        let state = self.external_pods.gangs.get_mut(unit);
        if let Some(certificate) = state.and_then(|state| state.telling.unsaid.take()) {
            self.say_to_external_pods(unit, certificate);
        }
    }

    /// Writes the condition of pods that do not have it yet. False: some are written later.
    fn tell_external_pods(&mut self, unit: &Key, certificate: &Certificate) -> bool {
        let reason = certificate.reason;
        let words = format!("{reason}: ");
        let waiting = self.external_pods(unit).into_iter();
        let mut waiting: Vec<_> = waiting
            .filter(|(_, pod)| pod.waits() && pod.gates().next().is_none())
            .collect();
        if matches!(external::unit(unit), Some(Unit::Group(_))) {
            // Pods that are placed singly get their own explanation.
            waiting.retain(|(pod, _)| {
                !self
                    .external_pods
                    .gangs
                    .contains_key(&external::of_pod(pod))
            });
        }
        let number = self.external_pods.next_telling();
        let telling = &mut self
            .external_pods
            .gangs
            .entry(unit.clone())
            .or_default()
            .telling;
        if telling.under_way.is_some() {
            // Written once that task has ended.
            return false;
        }
        let there: HashSet<&str> = waiting.iter().map(|(_, pod)| pod.uid.as_str()).collect();
        telling.told.retain(|uid, _| there.contains(uid.as_str()));
        let now = Instant::now();
        // The condition of a pod whose write failed is unknown.
        let is_change = |told: &Told| !told.words.is_empty() && told.words != words;
        if telling.told.values().any(is_change) {
            telling.stirs(now);
        }
        let is_told_else = |told: &Told| is_change(told) && told.next <= now;
        let is_told_else = telling.told.values().any(is_told_else);
        let next = after(now, telling.pause(reason, is_told_else));
        let mut tell = Vec::new();
        let mut later: Option<Instant> = None;
        for (key, pod) in waiting {
            let told = telling.told.get(&pod.uid);
            if told.is_some_and(|told| told.words == words) {
                continue;
            }
            if let Some(next) = told.map(|told| told.next).filter(|next| *next > now) {
                later = Some(later.map_or(next, |later| later.min(next)));
                continue;
            }
            // Written by an earlier leader.
            let shown = pod.told.as_ref();
            let is_shown = shown.is_some_and(|(_, told)| told.starts_with(&words));
            if told.is_some() || !is_shown {
                tell.push((key.name.to_string(), pod.uid.clone()));
            }
            let told = Told {
                words: words.clone(),
                next,
            };
            telling.told.insert(pod.uid.clone(), told);
        }
        if let Some(later) = later {
            self.alarms.set(unit, later);
        }
        if !tell.is_empty() {
            let message = words_for_pods(unit, certificate);
            debug!(gang = %unit, %reason, why = %message, pods = tell.len(), "waits");
            telling.under_way = Some((number, certificate.clone()));
            let all: Vec<String> = tell.iter().map(|(_, uid)| uid.clone()).collect();
            let (committer, namespace) = (self.committer.clone(), unit.namespace.to_string());
            let context = committer.context().clone();
            let task =
                tokio::spawn(
                    async move { committer.tell_pods(namespace, tell, reason, message).await },
                );
            let unit = unit.clone();
            tokio::spawn(async move {
                // If the task panicked, any of the writes may have failed.
                let missed = task.await.unwrap_or(all);
                context.tell(Feed::Told(unit, number, missed));
            });
        }
        later.is_none()
    }

    /// Handles the result of a task: `missed` are written again, after a growing pause.
    pub(in super::super) fn were_told(&mut self, unit: &Key, number: u64, missed: &[String]) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        let telling = &mut state.telling;
        let is_it = |(of, _): &mut (u64, Certificate)| *of == number;
        let Some((_, said)) = telling.under_way.take_if(is_it) else {
            return;
        };
        let wait = AGAIN.saturating_mul(1 << telling.misses);
        let next = after(Instant::now(), wait);
        telling.misses = match missed.is_empty() {
            true => 0,
            false => telling.misses.saturating_add(1).min(DOUBLED),
        };
        for uid in missed {
            let words = String::new();
            telling.told.insert(uid.clone(), Told { words, next });
        }
        if !missed.is_empty() {
            telling.unsaid.get_or_insert(said);
        }
        self.say_what_is_left(unit);
    }

    /// True once a message has been the same for a while, or messages have changed for longer than
    /// `AGAIN`.
    fn has_settled(&mut self, unit: &Key, message: &str) -> bool {
        let now = Instant::now();
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let before = state.telling.settling.take();
        let mut settling = match before {
            Some(before) if before.message == message => before,
            before => {
                let latest = before.filter(|before| !before.said);
                let latest = latest.map_or_else(|| after(now, AGAIN), |before| before.latest);
                Settling {
                    message: message.to_owned(),
                    at: after(now, SETTLES).min(latest),
                    latest,
                    said: false,
                }
            }
        };
        settling.said = settling.at <= now;
        if !settling.said {
            self.alarms.set(unit, settling.at);
        }
        let said = settling.said;
        state.telling.settling = Some(settling);
        said
    }

    /// Writes the reason to the PodGroup's status. False: it is written later.
    fn note_waiting(&mut self, unit: &Key, certificate: &Certificate) -> bool {
        let Some(Unit::Group(group)) = external::unit(unit) else {
            return true;
        };
        let Some(group) = self.users_group(&group) else {
            return true;
        };
        let Certificate {
            reason, message, ..
        } = certificate.clone();
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
            // The journal is being written: the reason follows.
            return false;
        }
        let now = Instant::now();
        let next = state.telling.noted.map(|(before, at)| {
            let pause = if before == reason { SETTLES } else { AGAIN };
            after(at, pause)
        });
        if let Some(next) = next.filter(|next| *next > now) {
            self.alarms.set(unit, next);
            return false;
        }
        state.telling.noted = Some((reason, now));
        self.write(unit, move |before| plan::waits(before, reason, &message));
        true
    }
}
