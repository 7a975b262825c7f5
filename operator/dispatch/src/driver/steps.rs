//! Carries out the steps that `trellis_gang::gang_step` decides for the gang of a job.

pub(super) mod pause;
pub(super) mod task;
pub(super) mod task_results;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tracing::debug;
use trellis_api::job::{LostNode, TrainingJobSpec, TrainingJobStatus};
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, Reason};
use trellis_gang::gang_step::{
    CreatedMembers, CreatedStep, GangStep, Members as _, MissingPod, ObservedGang, WholeGang,
};
use trellis_gang::journal::PlanAuthor;
use trellis_gang::key::Key;
use trellis_gang::observed::PodView;
use trellis_gang::{GangExplanation, engine, external, journal};
use trellis_machine::clock;

use super::victims::LeavingGang;
use super::{Driver, EngineState};
use crate::is_owned;

impl Driver {
    /// Returns the uid of the current job of that name.
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
            return self.delete_orphans(job);
        };
        if let Some(task) = &state.task {
            let is_of_other_job = uid.is_some_and(|uid| uid != task.uid);
            let is_leaving = self
                .leaving
                .get(job)
                .is_some_and(|l| l.leave_request().is_some());
            let is_commit = task.run.is_some();
            if is_of_other_job
                || !task.is_wanted(state.desired.as_ref())
                || (is_leaving && is_commit)
            {
                task.stop.cancel();
            }
            return;
        }
        let now = Instant::now();
        if let Some(end) = state.pause.next_try(now) {
            // The alarm that led here may have been the last one, so this sets it again.
            self.alarms.set(job, end);
            return;
        }
        let (Some(uid), Some(group), Some(desired)) =
            (uid, context.cache.pod_groups.get(job), &state.desired)
        else {
            return;
        };
        // The desired gang belongs to an earlier job of this name. The next desired gang follows.
        let is_outdated = desired.attempt().is_some_and(|run| run.uid != uid);
        if is_outdated || !is_owned(group.as_ref(), &uid) {
            return;
        }
        self.inheritance.adopt(job);
        let journal = group.status.clone().unwrap_or_default();
        self.restore_inherited_order(job, &journal);
        if self
            .leaving
            .get(job)
            .is_some_and(|l| !l.applies_to(&journal))
        {
            self.leaving.remove(job);
        }
        let preemption_message = self.leaving.get(job).and_then(LeavingGang::leave_request);
        let cached_job = context.cache.jobs.get(job);
        let status = cached_job.as_ref().and_then(|job| job.status.as_ref());
        let pods = context.cache.pods.pods_of_job(job);
        let waits_for_lost = cached_job
            .as_ref()
            .is_some_and(|job| waits_for_lost_nodes(&job.spec));
        let lost_nodes_of_gang = lost_nodes(&pods, |node| {
            !waits_for_lost && context.cache.is_abandoned(node)
        });
        if let Some(state) = self.gangs.get_mut(job) {
            state.deletions.retain_pods(&pods);
        }
        let surplus_removals = self.surplus_to_remove(job, &pods, journal.plan.as_ref());
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let Some(desired) = &state.desired else {
            return;
        };
        let epoch = self.committer.commands().epoch().ok();
        let inherited = self.inheritance.plan(job);
        let observed = ObservedGang {
            journal: &journal,
            author: epoch.map(|epoch| journal::plan_author(&journal, epoch, inherited)),
            preemption_message,
            deletions: &state.deletions,
            now: clock::now(),
            clock: now,
            members: CreatedMembers {
                uid: &uid,
                attempt: status.and_then(|s| s.attempt).unwrap_or(1),
                stage_first_attempt: status.map_or(1, TrainingJobStatus::first_attempt),
                keeps_finished_pods: cached_job
                    .as_ref()
                    .is_none_or(|job| job.spec.keeps_finished_pods()),
                was_placed: status.is_some_and(|s| s.scheduled_time.is_some()),
                desired,
                pods: &pods,
                lost_nodes: &lost_nodes_of_gang,
                grace: group.spec.grace_period_seconds(),
                surplus_removals: &surplus_removals,
            },
        };
        let step = observed.next_step();
        // The process that wrote the plan may still create its pods.
        let is_stale = observed.author == Some(PlanAuthor::Stale)
            && (journal.plan.as_ref())
                .is_some_and(|plan| CreatedMembers::wants_plan(&observed, plan));
        if let Some(at) = observed.next_creation_time() {
            self.alarms.set(job, to_instant(now, at));
        }
        if let Some(at) = state.deletions.next_retry(now) {
            self.alarms.set(job, at);
        }
        debug!(%job, ?step, "next");
        if journal.phase == Some(PodGroupPhase::Unwinding) {
            self.vacate_place(job, &journal);
        }
        match step {
            GangStep::AwaitPods => {
                self.vacate_place(job, &journal);
                self.delete_orphans(job);
                self.record_explanation(
                    job,
                    GangExplanation::waiting(
                        Reason::PodsTerminating,
                        describe_remaining_pods(&pods),
                    ),
                );
            }
            GangStep::Enqueue(WholeGang) => match &journal.provisioning {
                Some(nodes) => self.continue_provisioning(job, &journal, nodes),
                None => self.enqueue(job, &journal),
            },
            GangStep::EndProvisioning => {
                self.withdraw(job);
                self.write_journal(job, journal::end_provisioning);
            }
            GangStep::Withdraw => {
                self.vacate_place(job, &journal);
                context.explanations.write().remove(job);
            }
            GangStep::TakeOver => {
                self.restore_open_place(job, &group, &journal);
                self.write_journal(job, journal::take_over);
            }
            GangStep::RemoveVictims => self.continue_nomination(job, &group, &journal),
            GangStep::CancelNomination => self.cancel_nomination(job),
            GangStep::Commit => {
                self.restore_open_place(job, &group, &journal);
                self.resume_plan(job, &journal);
            }
            GangStep::KeepPlace(missing) => {
                self.maintain_placed_gang(job, &group, &journal, missing)
            }
            GangStep::RollBack {
                reason,
                message,
                failed,
            } => {
                if is_stale {
                    self.restore_open_place(job, &group, &journal);
                }
                let state = self.gangs.get_mut(job);
                let last_failure = state.and_then(|state| state.last_failure.take());
                let last_failure = last_failure.filter(|_| failed);
                let message = match last_failure {
                    Some(last_failure) => format!("{message}; the last try: {last_failure}"),
                    None => message,
                };
                self.roll_back(job, reason, message, failed);
            }
            GangStep::Delete(pods) => self.delete_pods(job, pods, now),
            GangStep::Evict(pods) => self.evict_pods(job, pods, now),
            // The controller reads it from the status, and then sends another desired gang.
            GangStep::Special(CreatedStep::AwaitStatus) | GangStep::StandBy => {}
            GangStep::ClearPlan => {
                self.vacate_place(job, &journal);
                // The gang waited for its pods to end.
                context.explanations.write().remove(job);
                self.finish_rollback(job, &journal);
            }
            GangStep::Special(CreatedStep::Finish) => {
                self.withdraw(job);
                self.write_journal(job, journal::finish);
            }
            GangStep::Special(CreatedStep::ReplaceSlice(replacement)) => {
                let hash = journal::intent_hash(&journal)
                    .unwrap_or_default()
                    .to_owned();
                self.write_journal(job, move |before| {
                    journal::replace_slice(before, &hash, &replacement)
                });
            }
        }
    }

    /// Handles a placed gang some of whose pods are missing.
    fn maintain_placed_gang(
        &mut self,
        job: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
        mut missing_pods: Vec<MissingPod>,
    ) {
        if let Some(plan) = &journal.plan {
            self.release_joined_slices(job, plan);
            self.restore_place(job, group, plan);
            self.release_finished_pods(job, plan);
        }
        self.keep_unless_leaving(job);
        self.note_checkpoint(job);
        let surplus = self.update_surplus(job, journal);
        // The gang's own pods come first, in a separate task, so that a surplus pod cannot make
        // them fail.
        if missing_pods.is_empty() {
            missing_pods = surplus;
        }
        match self.surplus_explanation(job).cloned() {
            Some(explanation) => self.record_explanation(job, explanation),
            None => {
                self.committer.context().explanations.write().remove(job);
            }
        }
        if !missing_pods.is_empty() {
            self.create_missing_pods(job, journal, missing_pods);
        }
    }

    /// Restores in the engine the place of an open plan.
    fn restore_open_place(&mut self, job: &Key, group: &PodGroup, journal: &PodGroupStatus) {
        let is_open = journal.phase == Some(PodGroupPhase::Committing);
        let has_run = self.gangs.get(job).is_some_and(|gang| gang.run().is_some());
        if let Some(plan) = journal.plan.as_ref().filter(|_| is_open && has_run) {
            self.restore_place(job, group, plan);
            self.keep_unless_leaving(job);
        }
    }

    /// Carries out the plan of the journal.
    fn resume_plan(&mut self, job: &Key, journal: &PodGroupStatus) {
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let (Some(run), Some(plan)) = (state.run().cloned(), journal.plan.clone()) else {
            return;
        };
        // For a plan of an earlier leader, the counted requests of the pods are unknown.
        let is_ours = self.inheritance.plan(job) != Some(plan.hash.as_str());
        let admitted_pods = if is_ours {
            state.admitted_pods(&run)
        } else {
            state.admitted.clone()
        };
        let committer = self.committer.clone();
        let key = job.clone();
        self.start_task(job, Some(run.clone()), |stop| async move {
            committer
                .resume(key, &run, &plan, &admitted_pods, stop)
                .await
        });
    }

    /// Continues a nomination.
    fn continue_nomination(&mut self, job: &Key, group: &PodGroup, journal: &PodGroupStatus) {
        let engine_state = self.gangs.get(job).map(|state| state.engine_state);
        match engine_state.unwrap_or_default() {
            EngineState::Nominated => {
                let explanations = &self.committer.context().explanations;
                explanations.write().remove(job);
                self.update_nominated_request(job, journal);
                self.ask_victims_to_leave(job, group, journal);
            }
            // The victims have left, but the last try to create the gang's pods failed.
            EngineState::Placed => {
                let id = engine::gang_id(job);
                if let Some(placement) = self.engine.placement(&id) {
                    let place = self.build_place(&id, placement);
                    self.place_gang(job, place);
                }
            }
            // The engine no longer has this place.
            EngineState::Absent | EngineState::Waiting | EngineState::Restarting => {
                self.cancel_nomination(job)
            }
        }
    }

    /// Keeps a placed gang in its place, unless it has been asked to leave.
    pub(super) fn keep_unless_leaving(&mut self, job: &Key) {
        if !self.leaving.contains_key(job) {
            self.keep_in_place(job, SignedDuration::ZERO);
        }
    }

    /// Reports to the engine the time of the gang's last checkpoint. A preemption does not lose the
    /// work before it.
    fn note_checkpoint(&mut self, job: &Key) {
        let run = self.gangs.get(job).and_then(super::TrackedGang::run);
        if let Some(at) = run.and_then(|run| run.attempt.checkpoint) {
            self.engine
                .record_checkpoint(&engine::gang_id(job), engine::to_engine_time(at));
        }
    }
}

/// Converts a future time to the monotonic clock.
pub(super) fn to_instant(clock: Instant, at: Timestamp) -> Instant {
    let wait = at.duration_since(clock::now());
    let wait = Duration::try_from(wait).unwrap_or_default();
    clock.checked_add(wait).unwrap_or(clock)
}

/// Returns true if the job waits for lost nodes. Only its user knows whether a rank that is cut off
/// may still write.
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
fn describe_remaining_pods(pods: &BTreeMap<String, PodView>) -> String {
    let first = pods.keys().next().map_or("", String::as_str);
    match pods.len() {
        0 | 1 => format!("pod {first:?} of an earlier attempt is still there"),
        pods => format!("{pods} pods of an earlier attempt are still there, such as {first:?}"),
    }
}
