//! The last step: writes the job's status, and then sends the desired gang to the scheduler. In
//! this order, because an attempt counts once the status has it.

mod compiled_objects;
pub(super) mod metrics;
mod missing_objects;
mod placement;
pub(super) mod writes;

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Resource;
use serde_json::json;
use tokio::time::Instant;
use tracing::info;
use trellis_api::job::{JobPhase, PolicyVerdict, TrainingJobStatus};
use trellis_api::pod_group::PodGroupStatus;
use trellis_api::{Delivery, Reason, TrainingJob, names};
use trellis_dispatch::SchedulerEvent;
use trellis_dispatch::commands::WriteError;
use trellis_gang::key::Key;
use trellis_gang::lifecycle::{EvaluationResult, ExpiredObjects, JobReadiness, ObservedJob};
use trellis_gang::{
    AuthorizedAttempt, CompletedRun, DesiredGang, GangExplanation, JobHold, lifecycle, patch,
};
use trellis_machine::clock;
use trellis_policies::AuthorizedJob;

use super::build::cache::JobBuild;
use super::build::limits_of_place;
use super::job_context::JobContext;
use super::status::writes::StatusWrite;
use super::{Controller, children};
use compiled_objects::compiled_objects;

/// Interval at which a foreign object with the name of a child is checked. Its deletion causes no
/// event, because the watch selects objects by label.
const CONFLICT_CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(15);

/// Interval at which missing objects of a job's pods are checked. No watch shows these objects.
const REFERENCE_CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(10);

/// Most changed pods that the status of a job names.
const MAX_NAMED_PODS: usize = 5;

/// How long a job may be without a status. The scheduler answers within milliseconds, so the status
/// of a gang that is placed at once is written once.
const STATUS_TIMEOUT: SignedDuration = SignedDuration::from_secs(5);

impl Controller {
    pub(super) async fn finish_reconcile(
        &self,
        key: &Key,
        job_context: &JobContext,
        build: Option<&JobBuild>,
        conflict: Option<JobHold>,
    ) -> Result<Option<Timestamp>, WriteError> {
        let now = clock::now();
        let built = build.and_then(|build| build.result.as_ref().ok());
        let built = built.filter(|_| conflict.is_none());
        let conflict_check = conflict
            .is_some()
            .then(|| now.saturating_add(CONFLICT_CHECK_INTERVAL).unwrap_or(now));
        // A later stage does not stop a placed gang.
        let blocked_stage = build.and_then(|build| build.blocked_stage.as_ref());
        let blocked_stage = blocked_stage.filter(|_| !job_context.is_planned());
        let buildable = match (conflict, build.map(|b| &b.result)) {
            (Some(conflict), _) => Err(conflict),
            (None, Some(Ok(job))) => {
                let hold = self.find_missing_volume_or_secret(key, job_context, job);
                let hold =
                    hold.or_else(|| blocked_stage.map(|blocked_stage| blocked_stage.hold.clone()));
                hold.map_or_else(|| Ok(job.clone()), Err)
            }
            (None, Some(Err(hold))) => Err(hold.clone()),
            // An ended job has no build.
            (None, None) => Err(JobHold::waiting(Reason::NotApplicable, String::new())),
        };
        let mut reference_check = conflict_check;
        let buildable = match buildable {
            Ok(job) if !job_context.is_planned() && !job_context.job.spec.is_suspended() => {
                match self.find_missing_reference(key, build).await {
                    None => Ok(job),
                    Some(missing) => {
                        reference_check = now.saturating_add(REFERENCE_CHECK_INTERVAL).ok();
                        Err(missing)
                    }
                }
            }
            buildable => buildable,
        };
        let readiness = match &buildable {
            Ok(job) => JobReadiness::Runnable {
                compiled: job.compiled().hash().to_owned(),
            },
            Err(hold) => JobReadiness::OnHold(hold.clone()),
        };
        let (no_status, no_journal) = (TrainingJobStatus::default(), PodGroupStatus::default());
        let status = job_context.job.status.as_ref().unwrap_or(&no_status);
        let journal = job_context.journal().unwrap_or(&no_journal);
        let queue = job_context.queue.as_ref().ok();
        let explanation = job_context.explanation.clone();
        let explanation = explanation.or_else(|| self.explain_missing_status(key, status));
        let policy_outcome = build.and_then(|build| build.policy.as_ref());
        let eviction = self.due_eviction(key, job_context, policy_outcome, now);
        let next = lifecycle::evaluate(ObservedJob {
            now,
            created: job_context
                .job
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(now, |t| t.0),
            generation: job_context.job.metadata.generation,
            uid: job_context.uid(),
            spec: &job_context.job.spec,
            whole_spec: &job_context.job_with_all_stages.spec,
            status,
            readiness: &readiness,
            eviction_reason: eviction.message.as_deref(),
            queue: queue.and_then(|q| q.metadata.name.as_deref()),
            journal,
            has_journal: job_context.own_group().is_some(),
            pods: &job_context.pods,
            is_lost: &|node| self.context.cache.is_lost(node),
            unhealthy_reason: &|node| self.context.cache.unhealthy_reason(node),
            is_open: &|node| self.context.cache.is_open(node),
            eviction_decision: &|node| self.context.cache.eviction_decision(node, Instant::now()),
            explanation: explanation.as_ref(),
        });
        if next.expired != ExpiredObjects::Nothing {
            self.remove_expired(key, job_context, next.expired).await?;
            return Ok(next.next_check);
        }
        let EvaluationResult {
            status: new_status,
            desired,
            next_check,
            ..
        } = next;
        let mut next_check = earliest(next_check, reference_check);
        next_check = earliest(next_check, eviction.check_again_at);
        if new_status.is_none() && status.phase.is_none() {
            next_check = earliest(next_check, now.saturating_add(STATUS_TIMEOUT).ok());
        }
        let mut attempt = status.attempt.unwrap_or(1);
        let mut preempted = status.was_preempted();
        let mut completed = CompletedRun::from_status(key, job_context.uid(), status);
        self.record_violations(key, job_context, policy_outcome);
        if let Some(node) = new_status
            .as_ref()
            .and_then(|new_status| left_unhealthy_node(status, new_status))
        {
            self.context.cache.record_eviction(node, Instant::now());
        }
        if let Some(mut new_status) = new_status {
            match policy_outcome {
                Some(policy_outcome) => {
                    let verdict = policy_outcome.verdict.clone();
                    let stage_verdict =
                        blocked_stage.and_then(|blocked_stage| blocked_stage.verdict.clone());
                    new_status.policy = Some(match stage_verdict {
                        Some(blocked_stage) => PolicyVerdict {
                            requester: verdict.requester,
                            requester_unknown: verdict.requester_unknown,
                            ..blocked_stage
                        },
                        None => verdict,
                    });
                }
                // The decision in the status is about an earlier build.
                None if build.is_some() && !job_context.has_pods() => new_status.policy = None,
                None => {}
            }
            add_changed_pod_warnings(job_context, &mut new_status);
            new_status.placement =
                placement::placement_in_status(&self.context.cache, job_context, &new_status);
            if let Some(build) = build {
                new_status.profile = build.profile(job_context);
            }
            if let (Some(build), Some(job)) = (build, built) {
                let attempt = new_status.attempt.unwrap_or(1);
                new_status.compiled =
                    compiled_objects(&self.context.cache, key, build, job, job_context, attempt);
                if new_status.has_ended() {
                    // The status is not written again when the running pods have stopped.
                    let have_succeeded = new_status.pods.is_some_and(|p| p.succeeded == p.total);
                    let pods = new_status.compiled.iter_mut().filter(|o| o.kind == "Pod");
                    pods.for_each(|entry| entry.ready &= have_succeeded);
                }
            }
            attempt = new_status.attempt.unwrap_or(1);
            preempted = new_status.was_preempted();
            completed = CompletedRun::from_status(key, job_context.uid(), &new_status);
            match self.due_write(key, status, &new_status, explanation.as_ref()) {
                StatusWrite::None => {}
                StatusWrite::Later(at) => next_check = earliest(next_check, Some(at)),
                StatusWrite::Now => {
                    self.write_status(key, job_context, status, &new_status)
                        .await?
                }
            }
        }
        let plan_attempt = journal.plan.as_ref().map(|p| p.attempt);
        // Each attempt needs a new policy decision. The next reconciliation makes it.
        let is_current = |job: &Arc<AuthorizedJob>| job.attempt() == attempt;
        let job = buildable.ok();
        if job.as_ref().is_some_and(|job| !is_current(job)) {
            next_check = Some(now);
        }
        let job = job.filter(is_current);
        let desired = desired.authorize(plan_attempt, |attempt| {
            Some(AuthorizedAttempt {
                attempt,
                job: job?,
                read_at: build.map_or_else(Instant::now, |build| build.read_at),
                uid: job_context.uid().to_owned(),
                preempted,
                never_preempts: job_context.never_preempts,
                volumes: job_context.volumes_or_nowhere(),
            })
        });
        // Sent at each evaluation, because the answer to the status write may be lost.
        if let Some(run) = completed {
            self.context.send_event(SchedulerEvent::RunCompleted(run));
        }
        // Sent before the desired gang, because the scheduler places no gang without its limits.
        let limits = match policy_outcome {
            Some(policy_outcome) => Some(policy_outcome.limits.clone()),
            None => build
                .and_then(|_| limits_of_place(job_context))
                .map(Arc::new),
        };
        if let Some(limits) = limits {
            self.context
                .send_event(SchedulerEvent::Limits(key.clone(), limits));
        }
        self.context
            .send_event(SchedulerEvent::DesiredGang(key.clone(), Some(desired)));
        Ok(next_check)
    }

    /// Returns an explanation for a job that has had no status for some seconds.
    fn explain_missing_status(
        &self,
        key: &Key,
        status: &TrainingJobStatus,
    ) -> Option<GangExplanation> {
        let mut without_status = self.without_status.lock();
        if status.phase.is_some() {
            without_status.remove(key);
            return None;
        }
        let since = *without_status
            .entry(key.clone())
            .or_insert_with(Instant::now);
        let long = since.elapsed() >= STATUS_TIMEOUT.unsigned_abs();
        long.then(|| {
            let message =
                "the scheduler has found no place for it yet, and no reason why there is none";
            GangExplanation::waiting(Reason::Queued, message.to_owned())
        })
    }

    async fn write_status(
        &self,
        key: &Key,
        job_context: &JobContext,
        before: &TrainingJobStatus,
        after: &TrainingJobStatus,
    ) -> Result<(), WriteError> {
        let patch = json!({
            "metadata": {
                "uid": job_context.job.metadata.uid,
                "resourceVersion": job_context.job.metadata.resource_version,
            },
            "status": patch::diff(before, after),
        });
        let written: TrainingJob = self
            .commands
            .patch_status(&key.namespace, &key.name, names::STATUS_MANAGER, &patch)
            .await?;
        if event_key(before) != event_key(after)
            && let (Some(phase), Some(reason)) = (after.phase, after.reason)
        {
            info!(job = %key, ?phase, %reason, attempt = after.attempt, "{}", after.message.as_deref().unwrap_or_default());
            self.events
                .publish(written.object_ref(&()), phase, reason, after);
        }
        self.publish_policy_events(written.object_ref(&()), before, after);
        metrics::count_status_change(&self.context.metrics, key, before, after);
        // The watch shows this change, too, but may find it in the cache already.
        self.context
            .record_job_change(Some(&job_context.job), Some(&written));
        self.context
            .cache
            .jobs
            .update_returned(key.clone(), written);
        Ok(())
    }

    /// Deletes a job whose time to live is over, or its children.
    async fn remove_expired(
        &self,
        key: &Key,
        job_context: &JobContext,
        expired: ExpiredObjects,
    ) -> Result<(), WriteError> {
        let desired = DesiredGang::Finish {
            keep: false,
            hurry: true,
        };
        self.context
            .send_event(SchedulerEvent::DesiredGang(key.clone(), Some(desired)));
        // Argo CD or Flux would create the deleted job again, and it would run again.
        let is_recreated = Delivery::from_metadata(&job_context.job.metadata).is_some();
        if expired == ExpiredObjects::Job && !is_recreated {
            return self
                .commands
                .delete::<TrainingJob>(&key.namespace, &key.name, job_context.uid(), None)
                .await;
        }
        // The scheduler needs the PodGroup to delete the pods, so it is deleted last.
        if job_context
            .pods
            .values()
            .any(|p| p.job_uid == job_context.uid())
        {
            return Ok(());
        }
        children::remove_children(
            &self.commands,
            &self.context.cache,
            key,
            &job_context.job_with_all_stages,
        )
        .await
    }
}

/// Adds warnings about pods that were changed after policies judged them.
fn add_changed_pod_warnings(job_context: &JobContext, new_status: &mut TrainingJobStatus) {
    let own_pods = job_context
        .pods
        .iter()
        .filter(|(_, pod)| pod.job_uid == job_context.uid());
    let changed = own_pods.filter_map(|(name, pod)| Some((name, pod.judged_spec.changed_parts()?)));
    let warnings: Vec<_> = changed
        .take(MAX_NAMED_PODS)
        .map(|(name, parts)| format!("{parts} of pod {name:?} changed after policies judged it"))
        .collect();
    for warning in warnings {
        // Earlier warnings stay if policies were not evaluated in this reconciliation.
        let recorded = &mut new_status.policy.get_or_insert_default().warnings;
        if !recorded.contains(&warning) {
            recorded.push(warning);
        }
    }
}

/// Returns the unhealthy node that ends the attempt now.
fn left_unhealthy_node<'s>(
    before: &TrainingJobStatus,
    new_status: &'s TrainingJobStatus,
) -> Option<&'s str> {
    let last = new_status.last_failure.as_ref()?;
    let is_new = before.last_failure.as_ref() != Some(last);
    let leaves = is_new && last.reason == Reason::NodeUnhealthy.as_str();
    last.node.as_deref().filter(|_| leaves)
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}

/// Returns the fields of the status whose change is published as an event.
fn event_key(
    status: &TrainingJobStatus,
) -> (Option<JobPhase>, Option<Reason>, Option<i64>, Option<i64>) {
    let round = status
        .internal
        .awaited_pods
        .as_ref()
        .map(|awaited| awaited.round);
    let round = round.filter(|_| status.reason == Some(Reason::Recovering));
    let attempt = status.attempt.filter(|attempt| *attempt > 1);
    (status.phase, status.reason, attempt, round)
}
