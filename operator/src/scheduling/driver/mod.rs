//! The task that owns the engine: it hears, lets the keeper say what each gang
//! needs (`steps`), keeps the engine's places (`places`), lets the engine decide
//! (`decisions`), sees to those who make room (`victims`), and takes in what has come of the writes (`ended`).

mod alarms;
mod avoided;
mod blind;
mod decisions;
mod devices;
mod ended;
mod neighbours;
mod pause;
mod places;
mod runtimes;
mod start;
mod steps;
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
use trellis_api::pod_group::PodGroupPhase;
use trellis_scheduler::{
    Engine, FlavorName, NodeName, Predictor, QueueName, Snapshot, TopologyName,
};

use super::admitted::Admitted;
use super::commit::Committer;
use super::deletions::Deletions;
use super::flavors::Flavors;
use super::namespace_quota::Ask;
use super::wish::{Run, Wish};
use super::{Feed, Heard, QueueReport, gang};
use crate::key::Key;
use alarms::Alarms;
use avoided::Avoided;
use pause::Pause;
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
    task: Option<Task>,
    pause: Pause,
    /// Why its task could not do its work, the last time.
    hindrance: Option<String>,
    /// Nodes on which its pods were refused.
    avoided: Avoided,
    deletions: Deletions,
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
    /// Gangs that the engine takes for ones that leave, and that hold their place still.
    leaving: BTreeMap<Key, Leaving>,
    alarms: Alarms,
    /// What gangs ask for that were put off since a quota of their namespace
    /// had no room for it.
    over_quota: BTreeMap<Key, Ask>,
    /// What the flavors that the engine knows bring to pods.
    flavors: Flavors,
    /// Uid of each pod that the engine counts.
    pods: HashMap<Key, Box<str>>,
    /// Jobs with a plan that the controller has not looked at since we lead:
    /// until it has, nothing new is placed. That it failed to say what it wants
    /// does for a look: the place is held in any case.
    unadopted: HashSet<Key>,
    /// Hash of the plan that each job had before we led: those are taken over.
    /// Another of an earlier epoch that appears later is a stale leader's.
    inherited: HashMap<Key, String>,
    /// Nodes or DeviceClasses have changed: other devices may be advertised or offered.
    devices_changed: bool,
    /// A kind of which nothing has been shown for too long.
    unseen: Option<String>,
    /// Who asks for all that the engine knows, once it has decided.
    asked: Vec<oneshot::Sender<Arc<Snapshot>>>,
}

impl Driver {
    /// A driver that hears from the world.
    #[must_use]
    pub fn new(committer: Committer, heard: Heard) -> Self {
        Self {
            engine: Engine::new(),
            predictor: Predictor::new(),
            committer,
            heard,
            gangs: HashMap::new(),
            leaving: BTreeMap::new(),
            alarms: Alarms::default(),
            over_quota: BTreeMap::new(),
            flavors: Flavors::default(),
            pods: HashMap::new(),
            unadopted: HashSet::new(),
            inherited: HashMap::new(),
            devices_changed: false,
            unseen: None,
            asked: Vec::new(),
        }
    }

    /// Runs until the process ends. Starts once everything has been listed.
    pub async fn run(mut self) {
        self.committer.world().synced().await;
        self.engine.advance(gang::time(Timestamp::now()));
        // Nodes, flavors and queues first: what runs is charged to the flavors of its nodes.
        let mut touched = BTreeSet::new();
        for feed in self.heard.take() {
            self.hear(feed, &mut touched);
        }
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
                let world = self.committer.world();
                self.unadopted.retain(|job| world.jobs.get(job).is_some());
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
                self.decide();
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
        for queue in self.committer.world().queues.all() {
            let name = QueueName::new(queue.metadata.name.as_deref().unwrap_or_default());
            if let Some(memory) = queue.status.as_ref().and_then(gang::memory) {
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
        let now = gang::time(Timestamp::now()).as_millis();
        let engine = self.engine.next_wakeup().map(|at| {
            let millis = at.as_millis().saturating_sub(now).saturating_add(1).max(1);
            Duration::from_millis(u64::try_from(millis).unwrap_or(1))
        });
        // What is due in the engine is decided once everybody is adopted, and everything seen.
        let decides = self.unadopted.is_empty() && self.unseen.is_none();
        let engine = engine.filter(|_| decides);
        let alarm = self
            .alarms
            .next()
            .map(|at| at.saturating_duration_since(Instant::now()));
        [engine, alarm]
            .into_iter()
            .flatten()
            .fold(longest, Duration::min)
    }

    fn hear(&mut self, feed: Feed, touched: &mut BTreeSet<Key>) {
        match feed {
            Feed::Node(name) => {
                self.devices_changed = true;
                match self.committer.world().engine_node(&name) {
                    Some(node) => self.engine.apply_node(node),
                    None => self.engine.delete_node(&NodeName::new(name)),
                };
            }
            Feed::Pod {
                pod,
                uid,
                node,
                request,
                leaves,
            } => {
                let key = gang::pod_key(&pod);
                if self.pods.get(&pod).is_some_and(|before| *before != uid) {
                    self.engine.delete_pod(&key);
                }
                self.engine
                    .apply_pod(key.clone(), NodeName::new(node), request);
                if let Some(by) = leaves {
                    self.engine.pod_leaves(&key, gang::time(by));
                }
                self.pods.insert(pod, uid);
            }
            Feed::PodGone(pod) => {
                if self.pods.remove(&pod).is_some() {
                    self.engine.delete_pod(&gang::pod_key(&pod));
                }
            }
            Feed::Repulsion(repulsion) => touched.extend(self.concerned_by(&repulsion)),
            Feed::DeviceClass => self.devices_changed = true,
            Feed::Queue(name) => {
                match self.committer.world().queues.get(&Key::new("", &name)) {
                    Some(queue) => self.engine.apply_queue(gang::queue(&name, &queue.spec)),
                    None => {
                        let name = QueueName::new(name);
                        self.predictor.forget(&name);
                        self.engine.delete_queue(&name)
                    }
                };
            }
            Feed::Flavor(name) => self.flavor_changed(&name),
            Feed::Topology(name) => {
                match self.committer.world().topologies.get(&Key::new("", &name)) {
                    Some(topology) => self
                        .engine
                        .apply_topology(gang::topology(&name, &topology.spec)),
                    None => self.engine.delete_topology(&TopologyName::new(name)),
                };
            }
            Feed::NamespaceQuota(namespace) => self.quota_changed(&namespace, touched),
            Feed::Look(job) => {
                touched.insert(job);
            }
            Feed::Wish(job, Some(wish)) => {
                let ends = matches!(wish, Wish::Finish { .. });
                let before = self.gangs.get(&job).and_then(|gang| gang.wish.as_ref());
                if ends && !matches!(before, Some(Wish::Finish { .. })) {
                    self.learn(&job, touched);
                }
                if self.take_wish(&job, wish) {
                    touched.insert(job);
                }
            }
            Feed::Wish(job, None) => {
                self.take_back_wish(&job);
                self.close_plan(&job, touched);
            }
            Feed::Unsaid(job) => {
                self.unadopted.remove(&job);
            }
            Feed::AskQueues(answer) => {
                // Who asked may have gone.
                let _ = answer.send(self.report_queues());
            }
            Feed::AskSnapshot(answer) => self.asked.push(answer),
            Feed::Ended(job, outcome) => {
                self.ended(&job, outcome);
                self.close_plan(&job, touched);
                touched.insert(job);
            }
        }
    }

    fn flavor_changed(&mut self, name: &str) {
        let flavor = FlavorName::new(name);
        match self.committer.world().flavors.get(&Key::new("", name)) {
            Some(now) => {
                self.engine.apply_flavor(gang::flavor(name, &now.spec));
                self.flavors.apply(flavor, &now.spec);
            }
            None => {
                self.engine.delete_flavor(&flavor);
                self.flavors.delete(&flavor);
            }
        }
    }

    /// A plan that is no longer carried out holds nothing of a quota: there may
    /// be room for others.
    fn close_plan(&self, job: &Key, touched: &mut BTreeSet<Key>) {
        if !self.is_committing(job) && self.committer.open_plans().leave(job) {
            self.quota_changed(&job.namespace, touched);
        }
    }

    /// True if the gang has pods to create still, now or after a pause.
    fn is_committing(&self, job: &Key) -> bool {
        let group = self.committer.world().pod_groups.get(job);
        let phase = group.and_then(|g| g.status.as_ref()?.phase);
        self.gangs.contains_key(job) && phase == Some(PodGroupPhase::Committing)
    }

    /// There may be room for gangs of the namespace that were put off.
    fn quota_changed(&self, namespace: &str, touched: &mut BTreeSet<Key>) {
        let from = self.over_quota.range(Key::new(namespace, "")..);
        let here = from.take_while(|(job, _)| &*job.namespace == namespace);
        touched.extend(here.map(|(job, _)| job.clone()));
    }

    fn report_queues(&self) -> BTreeMap<QueueName, QueueReport> {
        let counts = self.engine.queue_counts();
        let queues = self.committer.world().queues.all().into_iter();
        queues
            .filter_map(|queue| {
                let name = QueueName::new(queue.metadata.name.as_deref()?);
                let report = QueueReport {
                    counts: counts.get(&name).copied().unwrap_or_default(),
                    standing: self.engine.queue_standing(&name),
                    memory: self.engine.queue_memory(&name),
                };
                Some((name, report))
            })
            .collect()
    }

    /// Takes a wish. False: it is what was wanted before.
    fn take_wish(&mut self, job: &Key, wish: Wish) -> bool {
        let state = self.gangs.entry(job.clone()).or_default();
        if state.wish.as_ref() == Some(&wish) {
            return false;
        }
        if let Some(run) = wish.run() {
            let compiled = run.job.compiled().hash();
            if state.compiled != compiled {
                state.actual.clear();
                state.avoided = Avoided::default();
                state.replans = 0;
                compiled.clone_into(&mut state.compiled);
            }
        }
        // Something else is wanted: whatever could not be done may be no more in the way.
        state.pause.end();
        state.wish = Some(wish);
        true
    }

    /// The job is gone. Its place is kept until its last write has been
    /// answered: a create that is under way still makes a pod.
    fn take_back_wish(&mut self, job: &Key) {
        self.unadopted.remove(job);
        self.committer.world().certificates.write().remove(job);
        if let Some(state) = self.gangs.get_mut(job)
            && let Some(task) = &state.task
        {
            task.stop.cancel();
            state.wish = None;
            return;
        }
        self.forget(job);
    }

    fn forget(&mut self, job: &Key) {
        self.gangs.remove(job);
        self.alarms.clear(job);
        self.over_quota.remove(job);
        self.inherited.remove(job);
        self.leaving.remove(job);
        self.engine.delete_gang(&gang::id(job));
        self.spare(job);
    }
}
