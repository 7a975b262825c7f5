//! Carries out the steps that `external::next` and `external::single` decide.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tracing::debug;
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, Reason};
use trellis_gang::external::next::Step;
use trellis_gang::external::{Unit, next};
use trellis_gang::key::Key;
use trellis_gang::observed::ExternalPods as Pods;
use trellis_gang::{Certificate, external, journal};

use super::super::victims::Leaving;
use super::super::{Driver, Inside};
use crate::find_asks::As;

/// How often to check whether nodes of terminating pods are lost by now.
const AWAITED: Duration = Duration::from_secs(30);

impl Driver {
    /// Takes the next step of one external gang.
    pub(in super::super) fn advance_external(&mut self, unit: &Key) {
        self.take_next_step(unit);
        self.committer.context().pass_turn(&unit.namespace);
    }

    fn take_next_step(&mut self, unit: &Key) {
        let state = self.external_pods.gangs.get(unit);
        if let Some(task) = state.and_then(|state| state.task.as_ref()) {
            // The task serves a gang that has to leave: a plan that is not written yet is not
            // begun.
            if self.leaving.get(unit).is_some_and(|l| l.told().is_some()) {
                task.cancel();
            }
            return;
        }
        if let Some(end) = state.and_then(|state| state.pause.ends(Instant::now())) {
            self.alarms.set(unit, end);
            return;
        }
        match external::unit(unit) {
            Some(Unit::Group(group)) => self.advance_group(unit, &group),
            Some(Unit::Pod(pod)) => self.advance_single(unit, &pod),
            None => {}
        }
        self.say_what_is_left(unit);
    }

    fn advance_group(&mut self, unit: &Key, key: &Key) {
        let context = self.committer.context().clone();
        let pods = context.cache.external_pods.of_group(key);
        let Some(group) = self.users_group(key) else {
            return self.without_group(unit, key, &pods);
        };
        let none = PodGroupStatus::default();
        let journal = group.status.as_ref().unwrap_or(&none);
        let state = self.external_pods.gangs.get(unit);
        if !journal.phase.is_some_and(holds_pods) && state.is_some_and(|s| !s.held.is_empty()) {
            // The PodGroup is another one of that name, and has no place.
            self.withdraw(unit);
        }
        self.tend_members(unit, Some(&group), journal, &pods);
        if self.leaving.get(unit).is_some_and(|l| !l.concerns(journal)) {
            self.leaving.remove(unit);
        }
        self.hold_group(unit, &group, journal, &pods);
        self.count_group(unit, journal, &pods);
        let now = Instant::now();
        let inherited = self.inherited.get(unit).map(String::as_str);
        let ours = self.committer.commands().epoch().ok();
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        state
            .deletions
            .retain(pods.values().map(|pod| pod.uid.as_str()));
        let seen = next::Gang {
            min_member: group.spec.min_member,
            goes: group.metadata.deletion_timestamp.is_some(),
            ends: state.ends,
            journal,
            author: ours.map(|ours| journal::author(journal, ours, inherited)),
            pods: &pods,
            told: self.leaving.get(unit).and_then(Leaving::told),
            deletions: &state.deletions,
            now: Timestamp::now(),
            clock: now,
        };
        let step = seen.next();
        if let Some(at) = state.deletions.next(now) {
            self.alarms.set(unit, at);
        }
        debug!(gang = %unit, ?step, "next");
        self.take_step(unit, &group, journal, &pods, step);
    }

    fn take_step(
        &mut self,
        unit: &Key,
        group: &Arc<PodGroup>,
        journal: &PodGroupStatus,
        pods: &Pods,
        step: Step,
    ) {
        match step {
            Step::Wait { reason, message } => {
                self.withdraw(unit);
                self.say(unit, Certificate::waits(reason, message));
            }
            Step::Withdraw => self.withdraw(unit),
            Step::Enqueue(names) => {
                let retry = journal.retry_time.as_ref().map(|time| time.0);
                let found = self.find(unit, As::Gang(group), names);
                self.enqueue_found(unit, Some(&group.spec), found, retry, BTreeMap::new());
            }
            Step::TakeOver => self.write(unit, journal::taken_over),
            Step::Follow => self.follow_external_pods(unit, group, journal),
            Step::Void => self.void(unit),
            Step::Bind => self.go_on_with_external_pods(unit, group, journal, pods),
            Step::Adopt => self.adopt_external_pods(unit, group, pods),
            Step::Hold(later) => {
                self.stay_unless_asked(unit);
                let state = self.external_pods.gangs.get_mut(unit);
                let room = state.is_some_and(|state| std::mem::take(&mut state.has_shrunk));
                // Pods that are known already are looked at when they or the PodGroup change.
                // Refused pods are looked at again after others have left.
                let alone = |name| external::of_pod(&Key::new(&unit.namespace, name));
                for pod in later.iter().map(|name| alone(name)) {
                    let known = self.external_pods.gangs.get(&pod);
                    if known.is_none_or(|state| room && state.looks > 0) {
                        self.advance_external(&pod);
                    }
                }
            }
            Step::Undo {
                reason,
                message,
                failed,
            } => self.undo(unit, reason, message, failed),
            Step::Delete(doomed) => self.stop_external_pods(unit, doomed, false),
            Step::Evict(doomed) => self.stop_external_pods(unit, doomed, true),
            Step::AwaitPods => {
                let reason = Reason::PodsTerminating;
                let message = "pods of the gang's last place are still there".to_owned();
                // If no kubelet is left to stop the pods, no event comes, so a timer looks again.
                if let Some(at) = Instant::now().checked_add(AWAITED) {
                    self.alarms.set(unit, at);
                }
                self.say(unit, Certificate::waits(reason, message));
            }
            Step::Clear => self.clear_external_pods(unit, group, journal, pods),
        }
    }

    /// Handles pods whose PodGroup does not exist. No more of them is placed, and those that run
    /// are no gang any more: each holds its resources by itself, and may be preempted.
    fn without_group(&mut self, unit: &Key, key: &Key, pods: &Pods) {
        if !self.is_outside(unit) {
            self.withdraw(unit);
        }
        self.leaving.remove(unit);
        self.tend_members(unit, None, &PodGroupStatus::default(), pods);
        if pods.is_empty() {
            return self.forget_external(unit);
        }
        let of_job = self.committer.cache().pod_groups.get(key).is_some();
        let message = match of_job {
            true => format!(
                "label {}: PodGroup {:?} is a TrainingJob's: name one of your own",
                trellis_api::names::POD_GROUP,
                &*key.name
            ),
            false => format!(
                "label {}: PodGroup {:?} does not exist in namespace {:?}: create it or name another",
                trellis_api::names::POD_GROUP,
                &*key.name,
                &*key.namespace
            ),
        };
        self.say(unit, Certificate::waits(Reason::PodGroupNotFound, message));
    }

    /// Looks at pods of a PodGroup that are handled singly: pods that hold resources outside the
    /// gang's place, and pods that came later, once the gang has lost its place or its PodGroup has
    /// changed.
    fn tend_members(
        &mut self,
        unit: &Key,
        group: Option<&PodGroup>,
        journal: &PodGroupStatus,
        pods: &Pods,
    ) {
        let generation = group.and_then(|group| group.metadata.generation);
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let is_another = std::mem::replace(&mut state.generation, generation) != generation;
        let context = self.committer.context();
        let ends = next::ends(journal, pods, |node| context.cache.is_given_up(node));
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let has_ended = std::mem::replace(&mut state.ends, ends) != ends;
        let all = is_another || has_ended || journal.phase != Some(PodGroupPhase::Placed);
        for (name, pod) in pods {
            let alone = external::of_pod(&Key::new(&unit.namespace, name));
            let is_known = self.external_pods.gangs.contains_key(&alone);
            let holds = pod.counts_in().is_some() && !next::is_of_place(journal, pod);
            if (holds && !is_known) || (all && is_known) {
                self.advance_external(&alone);
            }
        }
    }

    /// Forgets a gang that is gone, unless a task is under way.
    pub(super) fn forget_external(&mut self, unit: &Key) {
        if self
            .external_pods
            .gangs
            .get(unit)
            .is_some_and(|state| state.task.is_some())
        {
            return;
        }
        self.withdraw(unit);
        self.external_pods.gangs.remove(unit);
        self.external_pods.judgements.forget(unit);
        self.alarms.clear(unit);
        self.inherited.remove(unit);
        self.leaving.remove(unit);
    }

    /// True if the engine does not have the gang.
    pub(super) fn is_outside(&self, unit: &Key) -> bool {
        let inside = self.external_pods.gangs.get(unit).map(|state| state.inside);
        inside.unwrap_or_default() == Inside::No
    }
}

/// True if the engine has the pods that hold a node in this phase of the journal.
const fn holds_pods(phase: PodGroupPhase) -> bool {
    matches!(
        phase,
        PodGroupPhase::Committing | PodGroupPhase::Placed | PodGroupPhase::Unwinding
    )
}
