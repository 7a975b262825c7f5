//! Makes placeholder pods visible to autoscalers, and deletes those that no journal names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;
use kube::{Resource as _, ResourceExt as _};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use trellis_api::names;
use trellis_gang::key::Key;

use super::PlaceholderPod;
use crate::SchedulerEvent;
use crate::commands::{Commands, WriteError};
use crate::context::Context;

/// Longest time between two rounds.
const INTERVAL: Duration = Duration::from_secs(10);
/// Pause between two rounds, in which further pods may appear.
const GATHER: Duration = Duration::from_millis(200);
/// Time between two lists of placeholder Jobs.
const LIST_INTERVAL: Duration = Duration::from_secs(60);
/// Most conditions that are written at once.
const MAX_CONCURRENT_WRITES: usize = 8;

/// Keeps the placeholder pods in order as long as this replica leads.
pub async fn maintain_placeholders(context: Arc<Context>, commands: Commands) {
    let Some(namespace) = context.placeholders.namespace().map(str::to_owned) else {
        return std::future::pending().await;
    };
    let mut listed: Option<Instant> = None;
    let mut changes = context.placeholders.changes();
    loop {
        changes.mark_unchanged();
        if context.cache.is_synced() {
            let maintenance = Maintenance {
                context: &context,
                commands: &commands,
                namespace: &namespace,
            };
            maintenance.show_pods().await;
            let mut orders = context.placeholders.orders();
            if listed.is_none_or(|at| at.elapsed() >= LIST_INTERVAL) {
                match maintenance.list_orders().await {
                    Ok(found) => {
                        maintenance.report_lost_orders(&found).await;
                        orders.extend(found.into_keys());
                        listed = Some(Instant::now());
                    }
                    Err(error) => warn!(%error, "placeholder Jobs were not listed"),
                }
            }
            maintenance.delete_orphans(orders).await;
        }
        tokio::time::sleep(GATHER).await;
        tokio::select! {
            _ = changes.changed() => {}
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

struct Maintenance<'a> {
    context: &'a Context,
    commands: &'a Commands,
    namespace: &'a str,
}

impl Maintenance<'_> {
    /// Writes the condition by which autoscalers find unschedulable pods. No scheduler writes it,
    /// because none has the placeholders' scheduler name.
    async fn show_pods(&self) {
        let hidden = self.context.placeholders.hidden_pods();
        if hidden.is_empty() {
            return;
        }
        let orders = self.open_orders();
        let hidden = hidden.into_iter();
        stream::iter(hidden.filter(|(_, pod)| orders.contains_key(&pod.order)))
            .for_each_concurrent(MAX_CONCURRENT_WRITES, async |(name, pod)| {
                self.show_pod(&name, &pod).await;
            })
            .await;
    }

    async fn show_pod(&self, name: &str, pod: &PlaceholderPod) {
        let message = "placeholder of a gang that waits for new nodes";
        let written = self
            .commands
            .set_unschedulable(self.namespace, name, &pod.version, message);
        match written.await {
            // The watch brings the newer version, and the next round writes again.
            Ok(()) | Err(WriteError::NotFound(_) | WriteError::Conflict(_)) => {}
            Err(error) => debug!(pod = name, %error, "the condition was not written"),
        }
    }

    /// Returns the orders of the placeholder Jobs, and if one of their Jobs has failed.
    async fn list_orders(&self) -> Result<BTreeMap<String, bool>, WriteError> {
        let params = ListParams::default().labels(names::PLACEHOLDER_ORDER);
        let jobs: Vec<Job> = self.commands.list(self.namespace, &params).await?;
        let mut orders = BTreeMap::new();
        for job in jobs {
            let order = job.labels().get(names::PLACEHOLDER_ORDER).cloned();
            let failed: &mut bool = orders.entry(order.unwrap_or_default()).or_default();
            *failed |= has_failed(&job);
        }
        Ok(orders)
    }

    /// Lets the scheduler create the placeholders of open orders again whose Jobs are gone or have
    /// failed: a Job fails as a whole if one of its pods is deleted.
    async fn report_lost_orders(&self, found: &BTreeMap<String, bool>) {
        for (order, job) in self.open_orders() {
            match found.get(&order) {
                Some(false) => continue,
                // The next Jobs have the same names.
                Some(true) => self.delete_order(&order).await,
                None => {}
            }
            self.context.placeholders.lost.write().insert(order);
            self.context.send_event(SchedulerEvent::Recheck(job));
        }
    }

    /// Deletes the placeholders of these orders, except those of open orders.
    async fn delete_orphans(&self, orders: BTreeSet<String>) {
        if orders.is_empty() {
            return;
        }
        let open = self.open_orders();
        for order in orders.iter().filter(|order| !open.contains_key(*order)) {
            info!(%order, "placeholders that no journal names are deleted");
            self.delete_order(order).await;
        }
    }

    /// Deletes the placeholder Jobs of an order. Without an answer, the next round deletes them.
    async fn delete_order(&self, order: &str) {
        let selector = format!("{}={order}", names::PLACEHOLDER_ORDER);
        if let Err(error) = self.commands.delete_jobs(self.namespace, &selector).await {
            warn!(%order, %error, "placeholders were not deleted");
        }
    }

    /// Returns the orders that journals name, with their jobs.
    fn open_orders(&self) -> BTreeMap<String, Key> {
        let groups = self.context.cache.pod_groups.all().into_iter();
        groups
            .filter_map(|group| {
                let nodes = group.status.as_ref()?.provisioning.as_ref()?;
                Some((nodes.hash.clone(), Key::from_meta(group.meta())))
            })
            .collect()
    }
}

fn has_failed(job: &Job) -> bool {
    let conditions = job
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Failed" && condition.status == "True")
}
