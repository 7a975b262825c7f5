//! The task that owns the engine. It handles events (`hearing`), takes each gang's next step
//! (`steps`), keeps the places in the engine (`places`), starts what the engine decides
//! (`decisions`), looks after victims (`victims`), and handles the results of tasks (`ended`).

mod alarms;
mod avoided;
mod blind;
mod decisions;
mod devices;
mod ended;
mod external;
mod hearing;
mod limits;
mod neighbours;
mod orphans;
mod pause;
mod places;
mod renewal;
mod runtimes;
mod start;
mod steps;
mod surplus;
mod surplus_gang;
mod task;
#[cfg(test)]
mod tests;
mod victims;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::warn;
use trellis_gang::admitted::Admitted;
use trellis_gang::deletions::Deletions;
use trellis_gang::flavors::Flavors;
use trellis_gang::key::Key;
use trellis_gang::namespace_quota::Ask;
use trellis_gang::quota::{Hours, JobLimits};
use trellis_gang::{Run, Wish, engine};
use trellis_policies::quota::LimitId;
use trellis_scheduler::{Engine, LimitName, Predictor, QueueName, Snapshot};

use super::Heard;
use super::commit::Committer;
use alarms::Alarms;
use avoided::Avoided;
use external::ExternalPods;
use orphans::Orphans;
use pause::Pause;
use renewal::Renewal;
use surplus::Surplus;
use task::Task;
use victims::Leaving;

/// Longest wait at the start for the controller's wishes for placed jobs.
const ADOPTION: Duration = Duration::from_secs(30);
/// Longest sleep while waiting for them.
const ADOPTION_LOOK: Duration = Duration::from_millis(500);
/// Longest sleep without an event. Correctness does not depend on it.
const IDLE: Duration = Duration::from_secs(60);

/// State of a gang in the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    No,
    Waiting,
    /// Nominated: it gets its place once its victims have left.
    Nominated,
    Placed,
    /// It restarts, and its old place is kept for it for a while.
    Kept,
}

#[derive(Debug, Default)]
struct Gang {
    /// None: the controller has not sent one yet, or the job is gone.
    wish: Option<Wish>,
    inside: Inside,
    /// The engine knows the gang from its journal only, not from its job yet.
    by_journal: bool,
    /// The pods as admission leaves them, by group, for one compiled job.
    actual: BTreeMap<String, Admitted>,
    compiled: String,
    /// Places in a row that were given up because admission changed the pods.
    replans: u32,
    /// Limits that the gang draws on. None: it has not been judged yet.
    limits: Option<Arc<JobLimits>>,
    task: Option<Task>,
    pause: Pause,
    /// Why its last task failed.
    hindrance: Option<String>,
    /// Nodes on which its pods were refused.
    avoided: Avoided,
    /// The nodes on which its ranks failed are allowed again, because the others could never hold
    /// it.
    takes_suspects: bool,
    deletions: Deletions,
    /// Surplus pods of the gang.
    surplus: Surplus,
}

impl Gang {
    fn run(&self) -> Option<&Arc<Run>> {
        self.wish.as_ref().and_then(Wish::run)
    }

    /// The pods as admission leaves them, as far as is known, by group.
    fn planned(&self, run: &Run) -> BTreeMap<String, Admitted> {
        let groups = run.job.compiled().groups().iter();
        groups
            .map(|group| {
                let known = self.actual.get(group.name()).cloned();
                let admitted = known.unwrap_or_else(|| Admitted::unchanged(group));
                (group.name().to_owned(), admitted)
            })
            .collect()
    }
}

/// The owner of the engine.
pub struct Driver {
    engine: Engine,
    /// Predicts run times from earlier runs.
    predictor: Predictor,
    committer: Committer,
    heard: Heard,
    gangs: HashMap<Key, Gang>,
    /// Gangs of external pods.
    external_pods: ExternalPods,
    /// Gangs that the engine counts as leaving, and that still hold their place.
    leaving: BTreeMap<Key, Leaving>,
    alarms: Alarms,
    renewal: Renewal,
    /// Pods of deleted jobs.
    orphans: BTreeMap<Key, Orphans>,
    /// Requests of gangs that were put off because a ResourceQuota of their namespace had no room.
    over_quota: BTreeMap<Key, Ask>,
    /// Tolerations of the flavors that the engine knows.
    flavors: Flavors,
    /// GPU-hours burnt of QuotaPolicies.
    hours: Hours,
    /// Version of the QuotaPolicies by which the hours are counted.
    hours_version: u64,
    /// Limits of GPU-hours that gangs draw on, by the engine's names.
    hour_limits: BTreeMap<LimitName, LimitId>,
    /// Limits whose account differs from a recount, and since when.
    wrong_limits: BTreeMap<LimitId, Instant>,
    /// Number of wrong limits in the last report.
    wrong_told: usize,
    /// Uid of each pod that the engine counts.
    pods: HashMap<Key, Box<str>>,
    /// Placed jobs that the controller has not looked at since this replica leads. Until it has, no
    /// gang is placed. A look that fails counts too, because the job's place is held in any case.
    unadopted: HashSet<Key>,
    /// Hash of the plan that each job had before this replica led: those plans are taken over. Any
    /// other plan of an earlier epoch comes from a stale leader.
    inherited: HashMap<Key, String>,
    /// Uids of surplus pods that existed before this replica led.
    inherited_pods: HashSet<String>,
    /// Nodes or DeviceClasses have changed, so the advertised devices may have changed.
    devices_changed: bool,
    /// Gangs that were enqueued since the last decision with their suspects excluded.
    keep_away: BTreeSet<Key>,
    /// A kind whose watch has been silent for too long.
    unseen: Option<String>,
    /// Callers that wait for a snapshot of the engine.
    asked: Vec<oneshot::Sender<Arc<Snapshot>>>,
}

impl Driver {
    /// A driver that handles the events of `heard`.
    #[must_use]
    pub fn new(committer: Committer, heard: Heard) -> Self {
        Self {
            engine: Engine::new(),
            predictor: Predictor::new(),
            committer,
            heard,
            gangs: HashMap::new(),
            external_pods: ExternalPods::default(),
            leaving: BTreeMap::new(),
            alarms: Alarms::default(),
            renewal: Renewal::default(),
            orphans: BTreeMap::new(),
            over_quota: BTreeMap::new(),
            flavors: Flavors::default(),
            hours: Hours::default(),
            hours_version: 0,
            hour_limits: BTreeMap::new(),
            wrong_limits: BTreeMap::new(),
            wrong_told: 0,
            pods: HashMap::new(),
            unadopted: HashSet::new(),
            inherited: HashMap::new(),
            inherited_pods: HashSet::new(),
            devices_changed: false,
            keep_away: BTreeSet::new(),
            unseen: None,
            asked: Vec::new(),
        }
    }

    /// Runs until the process ends. Starts once everything has been listed.
    pub async fn run(mut self) {
        self.committer.cache().synced().await;
        self.engine.advance(engine::time(Timestamp::now()));
        // Nodes, flavors and queues come first: running gangs are charged to the flavors of their
        // nodes.
        let mut touched = BTreeSet::new();
        for feed in self.heard.take() {
            self.hear(feed, &mut touched);
        }
        self.resume_hours();
        self.take_over().await;
        for job in touched {
            self.advance(&job);
        }
        let mut recalled = false;
        let adoption = Instant::now().checked_add(ADOPTION);
        loop {
            let pause = self.pause();
            // Takes all pending events, so that no decision is based on half of a change.
            let news = tokio::select! {
                news = self.heard.next() => news,
                () = tokio::time::sleep(pause) => Vec::new(),
            };
            self.committer.context().scheduler.beat();
            let mut touched = BTreeSet::new();
            for feed in news {
                self.hear(feed, &mut touched);
            }
            while let Some(job) = self.alarms.take_due(Instant::now()) {
                touched.insert(job);
            }
            for job in &touched {
                self.advance(job);
            }
            if !self.unadopted.is_empty() {
                let context = self.committer.context();
                self.unadopted.retain(|job| {
                    context.cache.jobs.get(job).is_some() && !context.turns.is_slow(&job.namespace)
                });
                if adoption.is_some_and(|at| at > Instant::now()) && !self.unadopted.is_empty() {
                    continue;
                }
                if !self.unadopted.is_empty() {
                    warn!(
                        jobs = self.unadopted.len(),
                        "placed jobs that nobody wants yet; going on"
                    );
                    self.unadopted.clear();
                }
            }
            if !std::mem::replace(&mut recalled, true) {
                self.recall();
            }
            if !self.is_blind(&touched) {
                // Count before deciding, so that a used-up limit is closed, and after, so that
                // started gangs burn hours from now on.
                self.count_hours();
                self.decide();
                self.count_hours();
                self.renew_messages();
            }
            self.answer();
        }
    }

    /// Sends a snapshot to the callers that still wait.
    fn answer(&mut self) {
        self.asked.retain(|asked| !asked.is_closed());
        if self.asked.is_empty() {
            return;
        }
        let snapshot = Arc::new(self.engine.snapshot());
        for asked in self.asked.drain(..) {
            let _ = asked.send(snapshot.clone());
        }
    }

    /// Restores the queues' past usage from their status, after running gangs are charged.
    fn recall(&mut self) {
        for queue in self.committer.cache().queues.all() {
            let name = QueueName::new(queue.metadata.name.as_deref().unwrap_or_default());
            if let Some(memory) = queue.status.as_ref().and_then(engine::memory) {
                self.engine.recall_queue(&name, &memory);
            }
        }
    }

    fn pause(&self) -> Duration {
        let longest = if !self.unadopted.is_empty() {
            ADOPTION_LOOK
        } else if self.unseen.is_some() {
            blind::LOOK
        } else {
            IDLE
        };
        let now = engine::time(Timestamp::now()).as_millis();
        let engine = self.engine.next_wakeup().map(|at| {
            let millis = at.as_millis().saturating_sub(now).saturating_add(1).max(1);
            Duration::from_millis(u64::try_from(millis).unwrap_or(1))
        });
        // The engine decides only once all jobs are adopted and every watch works.
        let decides = self.unadopted.is_empty() && self.unseen.is_none();
        let engine = engine.filter(|_| decides);
        let renewal = self.renewal_pause().filter(|_| decides);
        let alarm = self
            .alarms
            .next()
            .map(|at| at.saturating_duration_since(Instant::now()));
        [engine, alarm, self.hours_pause(), renewal]
            .into_iter()
            .flatten()
            .fold(longest, Duration::min)
    }
}
