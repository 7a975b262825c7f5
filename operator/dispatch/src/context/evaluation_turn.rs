//! A turn of one job, or of the pods of an external gang, to evaluate policies.

use std::sync::Arc;
use std::time::Duration;

use tracing::error;
use trellis_gang::external;
use trellis_gang::key::Key;
use trellis_machine::threads;
use trellis_policies::cedar::Policies;

use super::Context;
use crate::SchedulerEvent;
use crate::evaluation_turns::share_core;

/// Pause before the next try after an evaluation has panicked.
const PANIC_RETRY_PAUSE: Duration = Duration::from_secs(60);

impl Context {
    /// Returns a turn for a job or an external gang. Returns None if the namespace uses all of its
    /// turns; the key is then woken once a turn of the namespace ends.
    pub fn take_turn(self: &Arc<Self>, key: &Key) -> Option<EvaluationTurn> {
        self.evaluation_turns.try_take(key).then(|| EvaluationTurn {
            context: self.clone(),
            key: key.clone(),
            has_failed: false,
        })
    }

    /// Wakes the key that has waited longest for a turn of the namespace, if a turn is free.
    /// Callers do this after each reconciliation, because a woken key may not have taken its turn.
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

/// A turn for an evaluation. The drop ends the turn and wakes its key.
pub struct EvaluationTurn {
    context: Arc<Context>,
    key: Key,
    has_failed: bool,
}

impl EvaluationTurn {
    /// Runs `work` on its own thread, with a core. `work` gets policies that share the core with
    /// other evaluations. Returns false if the evaluation panicked or was cancelled; the drop then
    /// wakes the key only after a pause.
    pub async fn evaluate(
        &mut self,
        policies: Option<Arc<Policies>>,
        work: impl FnOnce(Option<Arc<Policies>>) + Send + 'static,
    ) -> bool {
        let cores = self.context.evaluation_turns.cores().clone();
        let core = cores.clone().acquire_owned().await.ok();
        let acquire = move || {
            let cores = cores.clone();
            async move { cores.acquire_owned().await.ok() }
        };
        let done = threads::spawn_blocking(move || work(share_core(policies, core, acquire)));
        if let Err(error) = done.await {
            // The end of the process cancels evaluations, too.
            if error.is_panic() {
                error!(of = %self.key, %error, "policies were not evaluated");
            }
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use trellis_policies::cedar::{
        JobAttributes, JobItself, PolicyLoader, PolicyRequest, RequestingNamespace,
    };

    use super::*;
    use crate::EventReceiver;
    use crate::captured_log::CapturedLog;
    use crate::evaluation_turns::EvaluationTurns;

    fn key(namespace: &str, name: &str) -> Key {
        Key::new(namespace, name)
    }

    /// Returns a context with turns on so many cores.
    fn context_with_cores(cores: usize) -> (Arc<Context>, EventReceiver) {
        let (mut context, events) = Context::new();
        Arc::get_mut(&mut context).unwrap().evaluation_turns = EvaluationTurns::new(cores);
        (context, events)
    }

    #[tokio::test]
    async fn namespace_uses_only_its_own_turns() {
        let (context, _events) = context_with_cores(3);
        let turns = ["0", "1"].map(|name| context.take_turn(&key("a", name)).unwrap());
        let waiting = key("a", "2");
        assert!(context.take_turn(&waiting).is_none() && context.take_turn(&waiting).is_none());
        let turn_of_b = context.take_turn(&key("b", "x"));
        assert!(turn_of_b.is_some(), "namespace b has turns of its own");
        context.pass_turn("a");
        drop(turns);
        // Each key that had a turn is woken, and the waiting key is woken once.
        let mut woken = BTreeSet::new();
        for _ in 0..3 {
            let next = context.work_queue.next().await;
            context.work_queue.work_on(&next).succeed();
            assert!(woken.insert(next));
        }
        assert_eq!(woken, ["0", "1", "2"].map(|name| key("a", name)).into());
    }

    /// A job that is woken may need no turn. After its reconciliation, the next job is woken.
    #[tokio::test]
    async fn next_waiting_job_is_woken_when_the_previous_needs_no_turn() {
        let (context, _events) = context_with_cores(2);
        let running = context.take_turn(&key("a", "r")).unwrap();
        for waiting in ["x", "y"] {
            assert!(context.take_turn(&key("a", waiting)).is_none());
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

    /// Runs an evaluation of thousands of requests and a short one on one core.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn long_evaluation_gives_its_core_to_the_next_after_a_slice() {
        let (context, _events) = context_with_cores(1);
        let loader = PolicyLoader::new().unwrap();
        let policies = Arc::new(loader.load(None, Vec::new()).0);
        let decide = |policies: Option<Arc<Policies>>| {
            let labels = BTreeMap::new();
            let (namespace, labels) = ("a", &labels);
            let job = JobAttributes {
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
                    .decide(&subject, &job, [&PolicyRequest::Submit(JobItself)]),
            );
        };
        let is_done = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicUsize::new(0));
        let mut long = context.take_turn(&key("a", "long")).unwrap();
        let long = tokio::spawn({
            let (policies, is_done, rounds) = (policies.clone(), is_done.clone(), rounds.clone());
            async move {
                let work = move |policies: Option<Arc<Policies>>| {
                    // The long evaluation ends only after the short one.
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
        let evaluation = short.evaluate(Some(policies), decide);
        let evaluation = tokio::time::timeout(Duration::from_secs(60), evaluation);
        assert!(evaluation.await.unwrap());
        is_done.store(true, Ordering::Release);
        assert!(long.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn panicked_evaluation_is_retried_later() {
        let (context, _events) = context_with_cores(1);
        let mut turn = context.take_turn(&key("a", "x")).unwrap();
        let succeeded = turn.evaluate(None, |_| panic!("a fault of ours")).await;
        assert!(!succeeded);
        drop(turn);
        assert!(
            context.take_turn(&key("a", "y")).is_some(),
            "the panicked evaluation's turn has ended"
        );
        let start = tokio::time::Instant::now();
        while context.work_queue.next().await != key("a", "x") {}
        assert!(start.elapsed() >= PANIC_RETRY_PAUSE);
    }

    /// A runtime that ends cancels the work that it should start on a thread.
    #[tokio::test]
    async fn cancelled_evaluation_logs_nothing() {
        let (log, _guard) = CapturedLog::begin();
        let (context, _events) = context_with_cores(1);
        let mut turn = context.take_turn(&key("a", "x")).unwrap();
        let ending = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let handle = ending.handle().clone();
        ending.shutdown_background();
        let evaluated = {
            let _entered = handle.enter();
            turn.evaluate(None, |_| ()).now_or_never()
        };
        assert_eq!(evaluated, Some(false), "there is no result");
        assert_eq!(log.lines(), Vec::<String>::new());
    }
}
