//! The last step: writes the job's status, and then sends the wish for its gang. In this order,
//! because an attempt counts once it is written.

mod compiled_objects;
mod missing_objects;

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
use trellis_policies::AuthorizedJob;

use super::build::limits_of_place;
use super::build_cache::JobBuild;
use super::job_context::JobContext;
use super::status_writes::StatusWrite;
use super::{Controller, children, status_metrics};
use compiled_objects::compiled_objects;

/// How often a foreign object in a job's way is checked. Its deletion causes no event if its kind
/// is watched by label.
const CONFLICT_CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(15);

/// How often missing objects of a job's pods are checked, because no watch shows them.
const REFERENCE_CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(10);

/// Changed pods that the status of a job names at most.
const MAX_NAMED_PODS: usize = 5;

/// How long a job may be without a status. The scheduler answers within milliseconds, so a gang
/// that is placed at once costs no write for its waiting.
const STATUS_TIMEOUT: SignedDuration = SignedDuration::from_secs(5);

impl Controller {
    pub(super) async fn finish_reconcile(
        &self,
        key: &Key,
        seen: &JobContext,
        build: Option<&JobBuild>,
        conflict: Option<JobHold>,
    ) -> Result<Option<Timestamp>, WriteError> {
        let now = Timestamp::now();
        let built = build.and_then(|build| build.result.as_ref().ok());
        let built = built.filter(|_| conflict.is_none());
        let look_at_foreign = conflict
            .is_some()
            .then(|| now.saturating_add(CONFLICT_CHECK_INTERVAL).unwrap_or(now));
        // A later stage does not stop a placed gang.
        let later = build.and_then(|build| build.blocked_stage.as_ref());
        let later = later.filter(|_| !seen.is_planned());
        let stands = match (conflict, build.map(|b| &b.result)) {
            (Some(conflict), _) => Err(conflict),
            (None, Some(Ok(job))) => {
                let held = self.find_missing_volume_or_secret(key, seen, job);
                let held = held.or_else(|| later.map(|later| later.held.clone()));
                held.map_or_else(|| Ok(job.clone()), Err)
            }
            (None, Some(Err(held))) => Err(held.clone()),
            // An ended job is not judged again.
            (None, None) => Err(JobHold::waiting(Reason::NotApplicable, String::new())),
        };
        let mut look_again = look_at_foreign;
        let stands = match stands {
            Ok(job) if !seen.is_planned() && !seen.job.spec.is_suspended() => {
                match self.find_missing_reference(key, build).await {
                    None => Ok(job),
                    Some(missing) => {
                        look_again = now.saturating_add(REFERENCE_CHECK_INTERVAL).ok();
                        Err(missing)
                    }
                }
            }
            stands => stands,
        };
        let standing = match &stands {
            Ok(job) => JobReadiness::Runnable {
                compiled: job.compiled().hash().to_owned(),
            },
            Err(held) => JobReadiness::OnHold(held.clone()),
        };
        let (no_status, no_journal) = (TrainingJobStatus::default(), PodGroupStatus::default());
        let status = seen.job.status.as_ref().unwrap_or(&no_status);
        let journal = seen.journal().unwrap_or(&no_journal);
        let queue = seen.queue.as_ref().ok();
        let certificate = seen.explanation.clone();
        let certificate = certificate.or_else(|| self.explain_missing_status(key, status));
        let decided = build.and_then(|build| build.policy.as_ref());
        let eviction = self.due_eviction(key, seen, decided, now);
        let next = lifecycle::evaluate(ObservedJob {
            now,
            created: seen
                .job
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(now, |t| t.0),
            generation: seen.job.metadata.generation,
            uid: seen.uid(),
            spec: &seen.job.spec,
            whole_spec: &seen.job_with_all_stages.spec,
            status,
            readiness: &standing,
            eviction_reason: eviction.message.as_deref(),
            queue: queue.and_then(|q| q.metadata.name.as_deref()),
            journal,
            has_journal: seen.own_group().is_some(),
            pods: &seen.pods,
            is_lost: &|node| self.context.cache.is_lost(node),
            unhealthy_reason: &|node| self.context.cache.unhealthy_reason(node),
            is_open: &|node| self.context.cache.is_open(node),
            eviction_decision: &|node| self.context.cache.eviction_decision(node, Instant::now()),
            explanation: certificate.as_ref(),
        });
        if next.expired != ExpiredObjects::Nothing {
            self.remove_expired(key, seen, next.expired).await?;
            return Ok(next.next_check);
        }
        let EvaluationResult {
            status: said,
            desired: wish,
            next_check: again,
            ..
        } = next;
        let mut again = earliest(again, look_again);
        again = earliest(again, eviction.check_again_at);
        if said.is_none() && status.phase.is_none() {
            again = earliest(again, now.saturating_add(STATUS_TIMEOUT).ok());
        }
        let mut attempt = status.attempt.unwrap_or(1);
        let mut preempted = status.was_preempted();
        let mut completed = CompletedRun::from_status(key, seen.uid(), status);
        self.record_violations(key, seen, decided);
        if let Some(node) = said
            .as_ref()
            .and_then(|said| left_unhealthy_node(status, said))
        {
            self.context.cache.record_eviction(node, Instant::now());
        }
        if let Some(mut said) = said {
            match decided {
                Some(decided) => {
                    let told = decided.verdict.clone();
                    let of_later = later.and_then(|later| later.verdict.clone());
                    said.policy = Some(match of_later {
                        Some(later) => PolicyVerdict {
                            requester: told.requester,
                            requester_unknown: told.requester_unknown,
                            ..later
                        },
                        None => told,
                    });
                }
                // The demands that the policies judged are not known any more.
                None if build.is_some() && !seen.has_pods() => said.policy = None,
                None => {}
            }
            add_changed_pod_warnings(seen, &mut said);
            if let Some(build) = build {
                said.profile = build.profile(seen);
            }
            if let (Some(build), Some(job)) = (build, built) {
                let attempt = said.attempt.unwrap_or(1);
                said.compiled =
                    compiled_objects(&self.context.cache, key, build, job, seen, attempt);
                if said.has_ended() {
                    // Running pods are being stopped, and the status is not written again.
                    let up = said.pods.is_some_and(|p| p.succeeded == p.total);
                    let pods = said.compiled.iter_mut().filter(|o| o.kind == "Pod");
                    pods.for_each(|entry| entry.ready &= up);
                }
            }
            attempt = said.attempt.unwrap_or(1);
            preempted = said.was_preempted();
            completed = CompletedRun::from_status(key, seen.uid(), &said);
            match self.due_write(key, status, &said, certificate.as_ref()) {
                StatusWrite::None => {}
                StatusWrite::Later(at) => again = earliest(again, Some(at)),
                StatusWrite::Now => self.write_status(key, seen, status, &said).await?,
            }
        }
        let plan_attempt = journal.plan.as_ref().map(|p| p.attempt);
        // Each attempt needs a new policy decision: the written attempt triggers it.
        let is_of_now = |job: &Arc<AuthorizedJob>| job.attempt() == attempt;
        let job = stands.ok();
        if job.as_ref().is_some_and(|job| !is_of_now(job)) {
            again = Some(now);
        }
        let job = job.filter(is_of_now);
        let wish = wish.authorize(plan_attempt, |attempt| {
            Some(AuthorizedAttempt {
                attempt,
                job: job?,
                read_at: build.map_or_else(Instant::now, |build| build.read_at),
                uid: seen.uid().to_owned(),
                preempted,
                never_preempts: seen.never_preempts,
                volumes: seen.volumes_or_nowhere(),
            })
        });
        // Sent at each evaluation, because the answer to the status write may have been lost.
        if let Some(run) = completed {
            self.context.send_event(SchedulerEvent::RunCompleted(run));
        }
        // Before the wish: the scheduler places no gang without its limits.
        let limits = match decided {
            Some(decided) => Some(decided.limits.clone()),
            None => build.and_then(|_| limits_of_place(seen)).map(Arc::new),
        };
        if let Some(limits) = limits {
            self.context
                .send_event(SchedulerEvent::Limits(key.clone(), limits));
        }
        self.context
            .send_event(SchedulerEvent::DesiredGang(key.clone(), Some(wish)));
        Ok(again)
    }

    /// An explanation for a job that has had no status for some seconds.
    fn explain_missing_status(
        &self,
        key: &Key,
        status: &TrainingJobStatus,
    ) -> Option<GangExplanation> {
        let mut unheard = self.without_status.lock();
        if status.phase.is_some() {
            unheard.remove(key);
            return None;
        }
        let since = *unheard.entry(key.clone()).or_insert_with(Instant::now);
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
        seen: &JobContext,
        before: &TrainingJobStatus,
        after: &TrainingJobStatus,
    ) -> Result<(), WriteError> {
        let patch = json!({
            "metadata": {
                "uid": seen.job.metadata.uid,
                "resourceVersion": seen.job.metadata.resource_version,
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
        status_metrics::count_status_change(&self.context.metrics, key, before, after);
        self.context
            .cache
            .jobs
            .update_returned(key.clone(), written);
        Ok(())
    }

    /// Removes a job whose time to live is over, or its children.
    async fn remove_expired(
        &self,
        key: &Key,
        seen: &JobContext,
        expired: ExpiredObjects,
    ) -> Result<(), WriteError> {
        let wish = DesiredGang::Finish {
            keep: false,
            hurry: true,
        };
        self.context
            .send_event(SchedulerEvent::DesiredGang(key.clone(), Some(wish)));
        // Argo CD or Flux would create the job again, and it would run again.
        let comes_back = Delivery::from_metadata(&seen.job.metadata).is_some();
        if expired == ExpiredObjects::Job && !comes_back {
            return self
                .commands
                .delete::<TrainingJob>(&key.namespace, &key.name, seen.uid(), None)
                .await;
        }
        // The PodGroup goes last: until then the scheduler removes the pods.
        if seen.pods.values().any(|p| p.job_uid == seen.uid()) {
            return Ok(());
        }
        children::remove_children(
            &self.commands,
            &self.context.cache,
            key,
            &seen.job_with_all_stages,
        )
        .await
    }
}

/// Warns of pods that were changed after policies judged them, because they run unjudged content.
fn add_changed_pod_warnings(seen: &JobContext, said: &mut TrainingJobStatus) {
    let own = seen
        .pods
        .iter()
        .filter(|(_, pod)| pod.job_uid == seen.uid());
    let changed = own.filter_map(|(name, pod)| Some((name, pod.judged_spec.changed_parts()?)));
    let warnings: Vec<_> = changed
        .take(MAX_NAMED_PODS)
        .map(|(name, what)| format!("{what} of pod {name:?} changed after policies judged it"))
        .collect();
    for warning in warnings {
        // Warnings of an earlier look remain if policies were not evaluated this time.
        let known = &mut said.policy.get_or_insert_default().warnings;
        if !known.contains(&warning) {
            known.push(warning);
        }
    }
}

/// The unhealthy node that an attempt leaves, if it ends now.
fn left_unhealthy_node<'s>(
    before: &TrainingJobStatus,
    said: &'s TrainingJobStatus,
) -> Option<&'s str> {
    let last = said.last_failure.as_ref()?;
    let is_new = before.last_failure.as_ref() != Some(last);
    let leaves = is_new && last.reason == Reason::NodeUnhealthy.as_str();
    last.node.as_deref().filter(|_| leaves)
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}

/// The part of the status whose change is worth an event.
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
