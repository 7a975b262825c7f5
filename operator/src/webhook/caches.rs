//! What is known of the cluster: of who leads all that it knows, of others what an
//! answer hangs on, and no more.

use std::sync::Arc;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Client;
use parking_lot::RwLock;
use tokio::sync::watch;
use tracing::{error, info};
use trellis_api::{ClusterJobPolicy, JobPolicy, QuotaPolicy, RuntimeProfile, TrainingQueue};
use trellis_policies::cedar::Loader;

use crate::policy::keep_policies;
use crate::tasks::Tasks;
use crate::watch::{SlimNamespace, SlimService, Unhealthy};
use crate::world::World;

/// Kinds that are watched by who does not lead, beside policies.
const WATCHES: usize = 6;

/// What is known now. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Caches {
    now: Arc<RwLock<Arc<World>>>,
    /// What the leader knows, once we lead.
    leads: watch::Sender<Option<Arc<World>>>,
}

impl Default for Caches {
    /// Nothing is known.
    fn default() -> Self {
        let (world, _) = World::of(Unhealthy::default(), WATCHES);
        Self {
            now: Arc::new(RwLock::new(world)),
            leads: watch::Sender::default(),
        }
    }
}

impl Caches {
    /// This is known, and stays so.
    #[cfg(test)]
    pub(super) fn of(world: Arc<World>) -> Self {
        let caches = Self::default();
        *caches.now.write() = world;
        caches
    }

    /// What is known now.
    pub(super) fn world(&self) -> Arc<World> {
        self.now.read().clone()
    }

    /// True once all is known that an answer hangs on.
    pub(super) fn is_complete(&self) -> bool {
        let world = self.world();
        world.is_synced() && world.policies.active().is_some()
    }

    /// We lead, and this is what is known from now on.
    pub(super) fn lead(&self, world: Arc<World>) {
        self.leads.send_replace(Some(world));
    }

    /// Keeps it up to date. Returns if that is not possible any more.
    pub(super) async fn keep(self, client: Client, loader: Loader) {
        let world = self.world();
        let mut tasks = Tasks::default();
        tasks.watch::<TrainingQueue>(&client, None, &world);
        tasks.watch::<SlimNamespace>(&client, None, &world);
        tasks.watch::<PriorityClass>(&client, None, &world);
        tasks.watch::<SlimService>(&client, None, &world);
        tasks.watch::<RuntimeProfile>(&client, None, &world);
        tasks.watch::<QuotaPolicy>(&client, None, &world);
        tasks.watch::<ClusterJobPolicy>(&client, None, &world);
        tasks.watch::<JobPolicy>(&client, None, &world);
        tasks.start("the policies", keep_policies(world, loader));
        let mut leads = self.leads.subscribe();
        tokio::select! {
            ended = tasks.first_end() => return error!(why = ended, "the webhook knows nothing any more"),
            world = complete(&mut leads) => *self.now.write() = world,
        }
        drop(tasks);
        info!("the admission webhook answers from what the leader knows");
        // What ends there ends the process.
        std::future::pending().await
    }
}

/// What the leader knows, once that is all there is.
async fn complete(leads: &mut watch::Receiver<Option<Arc<World>>>) -> Arc<World> {
    let led = leads.wait_for(Option::is_some).await;
    let Some(world) = led.ok().and_then(|world| world.clone()) else {
        return std::future::pending().await;
    };
    world.synced().await;
    world.policies.loaded().await;
    world
}
