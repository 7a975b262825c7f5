//! The cluster's state for the webhook. The leader knows all of it. Another replica knows only what
//! an answer needs.

use std::sync::Arc;

use kube::Client;
use parking_lot::RwLock;
use tokio::sync::watch;
use tracing::{error, info};
use trellis_controller::policies::maintain_policies;
use trellis_dispatch::context::Context;
use trellis_dispatch::tasks::Tasks;
use trellis_dispatch::{WATCHED_KINDS, start_watches};
use trellis_policies::cedar::PolicyLoader;

/// The known state of the cluster. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct WebhookCaches {
    current: Arc<RwLock<Arc<Context>>>,
    /// The leader's context, once this process leads.
    leader: watch::Sender<Option<Arc<Context>>>,
}

impl Default for WebhookCaches {
    /// Returns an empty context.
    fn default() -> Self {
        let (context, _) = Context::new();
        Self {
            current: Arc::new(RwLock::new(context)),
            leader: watch::Sender::default(),
        }
    }
}

impl WebhookCaches {
    /// Holds this context forever.
    #[cfg(test)]
    pub(super) fn fixed(context: Arc<Context>) -> Self {
        let caches = Self::default();
        *caches.current.write() = context;
        caches
    }

    /// Returns the current context.
    pub(super) fn context(&self) -> Arc<Context> {
        self.current.read().clone()
    }

    /// Returns true once the caches hold everything that an answer needs.
    pub(super) fn is_complete(&self) -> bool {
        let context = self.context();
        context.cache.is_synced() && context.cache.policies.active().is_some()
    }

    /// Uses the leader's context from now on, because this process leads.
    pub(super) fn use_leader(&self, context: Arc<Context>) {
        self.leader.send_replace(Some(context));
    }

    /// Watches the cluster. Returns if a watch ends.
    pub(super) async fn watch_cluster(self, client: Client, loader: PolicyLoader) {
        let context = self.context();
        let mut tasks = Tasks::default();
        let kinds = WATCHED_KINDS.iter().filter(|kind| kind.is_for_webhook);
        start_watches(kinds, &client, &context, &mut tasks);
        tasks.start("the policies", maintain_policies(context, loader));
        let mut leads = self.leader.subscribe();
        tokio::select! {
            ended = tasks.wait_for_first_end() => return error!(why = ended, "the webhook knows nothing any more"),
            context = await_complete(&mut leads) => *self.current.write() = context,
        }
        drop(tasks);
        info!("the admission webhook answers from what the leader knows");
        // If a watch of the leader ends, the process ends.
        std::future::pending().await
    }
}

/// Waits until the leader's context is complete, and returns it.
async fn await_complete(leads: &mut watch::Receiver<Option<Arc<Context>>>) -> Arc<Context> {
    let led = leads.wait_for(Option::is_some).await;
    let Some(context) = led.ok().and_then(|context| context.clone()) else {
        return std::future::pending().await;
    };
    context.cache.wait_synced().await;
    context.cache.policies.wait_loaded().await;
    context
}
