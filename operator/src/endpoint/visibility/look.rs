//! What is known at one moment, and how long that is told.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;
use trellis_api::visibility::{Explanation, NodeState, QueueState, QueuedJob};
use trellis_scheduler::{Forecast, QueueName, Snapshot};

use super::explain::{Beside, Explainer};
use super::forecasts::Forecasts;
use super::page::Page;
use super::{jobs, nodes, queues};
use crate::endpoint::{FRESH, Failure, ask};
use crate::key::Key;
use crate::scheduling::{Feed, QueueReport};
use crate::world::World;

/// So long one that nobody asks for any more is kept: with many jobs it is large.
const KEPT: Duration = Duration::from_secs(15);

/// What is known at one moment. Rows are made when somebody asks for them, which takes a while:
/// not where others wait.
pub(super) struct Look {
    at: Instant,
    /// What it took to be told.
    took: Duration,
    world: Arc<World>,
    snapshot: Arc<Snapshot>,
    reports: BTreeMap<QueueName, QueueReport>,
    forecast: Option<Arc<Forecast>>,
    jobs: OnceLock<Page<QueuedJob>>,
    queues: OnceLock<Page<QueueState>>,
    nodes: OnceLock<Page<NodeState>>,
    /// One at a time explains: it remembers what it has worked out.
    explainer: OnceLock<parking_lot::Mutex<Explainer>>,
}

impl Look {
    /// Asks the scheduler.
    async fn new(world: Arc<World>, forecasts: &Forecasts) -> Result<Self, Failure> {
        let began = Instant::now();
        let (answer, reports) = oneshot::channel();
        world.tell(Feed::AskQueues(answer));
        let snapshot = ask(&world).await?;
        let reports = reports.await.map_err(|_| Failure::unavailable())?;
        let at = Instant::now();
        let took = at.duration_since(began);
        let forecast = forecasts.of(&snapshot).await;
        Ok(Self {
            at,
            took,
            world,
            snapshot,
            reports,
            forecast,
            jobs: OnceLock::new(),
            queues: OnceLock::new(),
            nodes: OnceLock::new(),
            explainer: OnceLock::new(),
        })
    }

    fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH.max(self.took.saturating_mul(2))
    }

    /// The moment of which it tells.
    pub(super) fn now(&self) -> jiff::Timestamp {
        jobs::at(self.snapshot.now).unwrap_or_default()
    }

    /// Jobs that wait or hold a place.
    pub(super) fn jobs(&self) -> &Page<QueuedJob> {
        self.jobs.get_or_init(|| {
            let facts = jobs::Facts {
                snapshot: &self.snapshot,
                forecast: self.forecast.as_deref(),
                job: |key: &_| self.world.jobs.get(key),
                queue: |name: &_| self.world.queues.get(name),
            };
            Page::new(self.now(), facts.rows())
        })
    }

    /// Queues.
    pub(super) fn queues(&self) -> &Page<QueueState> {
        self.queues.get_or_init(|| {
            let all = self.world.queues.all();
            let rows = queues::rows(&all, &self.reports, &self.snapshot);
            Page::new(self.now(), rows)
        })
    }

    /// Nodes.
    pub(super) fn nodes(&self) -> &Page<NodeState> {
        self.nodes.get_or_init(|| {
            let created = |name: &str| {
                let node = self.world.nodes.get(&Key::new("", name))?;
                node.metadata.creation_timestamp.clone()
            };
            Page::new(self.now(), nodes::rows(&self.snapshot, created))
        })
    }
}

impl Look {
    /// Why a job waits. None: it does not.
    pub(super) fn explain(&self, job: &Key) -> Option<Explanation> {
        let explainer = self.explainer.get_or_init(|| {
            let explainer = Explainer::new(&self.snapshot);
            parking_lot::Mutex::new(explainer)
        });
        let classes = self.world.device_classes.all();
        let beside = Beside {
            snapshot: &self.snapshot,
            forecast: self.forecast.as_deref(),
            job: self.world.jobs.get(job),
            pod_group: self.world.pod_groups.get(job),
            classes: &classes,
            nodes: &|| self.world.nodes.all(),
        };
        explainer.lock().explain(job, &beside)
    }
}

/// The last look.
#[derive(Default)]
pub(in crate::endpoint) struct Looks {
    last: Arc<Mutex<Option<Arc<Look>>>>,
    forecasts: Forecasts,
}

impl Looks {
    /// What is known now, or was some seconds ago. One at a time works it out, to its end, even
    /// if who asked has gone: the next has it then.
    pub(super) async fn now(&self, world: &Arc<World>) -> Result<Arc<Look>, Failure> {
        let (last, forecasts) = (self.last.clone(), self.forecasts.clone());
        let (world, kept) = (world.clone(), self.last.clone());
        let renewed = tokio::spawn(async move {
            let mut last = last.lock_owned().await;
            if let Some(last) = last.as_ref().filter(|last| last.is_fresh()) {
                return Ok(last.clone());
            }
            let look = Arc::new(Look::new(world, &forecasts).await?);
            *last = Some(look.clone());
            tokio::spawn(forget(kept, Arc::downgrade(&look)));
            Ok(look)
        });
        renewed.await.map_err(|_| Failure::unavailable())?
    }
}

/// Lets go of a look once it has been kept long enough, if no other has come after it.
async fn forget(last: Arc<Mutex<Option<Arc<Look>>>>, look: Weak<Look>) {
    tokio::time::sleep(KEPT).await;
    let mut last = last.lock().await;
    let is_it = last
        .as_ref()
        .is_some_and(|last| Weak::ptr_eq(&Arc::downgrade(last), &look));
    if is_it {
        *last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use trellis_scheduler::Engine;

    #[tokio::test]
    async fn a_look_is_shared_while_it_is_new_and_let_go_of_when_nobody_asks() {
        let (world, mut heard) = World::new();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        tokio::spawn(async move {
            loop {
                for feed in heard.next().await {
                    match feed {
                        Feed::AskSnapshot(answer) => {
                            count.fetch_add(1, Ordering::SeqCst);
                            let _ = answer.send(Arc::new(Engine::new().snapshot()));
                        }
                        Feed::AskQueues(answer) => drop(answer.send(BTreeMap::new())),
                        _ => {}
                    }
                }
            }
        });
        let looks = Looks::default();
        let (one, other) = tokio::join!(looks.now(&world), looks.now(&world));
        let (one, other) = (one.ok().unwrap(), other.ok().unwrap());
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert!(one.explain(&Key::new("a", "nobody")).is_none());
        let kept = Arc::downgrade(&one);
        drop((one, other));
        tokio::time::pause();
        tokio::time::sleep(FRESH.saturating_mul(2)).await;
        let next = looks.now(&world).await.ok().unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2, "the first was old");
        assert!(kept.upgrade().is_none(), "the next has taken its place");
        let kept = Arc::downgrade(&next);
        drop(next);
        tokio::time::sleep(KEPT.saturating_mul(2)).await;
        assert!(kept.upgrade().is_none(), "nobody asks any more");
    }
}
