//! The task that owns the engine. It handles events (`hearing`), takes each gang's next step
//! (`steps`), keeps the places in the engine (`places`), starts what the engine decides
//! (`decisions`), looks after victims (`victims`), and handles the results of tasks (`ended`).

mod alarms;
mod anti_affinity;
mod avoided_nodes;
mod broken_watch;
mod decisions;
mod device_classes;
mod event_handling;
mod external;
mod limits;
mod message_renewal;
mod orphans;
mod pause;
mod places;
mod run_time_prediction;
mod steps;
mod surplus;
mod surplus_gang;
mod takeover;
mod task;
mod task_results;
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
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::deletions::Deletions;
use trellis_gang::flavors::FlavorTolerations;
use trellis_gang::key::Key;
use trellis_gang::namespace_quota::QuotaDemand;
use trellis_gang::quota::{GpuHourUsage, JobLimits};
use trellis_gang::{AuthorizedAttempt, DesiredGang, engine};
use trellis_policies::quota::LimitId;
use trellis_scheduler::{Engine, LimitName, QueueName, RuntimePredictor, Snapshot};

use super::EventReceiver;
use super::commit::Committer;
use alarms::Alarms;
use avoided_nodes::AvoidedNodes;
use external::ExternalGangs;
use message_renewal::MessageRenewal;
use orphans::OrphanedPods;
use pause::RetryPause;
use surplus::JobSurplus;
use task::GangTask;
use victims::LeavingGang;

/// Longest wait at the start for the controller's wishes for placed jobs.
const MAX_ADOPTION_WAIT: Duration = Duration::from_secs(30);
/// Longest sleep while waiting for them.
const ADOPTION_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Longest sleep without an event. Correctness does not depend on it.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// State of a gang in the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EngineState {
    #[default]
    Absent,
    Waiting,
    /// Nominated: it gets its place once its victims have left.
    Nominated,
    Placed,
    /// It restarts, and its old place is kept for it for a while.
    Restarting,
}

#[derive(Debug, Default)]
struct TrackedGang {
    /// None: the controller has not sent one yet, or the job is gone.
    desired: Option<DesiredGang>,
    engine_state: EngineState,
    /// The engine knows the gang from its journal only, not from its job yet.
    is_from_journal: bool,
    /// The pods as admission leaves them, by group, for one compiled job.
    admitted: BTreeMap<String, AdmittedPod>,
    compiled: String,
    /// Places in a row that were given up because admission changed the pods.
    replans: u32,
    /// Limits that the gang draws on. None: it has not been judged yet.
    limits: Option<Arc<JobLimits>>,
    task: Option<GangTask>,
    pause: RetryPause,
    /// Why its last task failed.
    last_failure: Option<String>,
    /// Nodes on which its pods were refused.
    avoided: AvoidedNodes,
    /// The nodes on which its ranks failed are allowed again, because the others could never hold
    /// it.
    are_suspects_allowed: bool,
    deletions: Deletions,
    /// Surplus pods of the gang.
    surplus: JobSurplus,
}

impl TrackedGang {
    fn run(&self) -> Option<&Arc<AuthorizedAttempt>> {
        self.desired.as_ref().and_then(DesiredGang::attempt)
    }

    /// The pods as admission leaves them, as far as is known, by group.
    fn admitted_pods(&self, run: &AuthorizedAttempt) -> BTreeMap<String, AdmittedPod> {
        let groups = run.job.compiled().groups().iter();
        groups
            .map(|group| {
                let known = self.admitted.get(group.name()).cloned();
                let admitted = known.unwrap_or_else(|| AdmittedPod::from_group(group));
                (group.name().to_owned(), admitted)
            })
            .collect()
    }
}

/// The owner of the engine.
pub struct Driver {
    engine: Engine,
    /// Predicts run times from earlier runs.
    predictor: RuntimePredictor,
    committer: Committer,
    events: EventReceiver,
    gangs: HashMap<Key, TrackedGang>,
    /// Gangs of external pods.
    external_pods: ExternalGangs,
    /// Gangs that the engine counts as leaving, and that still hold their place.
    leaving: BTreeMap<Key, LeavingGang>,
    alarms: Alarms,
    renewal: MessageRenewal,
    /// Pods of deleted jobs.
    orphans: BTreeMap<Key, OrphanedPods>,
    /// Requests of gangs that were put off because a ResourceQuota of their namespace had no room.
    over_quota: BTreeMap<Key, QuotaDemand>,
    /// Tolerations of the flavors that the engine knows.
    flavors: FlavorTolerations,
    /// GPU-hours burnt of QuotaPolicies.
    hours: GpuHourUsage,
    /// Version of the QuotaPolicies by which the hours are counted.
    hours_version: u64,
    /// Limits of GPU-hours that gangs draw on, by the engine's names.
    hour_limits: BTreeMap<LimitName, LimitId>,
    /// Limits whose account differs from a recount, and since when.
    wrong_limits: BTreeMap<LimitId, Instant>,
    /// Number of wrong limits in the last report.
    reported_wrong_limits: usize,
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
    avoiding_suspects: BTreeSet<Key>,
    /// A kind whose watch has been silent for too long.
    broken_watch: Option<String>,
    /// Callers that wait for a snapshot of the engine.
    snapshot_requests: Vec<oneshot::Sender<Arc<Snapshot>>>,
}

impl Driver {
    /// A driver that handles the events of `heard`.
    #[must_use]
    pub fn new(committer: Committer, heard: EventReceiver) -> Self {
        Self {
            engine: Engine::new(),
            predictor: RuntimePredictor::new(),
            committer,
            events: heard,
            gangs: HashMap::new(),
            external_pods: ExternalGangs::default(),
            leaving: BTreeMap::new(),
            alarms: Alarms::default(),
            renewal: MessageRenewal::default(),
            orphans: BTreeMap::new(),
            over_quota: BTreeMap::new(),
            flavors: FlavorTolerations::default(),
            hours: GpuHourUsage::default(),
            hours_version: 0,
            hour_limits: BTreeMap::new(),
            wrong_limits: BTreeMap::new(),
            reported_wrong_limits: 0,
            pods: HashMap::new(),
            unadopted: HashSet::new(),
            inherited: HashMap::new(),
            inherited_pods: HashSet::new(),
            devices_changed: false,
            avoiding_suspects: BTreeSet::new(),
            broken_watch: None,
            snapshot_requests: Vec::new(),
        }
    }

    /// Runs until the process ends. Starts once everything has been listed.
    pub async fn run(mut self) {
        self.committer.cache().wait_synced().await;
        self.engine
            .advance(engine::to_engine_time(Timestamp::now()));
        // Nodes, flavors and queues come first: running gangs are charged to the flavors of their
        // nodes.
        let mut touched = BTreeSet::new();
        for feed in self.events.take_all() {
            self.handle_event(feed, &mut touched);
        }
        self.resume_hours();
        self.take_over().await;
        for job in touched {
            self.advance(&job);
        }
        let mut recalled = false;
        let adoption = Instant::now().checked_add(MAX_ADOPTION_WAIT);
        loop {
            let pause = self.next_pause();
            // Takes all pending events, so that no decision is based on half of a change.
            let news = tokio::select! {
                news = self.events.next() => news,
                () = tokio::time::sleep(pause) => Vec::new(),
            };
            self.committer.context().scheduler_pulse.beat();
            let mut touched = BTreeSet::new();
            for feed in news {
                self.handle_event(feed, &mut touched);
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
                    context.cache.jobs.get(job).is_some()
                        && !context.evaluation_turns.is_slow(&job.namespace)
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
                self.restore_queue_usage();
            }
            if !self.is_watch_broken(&touched) {
                // Count before deciding, so that a used-up limit is closed, and after, so that
                // started gangs burn hours from now on.
                self.count_hours();
                self.decide();
                self.count_hours();
                self.renew_messages();
            }
            self.answer_snapshot_requests();
        }
    }

    /// Sends a snapshot to the callers that still wait.
    fn answer_snapshot_requests(&mut self) {
        self.snapshot_requests.retain(|asked| !asked.is_closed());
        if self.snapshot_requests.is_empty() {
            return;
        }
        let snapshot = Arc::new(self.engine.snapshot());
        for asked in self.snapshot_requests.drain(..) {
            let _ = asked.send(snapshot.clone());
        }
    }

    /// Restores the queues' past usage from their status, after running gangs are charged.
    fn restore_queue_usage(&mut self) {
        for queue in self.committer.cache().queues.all() {
            let name = QueueName::new(queue.metadata.name.as_deref().unwrap_or_default());
            if let Some(memory) = queue
                .status
                .as_ref()
                .and_then(engine::restore_decayed_usage)
            {
                self.engine.restore_queue_memory(&name, &memory);
            }
        }
    }

    fn next_pause(&self) -> Duration {
        let longest = if !self.unadopted.is_empty() {
            ADOPTION_POLL_INTERVAL
        } else if self.broken_watch.is_some() {
            broken_watch::CHECK_INTERVAL
        } else {
            MAX_IDLE
        };
        let now = engine::to_engine_time(Timestamp::now()).as_millis();
        let engine = self.engine.next_wakeup().map(|at| {
            let millis = at.as_millis().saturating_sub(now).saturating_add(1).max(1);
            Duration::from_millis(u64::try_from(millis).unwrap_or(1))
        });
        // The engine decides only once all jobs are adopted and every watch works.
        let decides = self.unadopted.is_empty() && self.broken_watch.is_none();
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
