//! The task that owns the engine.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, Reason};
use trellis_scheduler::{Decision, Engine, NodeName, QueueName, Resources};

use super::commit::{Committer, Outcome};
use super::keeper::{self, Step};
use super::wish::{Run, Wish};
use super::{Feed, gang, journal};
use crate::key::Key;
use crate::watch::{GIVEN_UP_AFTER, PodView};
use crate::world::Certificate;

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
            self.decide();
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
                self.want(&job, wish);
                touched.insert(job);
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
            Feed::Ended(job, outcome) => {
                self.ended(&job, outcome);
                touched.insert(job);
            }
        }
    }

    fn want(&mut self, job: &Key, wish: Wish) {
        let compiled = wish
            .run()
            .map(|r| r.job.compiled().hash().to_owned())
            .unwrap_or_default();
        match self.gangs.get_mut(job) {
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
    }

    /// Does what the keeper says about one gang.
    fn advance(&mut self, job: &Key) {
        let world = self.committer.world.clone();
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        if let Some((stop, attempt)) = &state.task {
            let wanted = state.wish.run().is_some_and(|r| r.attempt == *attempt);
            if !wanted {
                stop.cancel();
            }
            return;
        }
        if state.pause.is_some_and(|until| until > Instant::now()) {
            return;
        }
        state.pause = None;
        let (Some(group), Some(tj)) = (world.pod_groups.get(job), world.jobs.get(job)) else {
            return;
        };
        let uid = tj.metadata.uid.clone().unwrap_or_default();
        if !owned(&group, &uid) {
            return;
        }
        self.unadopted.remove(job);
        let journal = group.status.clone().unwrap_or_default();
        let pods = world.pods.of(job);
        let lost = lost_nodes(&pods, |node| world.health.is_lost(node, GIVEN_UP_AFTER));
        let step = keeper::Gang {
            uid: &uid,
            wish: &state.wish,
            journal: &journal,
            pods: &pods,
            lost: &lost,
            now: Timestamp::now(),
        }
        .next();
        debug!(%job, ?step, "next");
        match step {
            Step::AwaitPods => {
                self.withdraw(job);
                self.say(
                    job,
                    Reason::PodsTerminating,
                    "pods of this name are still there".to_owned(),
                );
            }
            Step::Enqueue => self.enqueue(job, journal.retry_time.map(|t| t.0)),
            Step::Withdraw => {
                self.withdraw(job);
                world.certificates.write().remove(job);
            }
            Step::Commit => {
                let Some(plan) = journal.plan else { return };
                let Some(run) = state.wish.run().cloned() else {
                    return;
                };
                self.adopt(job, &run, &plan);
                let epoch = self.committer.commands.epoch().ok().map(|e| e.0);
                if epoch.is_some() && journal.epoch != epoch {
                    if self.inherited.remove(job) {
                        // Ours from here on: whoever wrote it cannot write it again.
                        self.write(job, Clone::clone);
                    } else {
                        let message = "the plan was written by a process that no longer leads";
                        self.undo(job, Reason::Restarting, message.to_owned(), false);
                    }
                    return;
                }
                let committer = self.committer.clone();
                let key = job.clone();
                self.start(job, run.attempt, |stop| async move {
                    committer.create(&key, &run, &plan, &stop).await
                });
            }
            Step::Hold => {
                if let (Some(run), Some(plan)) = (state.wish.run().cloned(), &journal.plan) {
                    self.adopt(job, &run, plan);
                }
                world.certificates.write().remove(job);
            }
            Step::Undo { reason, message } => {
                let expired = journal
                    .plan
                    .as_ref()
                    .is_some_and(|p| p.deadline.as_ref().is_some_and(|d| d.0 <= Timestamp::now()));
                let failed = expired && journal.phase == Some(PodGroupPhase::Committing);
                self.undo(job, reason, message, failed);
            }
            Step::Delete(pods) => {
                let committer = self.committer.clone();
                let key = job.clone();
                self.start(
                    job,
                    0,
                    |_| async move { committer.delete(&key, pods).await },
                );
            }
            Step::Clear => {
                self.withdraw(job);
                self.write(job, journal::cleared);
            }
            Step::Finish => {
                self.withdraw(job);
                self.write(job, journal::finished);
            }
        }
    }

    fn enqueue(&mut self, job: &Key, retry: Option<Timestamp>) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let Some(run) = state.wish.run().cloned() else {
            return;
        };
        let retry = retry.filter(|_| !state.forgiven);
        state.forgiven = false;
        let turn = gang::Turn {
            submitted: run.submitted,
            not_before: run.not_before.max(retry),
            excluded: run.excluded.clone(),
        };
        let gang = gang::gang(run.job.compiled(), &turn, &state.actual);
        if state.inside == Inside::Placed {
            // The place was tentative and its plan was never written.
            self.engine.delete_gang(&gang.id);
        }
        state.inside = Inside::Waiting;
        self.engine.apply_gang(gang);
    }

    fn withdraw(&mut self, job: &Key) {
        if let Some(state) = self.gangs.get_mut(job)
            && state.inside != Inside::No
        {
            state.inside = Inside::No;
            self.engine.delete_gang(&gang::id(job));
        }
    }

    /// The engine learns of a place that the journal names.
    fn adopt(&mut self, job: &Key, run: &Run, plan: &trellis_api::pod_group::Plan) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        if state.inside == Inside::Placed {
            return;
        }
        state.inside = Inside::Placed;
        let turn = gang::Turn {
            submitted: run.submitted,
            ..gang::Turn::default()
        };
        let gang = gang::gang(run.job.compiled(), &turn, &state.actual);
        // A pod that has ended holds nothing, though the plan names it.
        let over: Vec<_> = self
            .committer
            .world
            .pods
            .of(job)
            .into_iter()
            .filter(|(_, pod)| pod.phase.is_over())
            .map(|(name, _)| gang::pod_key(&Key::new(&job.namespace, &name)))
            .collect();
        self.engine.restore_gang(gang, gang::placement(plan));
        for pod in over {
            self.engine.drop_assumed(&pod);
        }
    }

    fn undo(&mut self, job: &Key, reason: Reason, message: String, failed: bool) {
        info!(%job, %reason, %message, "undone");
        self.withdraw(job);
        self.write(job, move |before| {
            journal::undone(before, reason, message, failed, Timestamp::now())
        });
    }

    /// Writes the journal.
    fn write<F>(&mut self, job: &Key, change: F)
    where
        F: FnOnce(
                &trellis_api::pod_group::PodGroupStatus,
            ) -> trellis_api::pod_group::PodGroupStatus
            + Send
            + 'static,
    {
        let committer = self.committer.clone();
        let key = job.clone();
        self.start(job, 0, |_| async move {
            match committer.journal(&key, change).await {
                Ok(()) => Outcome::Done,
                Err(outcome) => outcome,
            }
        });
    }

    /// Starts the one task of a gang.
    fn start<F>(&mut self, job: &Key, attempt: i64, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let stop = CancellationToken::new();
        state.task = Some((stop.clone(), attempt));
        let world = self.committer.world.clone();
        let task = task(stop);
        let job = job.clone();
        tokio::spawn(async move {
            let outcome = task.await;
            world.tell(Feed::Ended(job, outcome));
        });
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

    /// A place whose plan was not written is given back at once.
    fn release(&mut self, job: &Key) {
        let group = self.committer.world.pod_groups.get(job);
        let phase = group.and_then(|g| g.status.as_ref().and_then(|s| s.phase));
        if phase.unwrap_or_default() == PodGroupPhase::Pending {
            self.withdraw(job);
        }
    }

    /// Lets the engine decide, and starts what it decided.
    fn decide(&mut self) {
        for decision in self.engine.cycle(gang::time(Timestamp::now())) {
            match decision {
                Decision::Place {
                    gang: id,
                    placement,
                    ..
                } => self.place(&gang::job_of(&id), placement),
                Decision::Wait {
                    gang: id,
                    certificate,
                } => {
                    let reason = gang::reason(certificate.reason);
                    self.say(&gang::job_of(&id), reason, certificate.to_string());
                }
            }
        }
    }

    fn place(&mut self, job: &Key, placement: trellis_scheduler::Placement) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        state.inside = Inside::Placed;
        let Some(run) = state.wish.run().cloned() else {
            self.withdraw(job);
            return;
        };
        let planned: Vec<(String, Resources)> = run
            .job
            .compiled()
            .groups()
            .iter()
            .map(|group| {
                let request = state
                    .actual
                    .get(group.name())
                    .cloned()
                    .unwrap_or_else(|| gang::request_of(group));
                (group.name().to_owned(), request)
            })
            .collect();
        let committer = self.committer.clone();
        let key = job.clone();
        let attempt = run.attempt;
        self.start(job, attempt, |stop| async move {
            committer.commit(key, run, placement, planned, stop).await
        });
    }

    /// Says why a gang waits; the controller writes it down if the reason is new.
    fn say(&self, job: &Key, reason: Reason, message: String) {
        let world = &self.committer.world;
        let before = world
            .certificates
            .write()
            .insert(job.clone(), Certificate { reason, message });
        if before.is_none_or(|b| b.reason != reason) {
            world.work.add(job.clone());
        }
    }
}

fn owned(group: &PodGroup, uid: &str) -> bool {
    group
        .metadata
        .owner_references
        .iter()
        .flatten()
        .any(|o| o.controller == Some(true) && o.uid == uid)
}

fn lost_nodes(
    pods: &BTreeMap<String, PodView>,
    is_lost: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    pods.values()
        .filter_map(|p| p.node.as_deref())
        .filter(|n| is_lost(n))
        .map(str::to_owned)
        .collect()
}
