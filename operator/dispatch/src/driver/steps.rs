//! Carries out the steps that the keeper decides for one gang.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug};
use trellis_api::job::{LostNode, TrainingJobSpec, TrainingJobStatus};
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, Reason};
use trellis_gang::journal::Author;
use trellis_gang::keeper::{Doomed, Step, Vacancy};
use trellis_gang::key::Key;
use trellis_gang::observed::PodView;
use trellis_gang::{Certificate, Run, engine, external, journal, keeper};

use super::task::Task;
use super::victims::Leaving;
use super::{Driver, Inside};
use crate::commit::Outcome;
use crate::{Feed, is_owned, span};

impl Driver {
    /// Uid of the current job of that name.
    pub(super) fn job_uid(&self, job: &Key) -> Option<String> {
        if external::is_external(job) {
            return self.external_uid(job);
        }
        self.committer.cache().jobs.get(job)?.metadata.uid.clone()
    }

    /// Takes the next step of one gang.
    pub(super) fn advance(&mut self, job: &Key) {
        if external::is_external(job) {
            return self.advance_external(job);
        }
        let context = self.committer.context().clone();
        let uid = self.job_uid(job);
        let Some(state) = self.gangs.get_mut(job) else {
            return self.reap(job);
        };
        if let Some(task) = &state.task {
            let another = uid.is_some_and(|uid| uid != task.uid);
            let leaves = self.leaving.get(job).is_some_and(|l| l.told().is_some());
            let is_commit = task.run.is_some();
            if another || !task.is_wanted(state.wish.as_ref()) || (leaves && is_commit) {
                task.stop.cancel();
            }
            return;
        }
        let now = Instant::now();
        if let Some(end) = state.pause.ends(now) {
            // Set again, because the alarm that led here may have been the last one.
            self.alarms.set(job, end);
            return;
        }
        let (Some(uid), Some(group), Some(wish)) =
            (uid, context.cache.pod_groups.get(job), &state.wish)
        else {
            return;
        };
        // The wish is for an earlier job of that name. The next one is on its way.
        let stale = wish.run().is_some_and(|run| run.uid != uid);
        if stale || !is_owned(group.as_ref(), &uid) {
            return;
        }
        self.unadopted.remove(job);
        let journal = group.status.clone().unwrap_or_default();
        if self.leaving.get(job).is_some_and(|l| !l.concerns(&journal)) {
            self.leaving.remove(job);
        }
        let told = self.leaving.get(job).and_then(Leaving::told);
        let written = context.cache.jobs.get(job);
        let status = written.as_ref().and_then(|job| job.status.as_ref());
        let pods = context.cache.pods.of(job);
        let waits = written
            .as_ref()
            .is_some_and(|job| waits_for_lost_nodes(&job.spec));
        let lost = lost_nodes(&pods, |node| !waits && context.cache.is_given_up(node));
        state.deletions.retain_those_of(&pods);
        let dismissed = self.dismissed(job, &pods);
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let Some(wish) = &state.wish else { return };
        let seen = keeper::Gang {
            uid: &uid,
            attempt: status.and_then(|s| s.attempt).unwrap_or(1),
            stage: status.map_or(1, TrainingJobStatus::first_attempt),
            keeps_done: written
                .as_ref()
                .is_none_or(|job| job.spec.keeps_done_pods()),
            was_placed: status.is_some_and(|s| s.scheduled_time.is_some()),
            wish,
            told,
            journal: &journal,
            pods: &pods,
            lost: &lost,
            grace: group.spec.grace_period_seconds(),
            dismissed: &dismissed,
            deletions: &state.deletions,
            now: Timestamp::now(),
            clock: now,
        };
        let step = seen.next();
        if let Some(at) = seen.next_vacancy() {
            self.alarms.set(job, from_now(now, at));
        }
        if let Some(at) = state.deletions.next(now) {
            self.alarms.set(job, at);
        }
        debug!(%job, ?step, "next");
        if journal.phase == Some(PodGroupPhase::Unwinding) {
            self.step_back(job, &journal);
        }
        match step {
            Step::AwaitPods => {
                self.step_back(job, &journal);
                self.reap(job);
                self.say(
                    job,
                    Certificate::waits(Reason::PodsTerminating, still_there(&pods)),
                );
            }
            Step::Enqueue => self.enqueue(job, &journal),
            Step::Withdraw => {
                self.step_back(job, &journal);
                context.certificates.write().remove(job);
            }
            Step::Follow => self.follow(job, &group, &journal),
            Step::Void => self.void(job),
            Step::Commit => self.go_on(job, &group, &journal),
            Step::Hold => self.hold(job, &group, &journal, Vec::new()),
            Step::Fill(vacancies) => self.hold(job, &group, &journal, vacancies),
            Step::Undo { reason, message } => {
                let failed =
                    journal.phase == Some(PodGroupPhase::Committing) && is_expired(&journal);
                let state = self.gangs.get_mut(job);
                let hindrance = state.and_then(|state| state.hindrance.take());
                let hindrance = hindrance.filter(|_| failed);
                let message = match hindrance {
                    Some(hindrance) => format!("{message}; the last try: {hindrance}"),
                    None => message,
                };
                self.undo(job, reason, message, failed);
            }
            Step::Delete(pods) => self.delete(job, pods, now),
            Step::Evict(pods) => self.evict(job, pods, now),
            // The status shows it to the controller, which then sends another wish.
            Step::AwaitStatus => {}
            Step::Clear => {
                self.step_back(job, &journal);
                // The gang waited for its pods to end.
                context.certificates.write().remove(job);
                self.clear(job, &journal);
            }
            Step::Finish => {
                self.withdraw(job);
                self.write(job, journal::finished);
            }
        }
    }

    /// The gang is placed, and these of its pods are missing.
    fn hold(
        &mut self,
        job: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
        mut vacancies: Vec<Vacancy>,
    ) {
        if let Some(plan) = &journal.plan {
            self.adopt(job, group, plan);
            self.give_up_finished(job, plan);
        }
        self.stay_unless_asked(job);
        self.note_checkpoint(job);
        let surplus = self.tend_surplus(job, journal);
        // The gang's own pods come first, in a task of their own, so that a surplus pod cannot make
        // them fail.
        if vacancies.is_empty() {
            vacancies = surplus;
        }
        match self.lack(job).cloned() {
            Some(lack) => self.say(job, lack),
            None => {
                self.committer.context().certificates.write().remove(job);
            }
        }
        if !vacancies.is_empty() {
            self.fill(job, journal, vacancies);
        }
    }

    /// Creates pods of a placed gang.
    fn fill(&mut self, job: &Key, journal: &PodGroupStatus, vacancies: Vec<Vacancy>) {
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let (Some(run), Some(plan)) = (state.run().cloned(), journal.plan.clone()) else {
            return;
        };
        let counted = state.actual.clone();
        let committer = self.committer.clone();
        let key = job.clone();
        self.start(job, Some(run.clone()), |stop| async move {
            committer
                .fill(&key, &run, &plan, &vacancies, &counted, &stop)
                .await
        });
    }

    /// Carries out the plan of the journal, if this leader may.
    fn go_on(&mut self, job: &Key, group: &PodGroup, journal: &PodGroupStatus) {
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let (Some(run), Some(plan)) = (state.run().cloned(), journal.plan.clone()) else {
            return;
        };
        // A plan of an earlier leader: what it counted for the pods is unknown.
        let is_ours = self.inherited.get(job) != Some(&plan.hash);
        let counted = if is_ours {
            state.planned(&run)
        } else {
            state.actual.clone()
        };
        self.adopt(job, group, &plan);
        self.stay_unless_asked(job);
        let Ok(ours) = self.committer.commands().epoch() else {
            return;
        };
        let inherited = self.inherited.get(job).map(String::as_str);
        match journal::author(journal, ours, inherited) {
            Author::Ours => {
                let committer = self.committer.clone();
                let key = job.clone();
                self.start(job, Some(run.clone()), |stop| async move {
                    committer.resume(key, &run, &plan, &counted, stop).await
                });
            }
            Author::Predecessor => self.write(job, journal::taken_over),
            Author::Stale => {
                let message = "the plan was written by a process that no longer leads";
                self.undo(job, Reason::Restarting, message.to_owned(), false);
            }
        }
    }

    /// Carries a nomination on, if this leader may.
    fn follow(&mut self, job: &Key, group: &PodGroup, journal: &PodGroupStatus) {
        let Ok(ours) = self.committer.commands().epoch() else {
            return;
        };
        let inherited = self.inherited.get(job).map(String::as_str);
        match journal::author(journal, ours, inherited) {
            Author::Ours => {}
            Author::Predecessor => return self.write(job, journal::taken_over),
            Author::Stale => return self.void(job),
        }
        let inside = self.gangs.get(job).map(|state| state.inside);
        match inside.unwrap_or_default() {
            Inside::Nominated => {
                let certificates = &self.committer.context().certificates;
                certificates.write().remove(job);
                self.renew(job, journal);
                self.tell_victims(job, group, journal);
            }
            // The victims have left, but the last try to create the gang's pods failed.
            Inside::Placed => {
                let id = engine::id(job);
                if let Some(placement) = self.engine.placement(&id) {
                    let place = self.place_of(&id, placement);
                    self.place(job, place);
                }
            }
            // The engine has no such place any more.
            Inside::No | Inside::Waiting | Inside::Kept => self.void(job),
        }
    }

    /// A gang in its place that is not asked to leave does not leave.
    pub(super) fn stay_unless_asked(&mut self, job: &Key) {
        if !self.leaving.contains_key(job) {
            self.stay(job, SignedDuration::ZERO);
        }
    }

    /// Tells the engine until when the gang's work is checkpointed, and so not lost by a
    /// preemption.
    fn note_checkpoint(&mut self, job: &Key) {
        let run = self.gangs.get(job).and_then(super::Gang::run);
        if let Some(at) = run.and_then(|run| run.checkpoint) {
            self.engine.checkpointed(&engine::id(job), engine::time(at));
        }
    }

    fn evict(&mut self, job: &Key, pods: Vec<Doomed>, now: Instant) {
        self.ask(job, &pods, now);
        let committer = self.committer.clone();
        let key = job.clone();
        self.start(
            job,
            None,
            |_| async move { committer.evict(&key, pods).await },
        );
    }

    fn ask(&mut self, job: &Key, pods: &[Doomed], now: Instant) {
        if let Some(state) = self.gangs.get_mut(job) {
            for pod in pods {
                state.deletions.ask(&pod.uid, pod.force, now);
            }
        }
    }

    fn delete(&mut self, job: &Key, pods: Vec<Doomed>, now: Instant) {
        self.ask(job, &pods, now);
        let committer = self.committer.clone();
        let key = job.clone();
        self.start(
            job,
            None,
            |_| async move { committer.delete(&key, pods).await },
        );
    }

    /// Writes the journal in a task.
    pub(super) fn write<F>(&mut self, job: &Key, change: F)
    where
        F: FnOnce(&PodGroupStatus) -> Option<PodGroupStatus> + Send + 'static,
    {
        let Some(uid) = self.job_uid(job) else { return };
        let committer = self.committer.clone();
        let key = job.clone();
        self.start(job, None, |_| async move {
            match committer.journal(&key, &uid, change).await {
                Ok(()) => Outcome::Done,
                Err(outcome) => outcome,
            }
        });
    }

    /// Starts the one task of a gang. The caller has checked that none is under way.
    pub(super) fn start<F>(
        &mut self,
        job: &Key,
        run: Option<Arc<Run>>,
        task: impl FnOnce(CancellationToken) -> F,
    ) where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let stop = CancellationToken::new();
        if external::is_external(job) {
            self.external_starts(job, stop.clone());
        } else {
            let (Some(uid), Some(state)) = (self.job_uid(job), self.gangs.get_mut(job)) else {
                return;
            };
            state.task = Some(Task {
                uid,
                run,
                stop: stop.clone(),
            });
        }
        let context = self.committer.context().clone();
        let task = tokio::spawn(task(stop).instrument(span!("task", %job)));
        let job = job.clone();
        tokio::spawn(async move {
            // A task that panics has ended too: its gang must not stand still for ever.
            let outcome = task
                .await
                .unwrap_or_else(|error| Outcome::Again(error.to_string()));
            context.tell(Feed::Ended(job, outcome));
        });
    }
}

/// Converts a future time to the monotonic clock.
pub(super) fn from_now(clock: Instant, at: Timestamp) -> Instant {
    let wait = at.duration_since(Timestamp::now());
    let wait = Duration::try_from(wait).unwrap_or_default();
    clock.checked_add(wait).unwrap_or(clock)
}

fn is_expired(journal: &PodGroupStatus) -> bool {
    let deadline = |plan: &Plan| plan.deadline.clone();
    journal
        .plan
        .as_ref()
        .and_then(deadline)
        .is_some_and(|d| d.0 <= Timestamp::now())
}

/// True if the job waits for lost nodes. Only its user knows whether a rank that is cut off may
/// still write.
pub(super) fn waits_for_lost_nodes(job: &TrainingJobSpec) -> bool {
    let restart = job.restart.as_ref();
    restart.and_then(|restart| restart.lost_node) == Some(LostNode::Wait)
}

fn lost_nodes(
    pods: &BTreeMap<String, PodView>,
    is_lost: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    // Pods whose names follow each other are often on one node, which shortens the list.
    let mut nodes: Vec<&str> = pods.values().filter_map(|p| p.node.as_deref()).collect();
    nodes.dedup();
    let lost = nodes.into_iter().filter(|node| is_lost(node));
    lost.map(str::to_owned).collect()
}

/// Describes the pods that are left of an earlier attempt, or of an earlier job of the name.
fn still_there(pods: &BTreeMap<String, PodView>) -> String {
    let first = pods.keys().next().map_or("", String::as_str);
    match pods.len() {
        0 | 1 => format!("pod {first:?} of an earlier attempt is still there"),
        pods => format!("{pods} pods of an earlier attempt are still there, such as {first:?}"),
    }
}
