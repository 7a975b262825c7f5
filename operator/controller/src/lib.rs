//! The TrainingJob reconciler, one file a step: `dereference` (all the reads), `validate`, `build`
//! (pure), `apply` (all the writes of children), `status` (all the writes of status). It does not
//! depend on which event called it, keeps no state in messages, and a second pass writes nothing.

mod build;
mod build_cache;
mod child_error;
mod children;
mod drift;
mod ephemeral_claims;
mod events;
mod evicting_decisions;
mod eviction;
mod job_context;
pub mod policies;
mod prediction;
mod profile_status;
mod queue_status;
mod quota_bypass;
pub mod quotas;
mod references;
mod secrets;
mod status;
mod status_metrics;
mod status_writes;
#[cfg(test)]
mod tests;
mod undecodable;
mod validate;
mod violations;

pub use prediction::predict_job;
pub use profile_status::maintain_profile_status;
pub use queue_status::format_share;
pub use queue_status::maintain_queue_status;
pub use undecodable::undecodable_message;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, warn};
use trellis_api::job::TrainingJobStatus;
use trellis_cache::CachedJob;
use trellis_cache::watch::Undecodable;
use trellis_compiler::Settings;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_dispatch::context::Context;
use trellis_dispatch::{ReconcileResult, SchedulerEvent, span};
use trellis_gang::key::Key;

use build_cache::{BuildCache, JobBuild};
use events::EventQueue;
use eviction::EvictionRateLimit;
use job_context::JobContext;
use references::ReferenceChecker;

/// Reconciliations at once.
const MAX_CONCURRENT_RECONCILES: usize = 16;
/// How long jobs wait at the start for the policies to be read.
const POLICIES_TIMEOUT: Duration = Duration::from_secs(10);
/// Least time between two status patches that only update pod counts.
const COUNTS_INTERVAL: Duration = Duration::from_secs(3);

/// A reconciliation that takes so long is logged.
const SLOW_AFTER: Duration = Duration::from_secs(30);

/// True if an object had changed meanwhile: the next reconciliation sees it.
fn is_outdated(error: &WriteError) -> bool {
    matches!(
        error,
        WriteError::AlreadyExists(_) | WriteError::Conflict(_) | WriteError::NotFound(_)
    )
}

/// The reconciler.
pub struct Controller {
    context: Arc<Context>,
    commands: Commands,
    settings: Arc<Settings>,
    events: EventQueue,
    builds: Arc<BuildCache>,
    /// Until then jobs wait for the policies of their namespace to be loaded. Set once the
    /// cluster's policies are loaded.
    policies_deadline: OnceLock<Instant>,
    references: ReferenceChecker,
    /// When counts were last written, by job. Only for throttling.
    counts_written: Mutex<HashMap<Key, Instant>>,
    /// Jobs without a status, and when they were first reconciled.
    without_status: Mutex<HashMap<Key, Instant>>,
    /// Jobs that do not decode and whose status says so.
    refused_undecodable: Mutex<HashMap<Key, Undecodable>>,
    /// Jobs that were evicted recently.
    eviction_pace: Mutex<EvictionRateLimit>,
}

impl Controller {
    /// A controller that writes through `commands`.
    #[must_use]
    pub fn new(
        context: Arc<Context>,
        commands: Commands,
        client: Client,
        settings: Settings,
    ) -> Self {
        let story = EventQueue::new(client, &commands);
        Self {
            context,
            commands,
            settings: Arc::new(settings),
            events: story,
            builds: Arc::default(),
            policies_deadline: OnceLock::new(),
            references: ReferenceChecker::default(),
            counts_written: Mutex::default(),
            without_status: Mutex::default(),
            refused_undecodable: Mutex::default(),
            eviction_pace: Mutex::default(),
        }
    }

    /// Trusts the annotation that names a job's requester, whoever writes it.
    #[must_use]
    pub fn trust_requested_by(self, trusts_requested_by: bool) -> Self {
        if trusts_requested_by {
            self.context.cache.stamping.trust_all();
        }
        self
    }

    /// Namespaces in which Secrets are checked before a job is placed.
    #[must_use]
    pub fn check_secrets_in(self, namespaces: Vec<String>) -> Self {
        Self {
            references: ReferenceChecker::with_secrets_of(namespaces),
            ..self
        }
    }

    /// Runs until the process ends. Starts once everything has been listed and the policies are
    /// loaded. If they are not loaded in time, each job says so.
    pub async fn run(self: Arc<Self>) {
        self.context.cache.wait_synced().await;
        self.context
            .log_stamping(&self.context.cache.stamping.authentic_since());
        self.context.log_guards();
        let loaded = self.context.cache.policies.wait_loaded();
        if tokio::time::timeout(POLICIES_TIMEOUT, loaded)
            .await
            .is_err()
        {
            warn!("the policies have not been read: nothing is allowed");
        }
        if let Some(until) = Instant::now().checked_add(POLICIES_TIMEOUT) {
            self.policies_deadline.get_or_init(|| until);
        }
        let workers = Arc::new(Semaphore::new(MAX_CONCURRENT_RECONCILES));
        loop {
            let key = self.context.work_queue.next().await;
            let Ok(permit) = workers.clone().acquire_owned().await else {
                return;
            };
            let controller = self.clone();
            tokio::spawn(async move {
                controller.process(key).await;
                drop(permit);
            });
        }
    }

    async fn process(&self, key: Key) {
        let work = self.context.work_queue.work_on(&key);
        let began = Instant::now();
        let look = self
            .reconcile(&key)
            .instrument(span!("reconcile", job = %key));
        let result = self.log_while_slow(&key, look).await;
        self.context.pass_turn(&key.namespace);
        let how = match &result {
            Ok(_) => ReconcileResult::Done,
            Err(error) if is_outdated(error) => ReconcileResult::Behind,
            Err(_) => ReconcileResult::Failed,
        };
        self.context.metrics.count_reconcile(how, began.elapsed());
        match result {
            Ok(again) => {
                work.succeed();
                if let Some(at) = again {
                    let wait = at.duration_since(Timestamp::now());
                    let wait = Duration::try_from(wait).unwrap_or_default();
                    self.context
                        .work_queue
                        .add_after(key, wait.saturating_add(Duration::from_millis(5)));
                }
            }
            Err(error) => {
                self.context
                    .send_event(SchedulerEvent::Undecided(key.clone()));
                let delay = work.fail();
                match how {
                    ReconcileResult::Behind => debug!(job = %key, %error, ?delay, "tried again"),
                    _ => warn!(job = %key, %error, ?delay, "not reconciled; tried again"),
                }
            }
        }
    }

    /// Logs again and again that a reconciliation takes long.
    async fn log_while_slow<T>(&self, key: &Key, look: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let mut look = std::pin::pin!(look);
        loop {
            match tokio::time::timeout(SLOW_AFTER, &mut look).await {
                Ok(done) => return done,
                Err(_) => warn!(job = %key, took = ?began.elapsed(), "still being reconciled"),
            }
        }
    }

    /// Forgets what is remembered of a job.
    fn forget_job(&self, key: &Key) {
        self.counts_written.lock().remove(key);
        self.without_status.lock().remove(key);
        self.builds.remove(key);
        self.context.cache.policies.violations.remove(key);
    }

    /// The build of the job. None: it is being built on another thread, and the job is reconciled
    /// again afterwards.
    fn get_build(&self, key: &Key, mut seen: JobContext) -> Option<(JobContext, Arc<JobBuild>)> {
        if let Some(patience) = self.policies_wait(&seen) {
            self.context.work_queue.add_after(key.clone(), patience);
            return None;
        }
        let unbuilt = match self.builds.get(key, &mut seen) {
            Ok(build) => return Some((seen, build)),
            Err(unbuilt) => unbuilt,
        };
        let mut turn = self.context.take_turn(key)?;
        let (builds, settings) = (self.builds.clone(), self.settings.clone());
        let key = key.clone();
        tokio::spawn(async move {
            let policies = seen.policies.clone();
            let make = move |policies| {
                seen.policies = policies;
                builds.build(&key, *unbuilt, &seen, &settings);
            };
            turn.evaluate(policies, make).await;
        });
        None
    }

    /// How long a job still waits, after a start, for the policies of its namespace to be loaded.
    /// The wait keeps a gang that is being committed from being rolled back. None: they are loaded,
    /// or the time is over and the job says so.
    fn policies_wait(&self, seen: &JobContext) -> Option<Duration> {
        let policies = seen.policies.as_ref()?;
        let left = self
            .policies_deadline
            .get()?
            .checked_duration_since(Instant::now())?;
        (!policies.is_loaded(seen.namespace())).then_some(left)
    }

    /// One pass over one job. Returns the time of the next pass.
    async fn reconcile(&self, key: &Key) -> Result<Option<Timestamp>, WriteError> {
        let seen = match self.context.cache.job(key) {
            Some(CachedJob::Job(job)) => {
                let certificate = self.context.explanations.read().get(key).cloned();
                let mut seen = job_context::read_job(&self.context.cache, key, job, certificate);
                let doubt = self
                    .context
                    .cache
                    .stamping
                    .forgery_doubt(&seen.job.metadata);
                if let Some(why) = doubt {
                    seen.distrust_requester(why);
                }
                seen
            }
            Some(CachedJob::Undecodable(undecodable)) => {
                self.context
                    .send_event(SchedulerEvent::Undecided(key.clone()));
                let refused = self.refuse_undecodable(key, undecodable);
                return refused.await.map(|()| None);
            }
            None => {
                self.forget_job(key);
                self.refused_undecodable.lock().remove(key);
                self.context
                    .send_event(SchedulerEvent::DesiredGang(key.clone(), None));
                return Ok(None);
            }
        };
        if seen.job.spec.external_manager().is_some() {
            self.forget_job(key);
            self.context
                .send_event(SchedulerEvent::DesiredGang(key.clone(), None));
            return Ok(None);
        }
        if seen.job.metadata.deletion_timestamp.is_some() || seen.namespace_terminating {
            // The garbage collector removes the children by their owner reference, and the end of
            // the namespace removes everything.
            self.context
                .send_event(SchedulerEvent::DesiredGang(key.clone(), None));
            return Ok(None);
        }
        let ended = seen
            .job
            .status
            .as_ref()
            .is_some_and(TrainingJobStatus::has_ended);
        if ended {
            // Ended jobs may be many and stay for long, so their state is dropped.
            self.forget_job(key);
        }
        // An ended job is not judged again.
        let (seen, build) = match ended {
            true => (seen, None),
            false => match self.get_build(key, seen) {
                Some((seen, build)) => (seen, Some(build)),
                None => return Ok(None),
            },
        };
        let children = match &build {
            Some(build) => {
                children::apply_children(&self.commands, &self.context.cache, key, &seen, build)
                    .await
            }
            None => Ok(None),
        };
        let asked = ephemeral_claims::write_claim_nodes(
            &self.commands,
            &self.context,
            key,
            &seen.claims_needing_node,
        )
        .await;
        match children.and_then(|conflict| asked.map(|()| conflict)) {
            Ok(conflict) => {
                self.finish_reconcile(key, &seen, build.as_deref(), conflict)
                    .await
            }
            Err(error) => {
                // The first failure is not reported: it may pass with the next try.
                if self.context.work_queue.has_failed(key)
                    && let Some(missing) = child_error::waiting_state(&error)
                {
                    self.finish_reconcile(key, &seen, build.as_deref(), Some(missing))
                        .await?;
                }
                Err(error)
            }
        }
    }
}
