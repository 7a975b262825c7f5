//! The TrainingJob reconciler. Its steps are `job_context` (reads), `validate`, `build`, `children`
//! (writes of children) and `status` (writes of the status). A reconciliation does not depend on
//! the event that caused it, and a second reconciliation without a change writes nothing.

mod build;
mod children;
mod ephemeral_claims;
mod events;
mod eviction;
mod flavor_status;
mod job_context;
pub mod policies;
mod prediction;
mod profile_status;
mod queue_status;
mod quota_bypass;
pub mod quotas;
mod references;
mod status;
#[cfg(test)]
mod tests;
mod undecodable;
mod validate;

pub use flavor_status::maintain_flavor_status;
pub use prediction::{UnstoredJob, build_unstored_job, predict_job};
pub use profile_status::maintain_profile_status;
pub use queue_status::format_share;
pub use queue_status::maintain_queue_status;
pub use undecodable::undecodable_message;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
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
use trellis_machine::clock;

use build::cache::{BuildCache, JobBuild};
use events::EventQueue;
use eviction::EvictionRateLimit;
use job_context::JobContext;
use references::ReferenceChecker;

/// Most concurrent reconciliations.
const MAX_CONCURRENT_RECONCILES: usize = 16;
/// How long jobs wait after the start of the operator until the policies are loaded.
const POLICIES_TIMEOUT: Duration = Duration::from_secs(10);
/// Least time between two status patches that only update pod counts.
const COUNTS_INTERVAL: Duration = Duration::from_secs(3);

/// A reconciliation that takes longer than this is logged.
const SLOW_AFTER: Duration = Duration::from_secs(30);

/// Returns true if the object had changed before the write. The next reconciliation reads the
/// change.
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
    /// Until this time, jobs wait until the policies of their namespace are loaded. Set once the
    /// policies of the cluster are loaded.
    policies_deadline: OnceLock<Instant>,
    references: ReferenceChecker,
    /// When counts were last written, by job. The writes are throttled.
    counts_written: Mutex<HashMap<Key, Instant>>,
    /// Jobs without a status, and when they were first reconciled.
    without_status: Mutex<HashMap<Key, Instant>>,
    /// Jobs that do not decode, once their status reports it.
    refused_undecodable: Mutex<HashMap<Key, Undecodable>>,
    /// Jobs that were evicted recently.
    eviction_pace: Mutex<EvictionRateLimit>,
}

impl Controller {
    /// Returns a controller that writes through `commands`.
    #[must_use]
    pub fn new(context: Arc<Context>, commands: Commands, settings: Settings) -> Self {
        let events = EventQueue::new(&commands);
        Self {
            context,
            commands,
            settings: Arc::new(settings),
            events,
            builds: Arc::default(),
            policies_deadline: OnceLock::new(),
            references: ReferenceChecker::default(),
            counts_written: Mutex::default(),
            without_status: Mutex::default(),
            refused_undecodable: Mutex::default(),
            eviction_pace: Mutex::default(),
        }
    }

    /// Trusts the annotation that names a job's requester, even if users can write it.
    #[must_use]
    pub fn trust_requested_by(self, trusts_requested_by: bool) -> Self {
        if trusts_requested_by {
            self.context.cache.stamping.trust_all();
        }
        self
    }

    /// Checks in these namespaces before the placement of a job that its Secrets exist.
    #[must_use]
    pub fn check_secrets_in(self, namespaces: Vec<String>) -> Self {
        Self {
            references: ReferenceChecker::with_secrets_of(namespaces),
            ..self
        }
    }

    /// Runs until the process ends. Starts once all kinds are listed and the policies are loaded.
    /// If the policies are not loaded in time, the status of each job reports it.
    pub async fn run(self: Arc<Self>) {
        self.context.cache.wait_synced().await;
        self.context.log_stamping();
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
        let start = Instant::now();
        let reconciliation = self
            .reconcile(&key)
            .instrument(span!("reconcile", job = %key));
        let result = self.log_while_slow(&key, reconciliation).await;
        self.context.pass_turn(&key.namespace);
        let outcome = match &result {
            Ok(_) => ReconcileResult::Done,
            Err(error) if is_outdated(error) => ReconcileResult::Behind,
            Err(_) => ReconcileResult::Failed,
        };
        self.context
            .metrics
            .count_reconcile(outcome, start.elapsed());
        match result {
            Ok(next_time) => {
                work.succeed();
                if let Some(at) = next_time {
                    let wait = at.duration_since(clock::now());
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
                match outcome {
                    ReconcileResult::Behind => debug!(job = %key, %error, ?delay, "tried again"),
                    _ => warn!(job = %key, %error, ?delay, "not reconciled; tried again"),
                }
            }
        }
    }

    /// Logs repeatedly that a reconciliation takes long.
    async fn log_while_slow<T>(&self, key: &Key, reconciliation: impl Future<Output = T>) -> T {
        let start = Instant::now();
        let mut reconciliation = std::pin::pin!(reconciliation);
        loop {
            match tokio::time::timeout(SLOW_AFTER, &mut reconciliation).await {
                Ok(done) => return done,
                Err(_) => warn!(job = %key, took = ?start.elapsed(), "still being reconciled"),
            }
        }
    }

    /// Removes the state of a job.
    fn forget_job(&self, key: &Key) {
        self.counts_written.lock().remove(key);
        self.without_status.lock().remove(key);
        self.builds.remove(key);
        self.context.cache.policies.violations.remove(key);
    }

    /// Returns the build of the job. None if the build is being made on another thread. The job is
    /// reconciled again afterwards.
    fn get_build(
        &self,
        key: &Key,
        mut job_context: JobContext,
    ) -> Option<(JobContext, Arc<JobBuild>)> {
        if let Some(wait) = self.policies_wait(&job_context) {
            self.context.work_queue.add_after(key.clone(), wait);
            return None;
        }
        let pending = match self.builds.get(key, &mut job_context) {
            Ok(build) => return Some((job_context, build)),
            Err(pending) => pending,
        };
        let mut turn = self.context.take_turn(key)?;
        let (builds, settings) = (self.builds.clone(), self.settings.clone());
        let key = key.clone();
        tokio::spawn(async move {
            let policies = job_context.policies.clone();
            let build_job = move |policies| {
                job_context.policies = policies;
                builds.build(&key, *pending, &job_context, &settings);
            };
            turn.evaluate(policies, build_job).await;
        });
        None
    }

    /// Returns how long a job still waits until the policies of its namespace are loaded. Without
    /// this wait, a gang under commit would be rolled back after a start of the operator. None if
    /// the policies are loaded or the time is over.
    fn policies_wait(&self, job_context: &JobContext) -> Option<Duration> {
        let policies = job_context.policies.as_ref()?;
        let remaining = self
            .policies_deadline
            .get()?
            .checked_duration_since(Instant::now())?;
        (!policies.is_loaded(job_context.namespace())).then_some(remaining)
    }

    /// Reconciles one job. Returns the time of the next reconciliation.
    async fn reconcile(&self, key: &Key) -> Result<Option<Timestamp>, WriteError> {
        let job_context = match self.context.cache.job(key) {
            Some(CachedJob::Job(job)) => {
                let explanation = self.context.explanations.read().get(key).cloned();
                let mut job_context =
                    job_context::read_job(&self.context.cache, key, job, explanation);
                let untrusted_reason = self
                    .context
                    .cache
                    .stamping
                    .forgery_doubt(&job_context.job.metadata);
                if let Some(reason) = untrusted_reason {
                    job_context.distrust_requester(reason);
                }
                job_context
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
        if job_context.job.spec.external_manager().is_some() {
            self.forget_job(key);
            self.context
                .send_event(SchedulerEvent::DesiredGang(key.clone(), None));
            return Ok(None);
        }
        if job_context.job.metadata.deletion_timestamp.is_some()
            || job_context.namespace_terminating
        {
            // The garbage collector deletes the children by their owner reference. A terminating
            // namespace deletes all objects.
            self.context
                .send_event(SchedulerEvent::DesiredGang(key.clone(), None));
            return Ok(None);
        }
        let ended = job_context
            .job
            .status
            .as_ref()
            .is_some_and(TrainingJobStatus::has_ended);
        if ended {
            // Many ended jobs may exist for a long time, so their state is removed.
            self.forget_job(key);
        }
        // An ended job is not built again.
        let (job_context, build) = match ended {
            true => (job_context, None),
            false => match self.get_build(key, job_context) {
                Some((job_context, build)) => (job_context, Some(build)),
                None => return Ok(None),
            },
        };
        let children = match &build {
            Some(build) => {
                children::apply_children(
                    &self.commands,
                    &self.context.cache,
                    key,
                    &job_context,
                    build,
                )
                .await
            }
            None => Ok(None),
        };
        let claim_writes = ephemeral_claims::write_claim_nodes(
            &self.commands,
            &self.context,
            key,
            &job_context.claims_needing_node,
        )
        .await;
        match children.and_then(|conflict| claim_writes.map(|()| conflict)) {
            Ok(conflict) => {
                self.finish_reconcile(key, &job_context, build.as_deref(), conflict)
                    .await
            }
            Err(error) => {
                // The first failure is not reported, because the next try may succeed.
                if self.context.work_queue.has_failed(key)
                    && let Some(missing) = children::child_error::waiting_state(&error)
                {
                    self.finish_reconcile(key, &job_context, build.as_deref(), Some(missing))
                        .await?;
                }
                Err(error)
            }
        }
    }
}
