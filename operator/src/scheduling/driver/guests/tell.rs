//! What the pods of a guest gang are told, each once for each reason, and its PodGroup's status.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;
use trellis_api::Reason;
use trellis_api::pod_group::PodGroupPhase;

use super::super::Driver;
use crate::key::Key;
use crate::scheduling::guests::{self, Unit, plan};
use crate::world::Certificate;

/// How long no pod of a gang must have come before those are told that have.
const SETTLES: Duration = Duration::from_secs(2);
/// How long a pod is told nothing else: a reason that comes and goes must not become a stream of
/// writes.
const AGAIN: Duration = Duration::from_secs(10);

/// What a pod was told last.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) words: String,
    at: Instant,
}

impl Driver {
    /// Says why pods have no node.
    pub(in super::super) fn say_to_guests(&mut self, unit: &Key, certificate: Certificate) {
        // What was to be said later is old by now.
        if let Some(state) = self.guests.gangs.get_mut(unit) {
            state.unsaid = None;
        }
        // Why the last try failed has been said, and that it is tried again is no news.
        if certificate.reason == Reason::BackingOff {
            return;
        }
        let (reason, message) = (certificate.reason, certificate.message.clone());
        // What is said of a gang whose pods come one after the other is said once they have come.
        let (words, settled) = match reason {
            Reason::MembersMissing => (
                format!("{reason}: {message}"),
                self.has_settled(unit, &message),
            ),
            _ => (format!("{reason}: "), true),
        };
        if !settled {
            return;
        }
        let waiting = self.guest_pods(unit).into_iter();
        let mut waiting: Vec<_> = waiting
            .filter(|(_, pod)| pod.waits() && pod.gates().next().is_none())
            .collect();
        if matches!(guests::unit(unit), Some(Unit::Group(_))) {
            // Those that are placed one by one are told what is said of them.
            waiting.retain(|(pod, _)| !self.guests.gangs.contains_key(&guests::of_pod(pod)));
        }
        let state = self.guests.gangs.entry(unit.clone()).or_default();
        let there: HashSet<&str> = waiting.iter().map(|(_, pod)| pod.uid.as_str()).collect();
        state.told.retain(|uid, _| there.contains(uid.as_str()));
        let now = Instant::now();
        let mut tell = Vec::new();
        let mut later: Option<Instant> = None;
        for (key, pod) in waiting {
            let told = state.told.get(&pod.uid);
            if told.is_some_and(|told| told.words == words) {
                continue;
            }
            let next = told.and_then(|told| told.at.checked_add(AGAIN));
            if let Some(next) = next.filter(|next| *next > now) {
                later = Some(later.map_or(next, |later| later.min(next)));
                continue;
            }
            // By a leader before us.
            let shown = pod.told.as_ref();
            let is_shown = shown.is_some_and(|(_, told)| told.starts_with(&words));
            if told.is_some() || !is_shown {
                tell.push((key.name.to_string(), pod.uid.clone()));
            }
            let words = words.clone();
            state.told.insert(pod.uid.clone(), Told { words, at: now });
        }
        if let Some(later) = later {
            state.unsaid = Some(certificate.clone());
            self.alarms.set(unit, later);
        }
        if !tell.is_empty() {
            debug!(gang = %unit, %reason, why = %message, pods = tell.len(), "waits");
            let committer = self.committer.clone();
            let namespace = unit.namespace.to_string();
            let message = message.clone();
            tokio::spawn(
                async move { committer.tell_pods(namespace, tell, reason, message).await },
            );
        }
        let state = self.guests.gangs.get_mut(unit);
        match state.filter(|state| state.task.is_some()) {
            // The journal is being written: it says so afterwards.
            Some(state) => state.unsaid = Some(certificate),
            None if later.is_none() => self.note_waiting(unit, reason, message),
            None => {}
        }
    }

    /// What was put off is said, if it is so still: nothing else has been said since.
    pub(super) fn say_what_is_left(&mut self, unit: &Key) {
        let state = self.guests.gangs.get_mut(unit);
        if let Some(certificate) = state.and_then(|state| state.unsaid.take()) {
            self.say_to_guests(unit, certificate);
        }
    }

    /// True once a message has been the same for a while.
    fn has_settled(&mut self, unit: &Key, message: &str) -> bool {
        let now = Instant::now();
        let state = self.guests.gangs.entry(unit.clone()).or_default();
        let at = match &state.to_tell {
            Some((before, at)) if before == message => *at,
            _ => {
                let at = now.checked_add(SETTLES).unwrap_or(now);
                state.to_tell = Some((message.to_owned(), at));
                at
            }
        };
        if at > now {
            self.alarms.set(unit, at);
        }
        at <= now
    }

    fn note_waiting(&mut self, unit: &Key, reason: Reason, message: String) {
        let Some(Unit::Group(group)) = guests::unit(unit) else {
            return;
        };
        let Some(group) = self.users_group(&group) else {
            return;
        };
        let journal = group.status.as_ref();
        let is_pending =
            journal.and_then(|j| j.phase).unwrap_or_default() == PodGroupPhase::Pending;
        let is_written = journal.is_some_and(|journal| {
            let says =
                reason != Reason::MembersMissing || journal.message.as_ref() == Some(&message);
            journal.reason == Some(reason) && says
        });
        let busy = self
            .guests
            .gangs
            .get(unit)
            .is_some_and(|state| state.task.is_some());
        if is_pending && !is_written && !busy {
            self.write(unit, move |before| plan::waits(before, reason, &message));
        }
    }
}
