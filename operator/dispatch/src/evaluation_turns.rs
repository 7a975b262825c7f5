//! Turns for evaluating policies. An evaluation may take seconds, so it runs on its own thread.
//! Neither a worker of the runtime nor the scheduler's loop waits for it. One namespace gets at
//! most half of the turns, and its next jobs and pods wait without a task. After each `SLICE`, an
//! evaluation gives its core to the next waiting evaluation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tracing::error;
use trellis_gang::external;
use trellis_gang::key::Key;
use trellis_policies::cedar::Policies;

use crate::SchedulerEvent;
use crate::context::Context;

/// How long an evaluation keeps a core before the next waiting evaluation gets it. One request in a
/// namespace with the largest allowed policies takes about twice as long, and is not interrupted.
const SLICE: Duration = Duration::from_millis(5);
/// After this time, an evaluation is slow. A wait for all jobs then excludes the jobs of its
/// namespace.
const SLOW_AFTER: Duration = Duration::from_millis(250);
/// Pause before the next try after an evaluation has panicked.
const PANIC_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// The running evaluations, and the jobs and pods that wait for one.
#[derive(Debug)]
pub struct EvaluationTurns {
    /// Cores for evaluations. One core stays free for other work.
    cores: Arc<Semaphore>,
    /// Most turns of one namespace.
    max_per_namespace: usize,
    namespaces: Mutex<BTreeMap<Arc<str>, NamespaceTurns>>,
}

/// One namespace.
#[derive(Debug, Default)]
struct NamespaceTurns {
    /// The jobs and pods that have a turn, with its start.
    running: BTreeMap<Key, Instant>,
    /// The jobs and pods that wait for a turn, in order.
    order: VecDeque<Key>,
    waiting: BTreeSet<Key>,
}

impl Default for EvaluationTurns {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new(cores.saturating_sub(1).max(1))
    }
}

impl EvaluationTurns {
    fn new(cores: usize) -> Self {
        Self {
            cores: Arc::new(Semaphore::new(cores)),
            max_per_namespace: cores.div_ceil(2),
            namespaces: Mutex::default(),
        }
    }

    /// Returns true if the key has a turn. Otherwise it waits, and is woken when a turn of its
    /// namespace ends.
    fn try_take(&self, key: &Key) -> bool {
        let mut namespaces = self.namespaces.lock();
        let waiting = namespaces.entry(key.namespace.clone()).or_default();
        if waiting.running.len() < self.max_per_namespace && !waiting.running.contains_key(key) {
            waiting.running.insert(key.clone(), Instant::now());
            return true;
        }
        if waiting.waiting.insert(key.clone()) {
            waiting.order.push_back(key.clone());
        }
        false
    }

    fn end_turn(&self, key: &Key) {
        let mut namespaces = self.namespaces.lock();
        if let Some(waiting) = namespaces.get_mut(&key.namespace) {
            waiting.running.remove(key);
        }
    }

    /// Returns true if an evaluation of the namespace takes long, so that its jobs may not report
    /// for a while.
    pub(crate) fn is_slow(&self, namespace: &str) -> bool {
        let namespaces = self.namespaces.lock();
        let turns = namespaces.get(namespace).into_iter();
        let mut turns = turns.flat_map(|waiting| waiting.running.values());
        turns.any(|since| since.elapsed() >= SLOW_AFTER)
    }

    /// Returns the key that has waited longest, if the namespace has a turn left.
    fn take_next(&self, namespace: &str) -> Option<Key> {
        let mut namespaces = self.namespaces.lock();
        let waiting = namespaces.get_mut(namespace)?;
        if waiting.running.len() >= self.max_per_namespace {
            return None;
        }
        let next = waiting.order.pop_front();
        if let Some(next) = &next {
            waiting.waiting.remove(next);
        } else if waiting.running.is_empty() {
            namespaces.remove(namespace);
        }
        next
    }
}

impl Context {
    /// Returns a turn for a job, or for pods of another controller. None: the namespace uses all of
    /// its turns. The job or the pods are looked at again once a turn has ended.
    pub fn take_turn(self: &Arc<Self>, key: &Key) -> Option<EvaluationTurn> {
        self.evaluation_turns.try_take(key).then(|| EvaluationTurn {
            context: self.clone(),
            key: key.clone(),
            has_failed: false,
        })
    }

    /// Passes a free turn on to the next waiting job or pods of the namespace. The job or pods
    /// looked at before may not have used their turn.
    pub fn pass_turn(&self, namespace: &str) {
        if let Some(next) = self.evaluation_turns.take_next(namespace) {
            self.wake(next);
        }
    }

    fn wake(&self, key: Key) {
        match external::is_external(&key) {
            true => self.send_event(SchedulerEvent::Recheck(key)),
            false => self.work_queue.add(key),
        }
    }
}

/// A turn for an evaluation. Once it has ended, its job or pods are looked at again.
pub struct EvaluationTurn {
    context: Arc<Context>,
    key: Key,
    has_failed: bool,
}

impl EvaluationTurn {
    /// Runs `work` on its own thread, with a core. `work` gets policies that share the core with
    /// other evaluations. Returns false if the evaluation panicked. Then the next try comes later.
    pub async fn evaluate(
        &mut self,
        policies: Option<Arc<Policies>>,
        work: impl FnOnce(Option<Arc<Policies>>) + Send + 'static,
    ) -> bool {
        let cores = self.context.evaluation_turns.cores.clone();
        let core = cores.clone().acquire_owned().await.ok();
        let acquire = move || {
            let cores = cores.clone();
            async move { cores.acquire_owned().await.ok() }
        };
        let done = tokio::task::spawn_blocking(move || work(share_core(policies, core, acquire)));
        if let Err(error) = done.await {
            error!(of = %self.key, %error, "policies were not evaluated");
            self.has_failed = true;
        }
        !self.has_failed
    }
}

impl Drop for EvaluationTurn {
    fn drop(&mut self) {
        self.context.evaluation_turns.end_turn(&self.key);
        self.context.pass_turn(&self.key.namespace);
        if !self.has_failed {
            return self.context.wake(self.key.clone());
        }
        let (context, key) = (self.context.clone(), self.key.clone());
        tokio::spawn(async move {
            tokio::time::sleep(PANIC_RETRY_PAUSE).await;
            context.wake(key);
        });
    }
}

/// Returns the same policies, but they give `core` back between two requests after each `SLICE`,
/// and continue once they have another core. For a thread that may block.
pub fn share_core<P, F>(
    policies: Option<Arc<Policies>>,
    core: P,
    acquire: impl Fn() -> F + Send + Sync + 'static,
) -> Option<Arc<Policies>>
where
    P: Send + 'static,
    F: Future<Output = P>,
{
    let held = Mutex::new((Some(core), Instant::now()));
    let handle = Handle::current();
    let pause = move || {
        let mut held = held.lock();
        if held.1.elapsed() >= SLICE {
            held.0 = None;
            *held = (Some(handle.block_on(acquire())), Instant::now());
        }
    };
    // Without policies, there is no evaluation.
    Some(Arc::new(policies?.with_pause(pause)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use trellis_policies::cedar::{
        JobAttributes, JobItself, PolicyLoader, PolicyRequest, RequestingNamespace,
    };

    use super::*;

    fn key(namespace: &str, name: &str) -> Key {
        Key::new(namespace, name)
    }

    #[tokio::test]
    async fn namespace_uses_only_its_own_turns() {
        let (context, _heard) = Context::new();
        let each = context.evaluation_turns.max_per_namespace;
        let names: Vec<_> = (0..=each).map(|i| key("a", &i.to_string())).collect();
        let (last, first) = names.split_last().unwrap();
        let turns: Vec<_> = first
            .iter()
            .map(|key| context.take_turn(key).unwrap())
            .collect();
        assert!(context.take_turn(last).is_none() && context.take_turn(last).is_none());
        let other = context.take_turn(&key("b", "x"));
        assert!(other.is_some(), "others have turns of their own");
        context.pass_turn("a");
        drop(turns);
        // Each that had a turn is looked at again, and the one that waited, once.
        let mut woken = BTreeSet::new();
        for _ in 0..names.len() {
            let key = context.work_queue.next().await;
            context.work_queue.work_on(&key).succeed();
            assert!(woken.insert(key));
        }
        assert_eq!(woken, names.into_iter().collect());
        context.pass_turn("a");
        drop(other);
        context.pass_turn("b");
        assert!(
            context.evaluation_turns.namespaces.lock().is_empty(),
            "nothing is kept"
        );
    }

    /// A job that is woken may need no turn: its look wakes the next one.
    #[tokio::test]
    async fn next_waiting_job_is_woken_when_the_previous_needs_no_turn() {
        let (context, _heard) = Context::new();
        let running: Vec<_> = (0..context.evaluation_turns.max_per_namespace)
            .map(|i| context.take_turn(&key("a", &format!("r{i}"))).unwrap())
            .collect();
        for waits in ["x", "y"] {
            assert!(context.take_turn(&key("a", waits)).is_none());
        }
        drop(running);
        let mut woken = BTreeSet::new();
        while !woken.contains(&key("a", "y")) {
            let next = tokio::time::timeout(Duration::from_secs(9), context.work_queue.next());
            let next = next.await.unwrap();
            context.work_queue.work_on(&next).succeed();
            context.pass_turn("a");
            woken.insert(next);
        }
    }

    /// One evaluation of thousands of requests, and a short one beside it, on one core.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn long_evaluation_gives_its_core_to_the_next_after_a_slice() {
        let (mut context, _heard) = Context::new();
        Arc::get_mut(&mut context).unwrap().evaluation_turns = EvaluationTurns::new(1);
        let loader = PolicyLoader::new().unwrap();
        let policies = Arc::new(loader.load(None, Vec::new()).0);
        let decide = |policies: Option<Arc<Policies>>| {
            let labels = BTreeMap::new();
            let (namespace, labels) = ("a", &labels);
            let about = JobAttributes {
                job: "j",
                labels,
                requester: None,
                gpus: 0,
                pods: 1,
                framework: "None",
                priority: 0,
                runtime_seconds: None,
                profile: None,
                attempt: 1,
            };
            let subject = RequestingNamespace { namespace, labels };
            drop(
                policies
                    .unwrap()
                    .decide(&subject, &about, [&PolicyRequest::Submit(JobItself)]),
            );
        };
        let is_done = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicUsize::new(0));
        let mut long = context.take_turn(&key("a", "long")).unwrap();
        let long = tokio::spawn({
            let (policies, is_done, rounds) = (policies.clone(), is_done.clone(), rounds.clone());
            async move {
                let work = move |policies: Option<Arc<Policies>>| {
                    // It does not end before the other has been evaluated.
                    while !is_done.load(Ordering::Acquire) {
                        decide(policies.clone());
                        rounds.fetch_add(1, Ordering::AcqRel);
                    }
                };
                long.evaluate(Some(policies), work).await
            }
        });
        while rounds.load(Ordering::Acquire) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(!context.evaluation_turns.is_slow("b"));
        let mut short = context.take_turn(&key("b", "short")).unwrap();
        let evaluated = short.evaluate(Some(policies), decide);
        let evaluated = tokio::time::timeout(Duration::from_secs(60), evaluated);
        assert!(evaluated.await.unwrap());
        is_done.store(true, Ordering::Release);
        assert!(long.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn panicked_evaluation_is_retried_later() {
        let (context, _heard) = Context::new();
        let mut turn = context.take_turn(&key("a", "x")).unwrap();
        let is_done = turn.evaluate(None, |_| panic!("a fault of ours")).await;
        assert!(!is_done);
        drop(turn);
        assert!(
            context.take_turn(&key("a", "y")).is_some(),
            "its turn is over"
        );
        let began = tokio::time::Instant::now();
        while context.work_queue.next().await != key("a", "x") {}
        assert!(began.elapsed() >= PANIC_RETRY_PAUSE);
    }
}
