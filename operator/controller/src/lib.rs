//! The TrainingJob reconciler, one file a step: `dereference` (all the reads), `validate`, `build`
//! (pure), `apply` (all the writes of children), `status` (all the writes of status). It does not
//! depend on which event called it, keeps no state in messages, and a second pass writes nothing.

mod apply;
mod build;
mod builds;
mod dereference;
mod drift;
mod ephemeral;
mod eviction;
mod foresee;
mod hindrance;
pub mod policies;
mod profile_status;
mod queue_status;
mod quota_bypass;
pub mod quotas;
mod references;
mod secrets;
mod status;
mod story;
mod tally;
#[cfg(test)]
mod tests;
mod undecodable;
mod validate;
mod violations;
mod worth;

pub use foresee::foresee;
pub use profile_status::keep_profile_status;
pub use queue_status::keep_queue_status;
pub use queue_status::share;
pub use undecodable::does_not_decode;

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
use trellis_dispatch::{Feed, Looked, span};
use trellis_gang::key::Key;

use builds::{Build, Builds};
use dereference::Surrounded;
use eviction::Pace;
use references::References;
use story::Story;

/// Reconciliations at once.
const WORKERS: usize = 16;
/// How long jobs wait at the start for the policies to be read.
const POLICIES: Duration = Duration::from_secs(10);
/// Least time between two status patches that only update pod counts.
const COUNTS_EVERY: Duration = Duration::from_secs(3);

/// A reconciliation that takes so long is logged.
const LONG: Duration = Duration::from_secs(30);

/// True if an object had changed meanwhile: the next reconciliation sees it.
fn is_behind(error: &WriteError) -> bool {
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
    story: Story,
    builds: Arc<Builds>,
    /// Until then jobs wait for the policies of their namespace to be loaded. Set once the
    /// cluster's policies are loaded.
    patient_until: OnceLock<Instant>,
    references: References,
    /// When counts were last written, by job. Only for throttling.
    counted: Mutex<HashMap<Key, Instant>>,
    /// Jobs without a status, and when they were first reconciled.
    unheard: Mutex<HashMap<Key, Instant>>,
    /// Jobs that do not decode and whose status says so.
    refused: Mutex<HashMap<Key, Undecodable>>,
    /// Jobs that were evicted recently.
    pace: Mutex<Pace>,
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
        let story = Story::new(client, &commands);
        Self {
            context,
            commands,
            settings: Arc::new(settings),
            story,
            builds: Arc::default(),
            patient_until: OnceLock::new(),
            references: References::default(),
            counted: Mutex::default(),
            unheard: Mutex::default(),
            refused: Mutex::default(),
            pace: Mutex::default(),
        }
    }

    /// Trusts the annotation that names a job's requester, whoever writes it.
    #[must_use]
    pub fn trust_requested_by(self, trusts_requested_by: bool) -> Self {
        if trusts_requested_by {
            self.context.cache.stamping.trust();
        }
        self
    }

    /// Namespaces in which Secrets are checked before a job is placed.
    #[must_use]
    pub fn look_for_secrets_in(self, namespaces: Vec<String>) -> Self {
        Self {
            references: References::with_secrets_of(namespaces),
            ..self
        }
    }

    /// Runs until the process ends. Starts once everything has been listed and the policies are
    /// loaded. If they are not loaded in time, each job says so.
    pub async fn run(self: Arc<Self>) {
        self.context.cache.synced().await;
        self.context
            .tell_of_stamping(&self.context.cache.stamping.since());
        self.context.report_guards();
        let loaded = self.context.cache.policies.loaded();
        if tokio::time::timeout(POLICIES, loaded).await.is_err() {
            warn!("the policies have not been read: nothing is allowed");
        }
        if let Some(until) = Instant::now().checked_add(POLICIES) {
            self.patient_until.get_or_init(|| until);
        }
        let workers = Arc::new(Semaphore::new(WORKERS));
        loop {
            let key = self.context.work.next().await;
            let Ok(permit) = workers.clone().acquire_owned().await else {
                return;
            };
            let controller = self.clone();
            tokio::spawn(async move {
                controller.work(key).await;
                drop(permit);
            });
        }
    }

    async fn work(&self, key: Key) {
        let work = self.context.work.work_on(&key);
        let began = Instant::now();
        let look = self
            .reconcile(&key)
            .instrument(span!("reconcile", job = %key));
        let result = self.patiently(&key, look).await;
        self.context.pass_turn(&key.namespace);
        let how = match &result {
            Ok(_) => Looked::Done,
            Err(error) if is_behind(error) => Looked::Behind,
            Err(_) => Looked::Failed,
        };
        self.context.counts.reconciled(how, began.elapsed());
        match result {
            Ok(again) => {
                work.done();
                if let Some(at) = again {
                    let wait = at.duration_since(Timestamp::now());
                    let wait = Duration::try_from(wait).unwrap_or_default();
                    self.context
                        .work
                        .add_after(key, wait.saturating_add(Duration::from_millis(5)));
                }
            }
            Err(error) => {
                self.context.tell(Feed::Unsaid(key.clone()));
                let delay = work.failed();
                match how {
                    Looked::Behind => debug!(job = %key, %error, ?delay, "tried again"),
                    _ => warn!(job = %key, %error, ?delay, "not reconciled; tried again"),
                }
            }
        }
    }

    /// Logs again and again that a reconciliation takes long.
    async fn patiently<T>(&self, key: &Key, look: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let mut look = std::pin::pin!(look);
        loop {
            match tokio::time::timeout(LONG, &mut look).await {
                Ok(done) => return done,
                Err(_) => warn!(job = %key, took = ?began.elapsed(), "still being reconciled"),
            }
        }
    }

    /// Forgets what is remembered of a job.
    fn forget(&self, key: &Key) {
        self.counted.lock().remove(key);
        self.unheard.lock().remove(key);
        self.builds.forget(key);
        self.context.cache.policies.violations.forget(key);
    }

    /// The build of the job. None: it is being built on another thread, and the job is reconciled
    /// again afterwards.
    fn build(&self, key: &Key, mut seen: Surrounded) -> Option<(Surrounded, Arc<Build>)> {
        if let Some(patience) = self.awaits_policies(&seen) {
            self.context.work.add_after(key.clone(), patience);
            return None;
        }
        let unbuilt = match self.builds.known(key, &mut seen) {
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
                builds.make(&key, *unbuilt, &seen, &settings);
            };
            turn.evaluate(policies, make).await;
        });
        None
    }

    /// How long a job still waits, after a start, for the policies of its namespace to be loaded.
    /// The wait keeps a gang that is being committed from being rolled back. None: they are loaded,
    /// or the time is over and the job says so.
    fn awaits_policies(&self, seen: &Surrounded) -> Option<Duration> {
        let policies = seen.policies.as_ref()?;
        let left = self
            .patient_until
            .get()?
            .checked_duration_since(Instant::now())?;
        (!policies.is_loaded(seen.namespace())).then_some(left)
    }

    /// One pass over one job. Returns the time of the next pass.
    async fn reconcile(&self, key: &Key) -> Result<Option<Timestamp>, WriteError> {
        let seen = match self.context.cache.job(key) {
            Some(CachedJob::Job(job)) => {
                let certificate = self.context.certificates.read().get(key).cloned();
                let mut seen = dereference::job(&self.context.cache, key, job, certificate);
                let doubt = self.context.cache.stamping.doubt(&seen.job.metadata);
                if let Some(why) = doubt {
                    seen.doubt(why);
                }
                seen
            }
            Some(CachedJob::Undecodable(undecodable)) => {
                self.context.tell(Feed::Unsaid(key.clone()));
                let refused = self.refuse_undecodable(key, undecodable);
                return refused.await.map(|()| None);
            }
            None => {
                self.forget(key);
                self.refused.lock().remove(key);
                self.context.tell(Feed::Wish(key.clone(), None));
                return Ok(None);
            }
        };
        if seen.job.spec.other_manager().is_some() {
            self.forget(key);
            self.context.tell(Feed::Wish(key.clone(), None));
            return Ok(None);
        }
        if seen.job.metadata.deletion_timestamp.is_some() || seen.namespace_terminating {
            // The garbage collector removes the children by their owner reference, and the end of
            // the namespace removes everything.
            self.context.tell(Feed::Wish(key.clone(), None));
            return Ok(None);
        }
        let ended = seen
            .job
            .status
            .as_ref()
            .is_some_and(TrainingJobStatus::has_ended);
        if ended {
            // Ended jobs may be many and stay for long, so their state is dropped.
            self.forget(key);
        }
        // An ended job is not judged again.
        let (seen, build) = match ended {
            true => (seen, None),
            false => match self.build(key, seen) {
                Some((seen, build)) => (seen, Some(build)),
                None => return Ok(None),
            },
        };
        let children = match &build {
            Some(build) => {
                apply::children(&self.commands, &self.context.cache, key, &seen, build).await
            }
            None => Ok(None),
        };
        let asked = ephemeral::ask(&self.commands, &self.context, key, &seen.asks).await;
        match children.and_then(|conflict| asked.map(|()| conflict)) {
            Ok(conflict) => self.conclude(key, &seen, build.as_deref(), conflict).await,
            Err(error) => {
                // The first failure is not reported: it may pass with the next try.
                if self.context.work.has_failed(key)
                    && let Some(missing) = hindrance::of(&error)
                {
                    self.conclude(key, &seen, build.as_deref(), Some(missing))
                        .await?;
                }
                Err(error)
            }
        }
    }
}
