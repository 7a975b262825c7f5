//! The task that owns the engine: it hears, lets the keeper say what each gang
//! needs (`steps`), and lets the engine decide (`decisions`).

mod decisions;
mod steps;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use trellis_scheduler::{Engine, FlavorName, NodeName, QueueName, Resources};

use super::commit::{Committer, Outcome};
use super::wish::Wish;
use super::{Feed, QueueReport, gang, journal};
use crate::key::Key;

/// Events of one batch at most: then the engine decides, whatever else waits.
const BATCH: usize = 4096;
/// Pause before a write that failed for the moment is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest wait at the start for the controller to want what is placed.
const ADOPTION: Duration = Duration::from_secs(30);
/// Longest sleep without an event: no correctness rests on it.
const IDLE: Duration = Duration::from_secs(60);

/// Where a gang is in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    No,
    Waiting,
    Placed,
}

#[derive(Debug)]
struct Gang {
    wish: Wish,
    inside: Inside,
    /// What admission makes of the pods, by group, for one compiled job.
    actual: BTreeMap<String, Resources>,
    compiled: String,
    /// The writes that are under way, and the attempt that they are for.
    task: Option<(CancellationToken, i64)>,
    pause: Option<Instant>,
    /// The namespace's quota has changed since the gang was put off.
    forgiven: bool,
}

/// The owner of the engine.
pub struct Driver {
    engine: Engine,
    committer: Committer,
    heard: UnboundedReceiver<Feed>,
    gangs: HashMap<Key, Gang>,
    /// Uid of each pod that the engine counts.
    pods: HashMap<Key, Box<str>>,
    /// Jobs with a plan that the controller has not looked at since we lead:
    /// until it has, nothing new is placed.
    unadopted: HashSet<Key>,
    /// Jobs whose plan an earlier leader wrote before we led: they are taken
    /// over. A plan of an earlier epoch that appears later is a stale leader's.
    inherited: HashSet<Key>,
}

impl Driver {
    /// A driver that hears from the world.
    #[must_use]
    pub fn new(committer: Committer, heard: UnboundedReceiver<Feed>) -> Self {
        Self {
            engine: Engine::new(),
            committer,
            heard,
            gangs: HashMap::new(),
            pods: HashMap::new(),
            unadopted: HashSet::new(),
            inherited: HashSet::new(),
        }
    }

    /// Runs until the process ends. Starts once everything has been listed.
    pub async fn run(mut self) {
        self.committer.world.synced().await;
        for group in self.committer.world.pod_groups.all() {
            if group.status.as_ref().is_some_and(|s| s.plan.is_some()) {
                self.unadopted.insert(Key::of(group.meta()));
                self.inherited.insert(Key::of(group.meta()));
            }
        }
        self.engine.advance(gang::time(Timestamp::now()));
        let mut recalled = false;
        let adoption = Instant::now().checked_add(ADOPTION);
        let mut batch = Vec::new();
        loop {
            let pause = self.pause();
            batch.clear();
            tokio::select! {
                n = self.heard.recv_many(&mut batch, BATCH) => if n == 0 { return },
                () = tokio::time::sleep(pause) => {}
            }
            let mut touched = BTreeSet::new();
            for feed in batch.drain(..) {
                self.hear(feed, &mut touched);
            }
            for job in touched {
                self.advance(&job);
            }
            if !self.unadopted.is_empty() {
                self.unadopted
                    .retain(|job| self.committer.world.jobs.get(job).is_some());
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
            self.decide();
        }
    }

    /// Turns go on as they were before a restart, now that what runs is charged.
    fn recall(&mut self) {
        for queue in self.committer.world.queues.all() {
            let name = QueueName::new(queue.metadata.name.as_deref().unwrap_or_default());
            if let Some(memory) = queue.status.as_ref().and_then(gang::memory) {
                self.engine.recall_queue(&name, &memory);
            }
        }
    }

    fn pause(&self) -> Duration {
        if !self.unadopted.is_empty() {
            return PAUSE;
        }
        let now = gang::time(Timestamp::now()).as_millis();
        self.engine.next_wakeup().map_or(IDLE, |at| {
            let millis = at.as_millis().saturating_sub(now).saturating_add(1).max(1);
            Duration::from_millis(u64::try_from(millis).unwrap_or(1)).min(IDLE)
        })
    }

    fn hear(&mut self, feed: Feed, touched: &mut BTreeSet<Key>) {
        match feed {
            Feed::Node(name) => {
                match self.committer.world.nodes.get(&Key::new("", &name)) {
                    Some(node) => self.engine.apply_node(gang::node(&node)),
                    None => self.engine.delete_node(&NodeName::new(name)),
                };
            }
            Feed::Pod {
                pod,
                uid,
                node,
                request,
            } => {
                let key = gang::pod_key(&pod);
                if self.pods.get(&pod).is_some_and(|before| *before != uid) {
                    self.engine.delete_pod(&key);
                }
                self.engine.apply_pod(key, NodeName::new(node), request);
                self.pods.insert(pod, uid);
            }
            Feed::PodGone(pod) => {
                if self.pods.remove(&pod).is_some() {
                    self.engine.delete_pod(&gang::pod_key(&pod));
                }
            }
            Feed::Queue(name) => {
                match self.committer.world.queues.get(&Key::new("", &name)) {
                    Some(queue) => self.engine.apply_queue(gang::queue(&name, &queue.spec)),
                    None => self.engine.delete_queue(&QueueName::new(name)),
                };
            }
            Feed::Flavor(name) => {
                match self.committer.world.flavors.get(&Key::new("", &name)) {
                    Some(flavor) => self.engine.apply_flavor(gang::flavor(&name, &flavor.spec)),
                    None => self.engine.delete_flavor(&FlavorName::new(name)),
                };
            }
            Feed::NamespaceQuota(namespace) => {
                for (job, state) in &mut self.gangs {
                    if job.namespace == namespace {
                        state.forgiven = true;
                        touched.insert(job.clone());
                    }
                }
            }
            Feed::Look(job) => {
                touched.insert(job);
            }
            Feed::Wish(job, Some(wish)) => {
                if self.want(&job, wish) {
                    touched.insert(job);
                }
            }
            Feed::Wish(job, None) => {
                self.unadopted.remove(&job);
                if let Some(state) = self.gangs.remove(&job)
                    && let Some((stop, _)) = state.task
                {
                    stop.cancel();
                }
                self.engine.delete_gang(&gang::id(&job));
                self.committer.world.certificates.write().remove(&job);
            }
            Feed::AskQueues(answer) => {
                // Who asked may have gone.
                let _ = answer.send(self.report_queues());
            }
            Feed::Ended(job, outcome) => {
                self.ended(&job, outcome);
                touched.insert(job);
            }
        }
    }

    fn report_queues(&self) -> BTreeMap<QueueName, QueueReport> {
        let counts = self.engine.queue_counts();
        let queues = self.committer.world.queues.all().into_iter();
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
    fn want(&mut self, job: &Key, wish: Wish) -> bool {
        let compiled = wish
            .run()
            .map(|r| r.job.compiled().hash().to_owned())
            .unwrap_or_default();
        match self.gangs.get_mut(job) {
            Some(state) if state.wish == wish => return false,
            Some(state) => {
                if !compiled.is_empty() && state.compiled != compiled {
                    state.actual.clear();
                    state.compiled = compiled;
                }
                state.wish = wish;
            }
            None => {
                let state = Gang {
                    wish,
                    inside: Inside::No,
                    actual: BTreeMap::new(),
                    compiled,
                    task: None,
                    pause: None,
                    forgiven: false,
                };
                self.gangs.insert(job.clone(), state);
            }
        }
        true
    }

    fn ended(&mut self, job: &Key, outcome: Outcome) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        state.task = None;
        match outcome {
            Outcome::Done => {}
            Outcome::Replan(actual) => {
                debug!(%job, "admission changed the pods; a place is sought anew");
                state.actual = actual.into_iter().collect();
            }
            Outcome::PutOff(reason, message) => {
                info!(%job, %reason, %message, "put off");
                self.withdraw(job);
                self.write(job, move |before| {
                    journal::put_off(before, reason, message, Timestamp::now())
                });
            }
            Outcome::Undo(reason, message) => self.undo(job, reason, message, true),
            Outcome::Again(message) => {
                debug!(%job, %message, "again");
                state.pause = Instant::now().checked_add(PAUSE);
                let world = self.committer.world.clone();
                let key = job.clone();
                self.release(job);
                tokio::spawn(async move {
                    tokio::time::sleep(PAUSE).await;
                    world.tell(Feed::Look(key));
                });
            }
        }
    }
}
