//! The last step: writes the job's status, and then sends the wish for its gang. In this order,
//! because an attempt counts once it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Resource;
use serde_json::json;
use tokio::time::Instant;
use tracing::info;
use trellis_api::job::{CompiledObject, JobPhase, PolicyVerdict, TrainingJobStatus};
use trellis_api::pod_group::PodGroupStatus;
use trellis_api::{Delivery, Reason, TrainingJob, names};
use trellis_cache::Cache;
use trellis_compiler::CompiledGroup;
use trellis_dispatch::commands::WriteError;
use trellis_dispatch::{Feed, is_there};
use trellis_gang::key::Key;
use trellis_gang::lifecycle::{Expired, Next, Observed, Standing};
use trellis_gang::observed::PodPhase;
use trellis_gang::{Certificate, Held, Run, Wish, lifecycle, patch};
use trellis_policies::AuthorizedJob;

use super::build::held_limits;
use super::builds::Build;
use super::dereference::Surrounded;
use super::worth::StatusWrite;
use super::{Controller, apply, secrets, tally};

/// How often a foreign object in a job's way is checked. Its deletion causes no event if its kind
/// is watched by label.
const LOOK_AT_FOREIGN: SignedDuration = SignedDuration::from_secs(15);

/// How often missing objects of a job's pods are checked, because no watch shows them.
const LOOK_FOR_MISSING: SignedDuration = SignedDuration::from_secs(10);

/// Changed pods that the status of a job names at most.
const PODS_TOLD: usize = 5;

/// How long a job may be without a status. The scheduler answers within milliseconds, so a gang
/// that is placed at once costs no write for its waiting.
const UNHEARD: SignedDuration = SignedDuration::from_secs(5);

impl Controller {
    pub(super) async fn conclude(
        &self,
        key: &Key,
        seen: &Surrounded,
        build: Option<&Build>,
        conflict: Option<Held>,
    ) -> Result<Option<Timestamp>, WriteError> {
        let now = Timestamp::now();
        let built = build.and_then(|build| build.result.as_ref().ok());
        let built = built.filter(|_| conflict.is_none());
        let look_at_foreign = conflict
            .is_some()
            .then(|| now.saturating_add(LOOK_AT_FOREIGN).unwrap_or(now));
        // A later stage does not stop a placed gang.
        let later = build.and_then(|build| build.later.as_ref());
        let later = later.filter(|_| !seen.is_planned());
        let stands = match (conflict, build.map(|b| &b.result)) {
            (Some(conflict), _) => Err(conflict),
            (None, Some(Ok(job))) => {
                let held = self.not_there(key, seen, job);
                let held = held.or_else(|| later.map(|later| later.held.clone()));
                held.map_or_else(|| Ok(job.clone()), Err)
            }
            (None, Some(Err(held))) => Err(held.clone()),
            // An ended job is not judged again.
            (None, None) => Err(Held::waits(Reason::NotApplicable, String::new())),
        };
        let mut look_again = look_at_foreign;
        let stands = match stands {
            Ok(job) if !seen.is_planned() && !seen.job.spec.is_suspended() => {
                match self.reference_missing(key, build).await {
                    None => Ok(job),
                    Some(missing) => {
                        look_again = now.saturating_add(LOOK_FOR_MISSING).ok();
                        Err(missing)
                    }
                }
            }
            stands => stands,
        };
        let standing = match &stands {
            Ok(job) => Standing::Runnable {
                compiled: job.compiled().hash().to_owned(),
            },
            Err(held) => Standing::Held(held.clone()),
        };
        let (no_status, no_journal) = (TrainingJobStatus::default(), PodGroupStatus::default());
        let status = seen.job.status.as_ref().unwrap_or(&no_status);
        let journal = seen.journal().unwrap_or(&no_journal);
        let queue = seen.queue.as_ref().ok();
        let certificate = seen.certificate.clone();
        let certificate = certificate.or_else(|| self.unheard(key, status));
        let decided = build.and_then(|build| build.decided.as_ref());
        let eviction = self.eviction(key, seen, decided, now);
        let next = lifecycle::next(Observed {
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
            whole: &seen.whole.spec,
            status,
            standing: &standing,
            evicted: eviction.now.as_deref(),
            queue: queue.and_then(|q| q.metadata.name.as_deref()),
            journal,
            has_journal: seen.own_group().is_some(),
            pods: &seen.pods,
            lost: &|node| self.context.cache.is_lost(node),
            unhealthy: &|node| self.context.cache.why_unhealthy(node),
            open: &|node| self.context.cache.is_open(node),
            leave: &|node| self.context.cache.may_leave(node, Instant::now()),
            certificate: certificate.as_ref(),
        });
        if next.expired != Expired::Nothing {
            self.remove_expired(key, seen, next.expired).await?;
            return Ok(next.again);
        }
        let Next {
            status: said,
            wish,
            again,
            ..
        } = next;
        let mut again = earliest(again, look_again);
        again = earliest(again, eviction.again);
        if said.is_none() && status.phase.is_none() {
            again = earliest(again, now.saturating_add(UNHEARD).ok());
        }
        let mut attempt = status.attempt.unwrap_or(1);
        let mut preempted = status.was_preempted();
        self.note_violations(key, seen, decided);
        if let Some(node) = said.as_ref().and_then(|said| left(status, said)) {
            self.context.cache.left(node, Instant::now());
        }
        if let Some(mut said) = said {
            match decided {
                Some(decided) => {
                    let told = decided.told.clone();
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
            warn_of_changed_pods(seen, &mut said);
            if let Some(build) = build {
                said.profile = build.profile(seen);
            }
            if let (Some(build), Some(job)) = (build, built) {
                let attempt = said.attempt.unwrap_or(1);
                said.compiled = compiled(&self.context.cache, key, build, job, seen, attempt);
                if said.has_ended() {
                    // Running pods are being stopped, and the status is not written again.
                    let up = said.pods.is_some_and(|p| p.succeeded == p.total);
                    let pods = said.compiled.iter_mut().filter(|o| o.kind == "Pod");
                    pods.for_each(|entry| entry.ready &= up);
                }
            }
            attempt = said.attempt.unwrap_or(1);
            preempted = said.was_preempted();
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
        let wish = match (wish, job) {
            (Wish::Run(attempt), Some(job)) => Wish::Run(Arc::new(Run {
                job,
                read_at: build.map_or_else(Instant::now, |build| build.read_at),
                uid: seen.uid().to_owned(),
                attempt: attempt.number,
                submitted: attempt.submitted,
                not_before: attempt.not_before,
                preempted,
                never_preempts: seen.never_preempts,
                excluded: attempt.excluded,
                suspects: attempt.suspects,
                hurry: attempt.hurry,
                checkpoint: attempt.checkpoint,
                awaited: attempt.awaited,
                volumes: seen.volumes_or_nowhere(),
            })),
            // Nothing may start now, but a place of this attempt is kept.
            (Wish::Run(next), None) if plan_attempt.is_some_and(|p| p < attempt) => Wish::Stop {
                reason: Reason::Restarting,
                hurry: next.hurry,
            },
            (Wish::Run(_) | Wish::Wait, _) => Wish::Wait,
            (Wish::Stop { reason, hurry }, _) => Wish::Stop { reason, hurry },
            (Wish::Finish { keep, hurry }, _) => Wish::Finish { keep, hurry },
        };
        // Before the wish: the scheduler places no gang without its limits.
        let limits = match decided {
            Some(decided) => Some(decided.limits.clone()),
            None => build.and_then(|_| held_limits(seen)).map(Arc::new),
        };
        if let Some(limits) = limits {
            self.context.tell(Feed::Limits(key.clone(), limits));
        }
        self.context.tell(Feed::Wish(key.clone(), Some(wish)));
        Ok(again)
    }

    /// The first missing object without which the pods cannot start.
    async fn reference_missing(&self, key: &Key, build: Option<&Build>) -> Option<Held> {
        let (commands, namespace) = (&self.commands, &key.namespace);
        let missing = self.references.missing(commands, namespace, &build?.needs);
        missing.await
    }

    /// Why the job waits for a volume or a Secret. None: all of them are ready.
    fn not_there(&self, key: &Key, seen: &Surrounded, job: &AuthorizedJob) -> Option<Held> {
        let volumes = seen.volumes.as_ref().err();
        // While pods are being committed, the committer binds the claims and reports failures.
        let bound_meanwhile =
            |held: &&Held| held.reason == Reason::ClaimNotBound && seen.is_committing();
        let volumes = volumes.filter(|v| !bound_meanwhile(v)).cloned();
        // The Secrets existed when the job was planned. A later refresh of one must not roll it
        // back.
        let secrets = || secrets::missing(&self.context.cache, key, job.compiled());
        volumes.or_else(|| (!seen.is_planned()).then(secrets).flatten())
    }

    /// An explanation for a job that has had no status for some seconds.
    fn unheard(&self, key: &Key, status: &TrainingJobStatus) -> Option<Certificate> {
        let mut unheard = self.unheard.lock();
        if status.phase.is_some() {
            unheard.remove(key);
            return None;
        }
        let since = *unheard.entry(key.clone()).or_insert_with(Instant::now);
        let long = since.elapsed() >= UNHEARD.unsigned_abs();
        long.then(|| {
            let message =
                "the scheduler has found no place for it yet, and no reason why there is none";
            Certificate::waits(Reason::Queued, message.to_owned())
        })
    }

    async fn write_status(
        &self,
        key: &Key,
        seen: &Surrounded,
        before: &TrainingJobStatus,
        after: &TrainingJobStatus,
    ) -> Result<(), WriteError> {
        let patch = json!({
            "metadata": {
                "uid": seen.job.metadata.uid,
                "resourceVersion": seen.job.metadata.resource_version,
            },
            "status": patch::between(before, after),
        });
        let written: TrainingJob = self
            .commands
            .patch_status(&key.namespace, &key.name, names::STATUS_MANAGER, &patch)
            .await?;
        if chapter(before) != chapter(after)
            && let (Some(phase), Some(reason)) = (after.phase, after.reason)
        {
            info!(job = %key, ?phase, %reason, attempt = after.attempt, "{}", after.message.as_deref().unwrap_or_default());
            self.story
                .tell(written.object_ref(&()), phase, reason, after);
        }
        self.tell_of_policy(written.object_ref(&()), before, after);
        tally::count(&self.context.counts, key, before, after);
        self.context.cache.jobs.answered(key.clone(), written);
        Ok(())
    }

    /// Removes a job whose time to live is over, or its children.
    async fn remove_expired(
        &self,
        key: &Key,
        seen: &Surrounded,
        expired: Expired,
    ) -> Result<(), WriteError> {
        let wish = Wish::Finish {
            keep: false,
            hurry: true,
        };
        self.context.tell(Feed::Wish(key.clone(), Some(wish)));
        // Argo CD or Flux would create the job again, and it would run again.
        let comes_back = Delivery::of(&seen.job.metadata).is_some();
        if expired == Expired::Job && !comes_back {
            return self
                .commands
                .delete::<TrainingJob>(&key.namespace, &key.name, seen.uid(), None)
                .await;
        }
        // The PodGroup goes last: until then the scheduler removes the pods.
        if seen.pods.values().any(|p| p.job_uid == seen.uid()) {
            return Ok(());
        }
        apply::remove(&self.commands, &self.context.cache, key, seen.uid()).await
    }
}

/// Warns of pods that were changed after policies judged them, because they run unjudged content.
fn warn_of_changed_pods(seen: &Surrounded, said: &mut TrainingJobStatus) {
    let own = seen
        .pods
        .iter()
        .filter(|(_, pod)| pod.job_uid == seen.uid());
    let changed = own.filter_map(|(name, pod)| Some((name, pod.judged.changes()?)));
    let warnings: Vec<_> = changed
        .take(PODS_TOLD)
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
fn left<'s>(before: &TrainingJobStatus, said: &'s TrainingJobStatus) -> Option<&'s str> {
    let last = said.last_failure.as_ref()?;
    let is_new = before.last_failure.as_ref() != Some(last);
    let leaves = is_new && last.reason == Reason::NodeUnhealthy.as_str();
    last.node.as_deref().filter(|_| leaves)
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}

/// The job's objects, with their readiness. Existing children are as compiled, because differences
/// are corrected before the status is written.
fn compiled(
    cache: &Cache,
    key: &Key,
    build: &Build,
    job: &AuthorizedJob,
    seen: &Surrounded,
    attempt: i64,
) -> Vec<CompiledObject> {
    let mut list = build.objects.clone();
    for entry in &mut list {
        entry.ready = match entry.kind.as_str() {
            "Service" => is_there(cache.services.get(key).as_deref(), seen.uid()),
            "NetworkPolicy" => is_there(cache.network_policies.get(key).as_deref(), seen.uid()),
            "ConfigMap" => {
                let key = Key::new(&key.namespace, &entry.name);
                is_there(cache.config_maps.get(&key).as_deref(), seen.uid())
            }
            // The operator may not read Secrets.
            "Secret" => {
                let own = (entry.kind.clone(), entry.name.as_str().into());
                build.checked.lock().contains_key(&own)
            }
            "PodGroup" => is_there(cache.pod_groups.get(key).as_deref(), seen.uid()),
            "ExternalSecret" => {
                let own = Key::new(&key.namespace, &entry.name);
                entry.problem = secrets::problem(cache, &own, seen.uid());
                entry.problem.is_none()
            }
            _ => false,
        };
    }
    let up = up(seen, attempt);
    let groups = job.compiled().groups();
    let pods = list.iter_mut().filter(|o| o.kind == "Pod");
    for (entry, group) in pods.zip(groups) {
        let up = up.get(group.name()).copied().unwrap_or_default();
        entry.ready = up >= least(group);
    }
    list
}

/// Pods of the attempt that run or have succeeded, by group.
fn up(seen: &Surrounded, attempt: i64) -> BTreeMap<&str, u32> {
    let is_up = |phase: &PodPhase| matches!(phase, PodPhase::Running | PodPhase::Succeeded);
    let of_now = seen.pods.values().filter(|pod| pod.attempt == attempt);
    let mut up: BTreeMap<&str, u32> = BTreeMap::new();
    for pod in of_now.filter(|pod| is_up(&pod.phase) && pod.job_uid == seen.uid()) {
        let count = up.entry(&pod.group).or_default();
        *count = count.saturating_add(1);
    }
    up
}

/// The part of the status whose change is worth an event.
fn chapter(
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

/// Number of pods that a group needs to be ready: its gang, else all.
fn least(group: &CompiledGroup) -> u32 {
    match group.gang_size() {
        0 => group.replicas(),
        size => size,
    }
}
