//! The task that owns the engine: it hears (`hearing`), lets the keeper say what each gang needs
//! (`steps`), keeps the engine's places (`places`), lets the engine decide (`decisions`), sees to
//! those who make room (`victims`), and takes in what has come of the writes (`ended`).

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
use trellis_policies::quota::LimitId;
use trellis_scheduler::{Engine, LimitName, Predictor, QueueName, Snapshot};

use super::Heard;
use super::commit::Committer;
use crate::gang::admitted::Admitted;
use crate::gang::deletions::Deletions;
use crate::gang::engine;
use crate::gang::flavors::Flavors;
use crate::gang::key::Key;
use crate::gang::namespace_quota::Ask;
use crate::gang::quota::{Hours, JobLimits};
use crate::gang::{Run, Wish};
use alarms::Alarms;
use avoided::Avoided;
use external::ExternalPods;
use orphans::Orphans;
use pause::Pause;
use renewal::Renewal;
use surplus::Surplus;
use task::Task;
use victims::Leaving;

/// Longest wait at the start for the controller to want what is placed.
const ADOPTION: Duration = Duration::from_secs(30);
/// Longest sleep while that is waited for.
const ADOPTION_LOOK: Duration = Duration::from_millis(500);
/// Longest sleep without an event: no correctness rests on it.
const IDLE: Duration = Duration::from_secs(60);

/// Where a gang is in the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    No,
    Waiting,
    /// It is to have a place that others have to leave first.
    Nominated,
    Placed,
    /// It starts again, and what it had is kept for it for a while.
    Kept,
}

#[derive(Debug, Default)]
struct Gang {
    /// None: the controller has not said yet, or the job is gone.
    wish: Option<Wish>,
    inside: Inside,
    /// The engine knows what its journal says of it, and not yet what the job says.
    by_journal: bool,
    /// What admission makes of the pods, by group, for one compiled job.
    actual: BTreeMap<String, Admitted>,
    compiled: String,
    /// Places in a row that were given up since admission changed the pods.
    replans: u32,
    /// The limits that it draws on. None: nobody has judged it yet.
    limits: Option<Arc<JobLimits>>,
    task: Option<Task>,
    pause: Pause,
    /// Why its task could not do its work, the last time.
    hindrance: Option<String>,
    /// Nodes on which its pods were refused.
    avoided: Avoided,
    /// The other nodes could never hold it: those on which its ranks failed do.
    takes_suspects: bool,
    deletions: Deletions,
    /// Its pods that are not part of the gang.
    surplus: Surplus,
}

impl Gang {
    fn run(&self) -> Option<&Arc<Run>> {
        self.wish.as_ref().and_then(Wish::run)
    }

    /// What its pods ask for, as far as is known, by group.
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
    /// How long runs have taken.
    predictor: Predictor,
    committer: Committer,
    heard: Heard,
    gangs: HashMap<Key, Gang>,
    /// Gangs of pods that others have made.
    external_pods: ExternalPods,
    /// Gangs that the engine takes for ones that leave, and that hold their place still.
    leaving: BTreeMap<Key, Leaving>,
    alarms: Alarms,
    renewal: Renewal,
    /// Pods of jobs that are deleted.
    orphans: BTreeMap<Key, Orphans>,
    /// What gangs ask for that were put off since a quota of their namespace
    /// had no room for it.
    over_quota: BTreeMap<Key, Ask>,
    /// What the flavors that the engine knows bring to pods.
    flavors: Flavors,
    /// GPU-hours that are burnt of what QuotaPolicies allow.
    hours: Hours,
    /// Version of the QuotaPolicies that it counts by.
    hours_version: u64,
    /// The limits of GPU-hours that gangs draw on, by the engine's names.
    hour_limits: BTreeMap<LimitName, LimitId>,
    /// Limits of which what is held is not what is counted anew, and since when.
    wrong_limits: BTreeMap<LimitId, Instant>,
    /// How many of them were told of last.
    wrong_told: usize,
    /// Uid of each pod that the engine counts.
    pods: HashMap<Key, Box<str>>,
    /// Jobs with a plan that the controller has not looked at since we lead:
    /// until it has, nothing new is placed. That it failed to say what it wants
    /// does for a look: the place is held in any case.
    unadopted: HashSet<Key>,
    /// Hash of the plan that each job had before we led: those are taken over.
    /// Another of an earlier epoch that appears later is a stale leader's.
    inherited: HashMap<Key, String>,
    /// Uids of pods that were there before we led and that no plan names.
    inherited_pods: HashSet<String>,
    /// Nodes or DeviceClasses have changed: other devices may be advertised or offered.
    devices_changed: bool,
    /// Gangs that the engine has been asked to keep away from suspects since it decided last.
    keep_away: BTreeSet<Key>,
    /// A kind of which nothing has been shown for too long.
    unseen: Option<String>,
    /// Who asks for all that the engine knows, once it has decided.
    asked: Vec<oneshot::Sender<Arc<Snapshot>>>,
}

impl Driver {
    /// A driver that hears what `heard` receives.
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
        self.committer.context().cache.synced().await;
        self.engine.advance(engine::time(Timestamp::now()));
        // Nodes, flavors and queues first: what runs is charged to the flavors of its nodes.
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
            // All of it: what was told together must not be decided on by halves.
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
                // What is burnt closes its limit before anybody draws on it, and what
                // starts burns from now on.
                self.count_hours();
                self.decide();
                self.count_hours();
                self.renew_messages();
            }
            self.answer();
        }
    }

    /// Tells who has asked, if they are still there.
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

    /// Turns go on as they were before a restart, now that what runs is charged.
    fn recall(&mut self) {
        for queue in self.committer.context().cache.queues.all() {
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
        // What is due in the engine is decided once everybody is adopted, and everything seen.
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
