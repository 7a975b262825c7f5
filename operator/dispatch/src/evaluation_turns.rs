//! Turns for evaluating policies. An evaluation may take seconds, so it runs on its own thread.
//! Neither a worker of the runtime nor the scheduler's loop waits for it. One namespace gets at
//! most half of the turns, and its next jobs and pods wait without a task. After each `SLICE`, an
//! evaluation gives its core to the next waiting evaluation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use trellis_gang::key::Key;
use trellis_policies::cedar::Policies;

/// How long an evaluation keeps a core before the next waiting evaluation gets it. One request in a
/// namespace with the largest allowed policies takes about twice as long, and is not interrupted.
const SLICE: Duration = Duration::from_millis(5);
/// After this time, an evaluation is slow. A wait for all jobs then excludes the jobs of its
/// namespace.
const SLOW_AFTER: Duration = Duration::from_millis(250);

/// The running evaluations, and the jobs and pods that wait for one.
#[derive(Debug)]
pub struct EvaluationTurns {
    /// Cores for evaluations. One core stays free for other work.
    cores: Arc<Semaphore>,
    /// Most turns of one namespace.
    max_per_namespace: usize,
    namespaces: Mutex<BTreeMap<Arc<str>, NamespaceTurns>>,
}

/// The turns of one namespace.
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
    /// Returns turns for evaluations on so many cores.
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            cores: Arc::new(Semaphore::new(cores)),
            max_per_namespace: cores.div_ceil(2),
            namespaces: Mutex::default(),
        }
    }

    /// Returns the cores for evaluations.
    pub(crate) fn cores(&self) -> &Arc<Semaphore> {
        &self.cores
    }

    /// Gives the key a turn and returns true. If the namespace has no turn left, the key waits:
    /// [`Self::take_next`] returns it later.
    pub(crate) fn try_take(&self, key: &Key) -> bool {
        let mut namespaces = self.namespaces.lock();
        let turns = namespaces.entry(key.namespace.clone()).or_default();
        if turns.running.len() < self.max_per_namespace && !turns.running.contains_key(key) {
            turns.running.insert(key.clone(), Instant::now());
            return true;
        }
        if turns.waiting.insert(key.clone()) {
            turns.order.push_back(key.clone());
        }
        false
    }

    /// Ends the turn of the key.
    pub(crate) fn end_turn(&self, key: &Key) {
        let mut namespaces = self.namespaces.lock();
        if let Some(turns) = namespaces.get_mut(&key.namespace) {
            turns.running.remove(key);
        }
    }

    /// Returns true if an evaluation of the namespace takes long, so that its jobs may not report
    /// for a while.
    pub(crate) fn is_slow(&self, namespace: &str) -> bool {
        let namespaces = self.namespaces.lock();
        let turns = namespaces.get(namespace);
        turns.is_some_and(|turns| {
            let mut starts = turns.running.values();
            starts.any(|start| start.elapsed() >= SLOW_AFTER)
        })
    }

    /// Returns the key that has waited longest, if the namespace has a turn left.
    pub(crate) fn take_next(&self, namespace: &str) -> Option<Key> {
        let mut namespaces = self.namespaces.lock();
        let turns = namespaces.get_mut(namespace)?;
        if turns.running.len() >= self.max_per_namespace {
            return None;
        }
        let next = turns.order.pop_front();
        if let Some(next) = &next {
            turns.waiting.remove(next);
        } else if turns.running.is_empty() {
            namespaces.remove(namespace);
        }
        next
    }
}

/// Returns the same policies, which share their core with other evaluations: after each `SLICE`,
/// they drop `core` between two requests and wait for another core. Only a thread that may block
/// can evaluate them.
pub fn share_core<P, F>(
    policies: Option<Arc<Policies>>,
    core: P,
    acquire: impl Fn() -> F + Send + Sync + 'static,
) -> Option<Arc<Policies>>
where
    P: Send + 'static,
    F: Future<Output = P>,
{
    let current_slice = Mutex::new((Some(core), Instant::now()));
    let handle = Handle::current();
    let pause = move || {
        let mut slice = current_slice.lock();
        if slice.1.elapsed() >= SLICE {
            slice.0 = None;
            *slice = (Some(handle.block_on(acquire())), Instant::now());
        }
    };
    // Without policies, there is no evaluation.
    Some(Arc::new(policies?.with_pause(pause)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_with_a_waiting_key_is_forgotten_after_its_last_turn() {
        let turns = EvaluationTurns::new(2);
        let (first, second) = (Key::new("a", "first"), Key::new("a", "second"));
        assert!(turns.try_take(&first));
        assert!(!turns.try_take(&second) && !turns.try_take(&second));
        assert_eq!(turns.take_next("a"), None);
        turns.end_turn(&first);
        assert_eq!(turns.take_next("a"), Some(second));
        assert_eq!(turns.take_next("a"), None);
        assert!(turns.namespaces.lock().is_empty());
    }
}
