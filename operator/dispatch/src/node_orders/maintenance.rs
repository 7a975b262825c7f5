//! Marks placeholder pods as unschedulable, reads the status of ProvisioningRequests, and deletes the
//! objects of orders that no journal names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodTemplate;
use kube::api::ListParams;
use kube::{Resource as _, ResourceExt as _};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use trellis_api::names;
use trellis_api::pod_group::{JournaledOrder, PodGroupPhase};
use trellis_gang::key::Key;
use trellis_gang::node_order::cluster_autoscaler::{ProvisioningRequest, RequestState};
use trellis_gang::node_order::{has_placeholders, request_flavors};

use super::list_requests;
use super::placeholders::PlaceholderPod;
use crate::commands::{Commands, WriteError};
use crate::context::Context;
use crate::{SchedulerEvent, is_owned};

/// Longest time between two rounds.
const INTERVAL: Duration = Duration::from_secs(5);
/// Pause between two rounds, in which further pods may appear.
const GATHER: Duration = Duration::from_millis(200);
/// Time between two lists of ProvisioningRequests.
const REQUEST_INTERVAL: Duration = Duration::from_secs(4);
/// Time between two lists of placeholder Jobs and PodTemplates.
const LIST_INTERVAL: Duration = Duration::from_secs(60);
/// Most conditions that are written at once.
const MAX_CONCURRENT_WRITES: usize = 8;

/// Repairs the objects of open orders and deletes those of ended orders, as long as this replica
/// leads.
pub async fn maintain_node_orders(context: Arc<Context>, commands: Commands) {
    let Some(namespace) = context.node_orders.namespace().map(str::to_owned) else {
        return std::future::pending().await;
    };
    let mut maintenance = Maintenance {
        context: &context,
        commands: &commands,
        namespace: &namespace,
        requests_listed: None,
        objects_listed: None,
    };
    let mut changes = context.node_orders.placeholders.changes();
    loop {
        changes.mark_unchanged();
        if context.cache.is_synced() {
            maintenance.run_round().await;
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
    /// Namespace of placeholders.
    namespace: &'a str,
    requests_listed: Option<Instant>,
    objects_listed: Option<Instant>,
}

/// An order and the namespace of some of its objects.
type FoundOrder = (String, String);

impl Maintenance<'_> {
    async fn run_round(&mut self) {
        self.mark_pods().await;
        let placeholders = self.context.node_orders.placeholders.orders().into_iter();
        let mut found: BTreeSet<FoundOrder> = placeholders
            .map(|order| (order, self.namespace.to_owned()))
            .collect();
        if is_due(self.requests_listed, REQUEST_INTERVAL) {
            match list_requests(self.commands, None, names::NODE_ORDER).await {
                Ok(requests) => {
                    self.follow_requests(&requests).await;
                    let orders = requests
                        .iter()
                        .filter(|request| !self.must_not_delete(request));
                    found.extend(orders.filter_map(found_order));
                    self.requests_listed = Some(Instant::now());
                }
                Err(error) => warn!(%error, "ProvisioningRequests were not listed"),
            }
        }
        if is_due(self.objects_listed, LIST_INTERVAL) {
            match self.list_objects().await {
                Ok(orders) => {
                    found.extend(orders);
                    self.objects_listed = Some(Instant::now());
                }
                Err(error) => warn!(%error, "the objects of orders were not listed"),
            }
        }
        self.delete_orphans(&found).await;
    }

    /// Writes the condition by which autoscalers find unschedulable pods. No scheduler writes it,
    /// because none has the placeholders' scheduler name.
    async fn mark_pods(&self) {
        let unmarked = self.context.node_orders.placeholders.unmarked_pods();
        if unmarked.is_empty() {
            return;
        }
        let orders = self.open_orders();
        let unmarked = unmarked.into_iter();
        stream::iter(unmarked.filter(|(_, pod)| orders.contains_key(&pod.order)))
            .for_each_concurrent(MAX_CONCURRENT_WRITES, async |(name, pod)| {
                self.mark_pod(&name, &pod).await;
            })
            .await;
    }

    async fn mark_pod(&self, name: &str, pod: &PlaceholderPod) {
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

    /// Deletes expired requests. Rechecks each job whose open order lacks a request, or whose request
    /// has failed or got nodes: the gang's task then creates the missing requests.
    async fn follow_requests(&self, requests: &[ProvisioningRequest]) {
        let flavors = self.context.cache.flavor_specs();
        for (order, open) in self.open_orders() {
            let own = requests
                .iter()
                .filter(|request| request.labels().get(names::NODE_ORDER) == Some(&order));
            let own: Vec<_> = own.collect();
            let expired = own
                .iter()
                .filter(|request| request.state() == RequestState::Expired);
            let expired: Vec<_> = expired.collect();
            for request in &expired {
                self.delete_request(request).await;
            }
            let wanted = request_flavors(&open.nodes, &flavors).len();
            if !expired.is_empty() || own.len() < wanted {
                self.report_incomplete_order(order, open.job);
            }
        }
        for job in self.context.node_orders.requests.replace(requests) {
            self.context.send_event(SchedulerEvent::Recheck(job));
        }
    }

    async fn delete_request(&self, request: &ProvisioningRequest) {
        let (namespace, name) = (request.namespace().unwrap_or_default(), request.name_any());
        let uid = request.uid().unwrap_or_default();
        let deleted = self
            .commands
            .delete::<ProvisioningRequest>(&namespace, &name, &uid, None);
        if let Err(error) = deleted.await {
            warn!(%namespace, %name, %error, "an expired ProvisioningRequest was not deleted");
        }
    }

    /// Returns true if the request must not be deleted. An autoscaler may remove nodes that serve only
    /// this request once it is deleted, and its job has pods on them or may start on them.
    fn must_not_delete(&self, request: &ProvisioningRequest) -> bool {
        let (Some(job), Some(order)) = (
            request.labels().get(names::ORDERING_JOB_UID),
            request.labels().get(names::NODE_ORDER),
        ) else {
            return false;
        };
        let has_nodes = request.node_label_value().is_some();
        let groups = self.context.cache.pod_groups.all();
        let mut groups = groups.iter().filter(|group| is_owned(group.as_ref(), job));
        request.has_exclusive_nodes()
            && groups.any(|group| {
                let journal = group.status.as_ref();
                let is_over = journal.and_then(|j| j.phase) == Some(PodGroupPhase::Finished);
                let newer = journal.and_then(|j| j.provisioning.as_ref());
                let is_placed = journal.is_some_and(|j| j.plan.is_some());
                let may_start = has_nodes && !self.is_suspended(&Key::from_meta(group.meta()));
                let may_use = is_placed || may_start;
                !is_over && may_use && newer.is_none_or(|newer| newer.hash == *order)
            })
    }

    fn is_suspended(&self, job: &Key) -> bool {
        let job = self.context.cache.jobs.get(job);
        job.is_none_or(|job| job.spec.suspend == Some(true))
    }

    /// Lists the placeholder Jobs and the PodTemplates. If the Job of an open order is gone or has
    /// failed, the gang's task creates it again. A Job fails as a whole if one of its pods is deleted.
    async fn list_objects(&self) -> Result<Vec<FoundOrder>, WriteError> {
        let labels = ListParams::default().labels(names::NODE_ORDER);
        let jobs: Vec<Job> = self.commands.list(self.namespace, &labels).await?;
        let mut failed: BTreeMap<String, bool> = BTreeMap::new();
        for job in &jobs {
            let order = job.labels().get(names::NODE_ORDER).cloned();
            *failed.entry(order.unwrap_or_default()).or_default() |= has_failed(job);
        }
        let flavors = self.context.cache.flavor_specs();
        for (order, open) in self.open_orders() {
            match failed.get(&order) {
                Some(false) => continue,
                // The next Jobs have the same names.
                Some(true) => self.delete_objects(&order, self.namespace).await,
                None if !has_placeholders(&open.nodes, &flavors) => continue,
                None => {}
            }
            self.report_incomplete_order(order, open.job);
        }
        let templates: Vec<PodTemplate> = self.commands.list_all(&labels).await?;
        let with_requests = self.context.node_orders.requests.orders();
        let templates = templates.iter().filter_map(found_order);
        let templates = templates.filter(|(order, _)| !with_requests.contains(order));
        Ok(jobs
            .iter()
            .filter_map(found_order)
            .chain(templates)
            .collect())
    }

    fn report_incomplete_order(&self, order: String, job: Key) {
        self.context.node_orders.mark_incomplete(order);
        self.context.send_event(SchedulerEvent::Recheck(job));
    }

    /// Deletes the objects of these orders, except those of open orders.
    async fn delete_orphans(&self, found: &BTreeSet<FoundOrder>) {
        if found.is_empty() {
            return;
        }
        let open = self.open_orders();
        for (order, namespace) in found.iter().filter(|(order, _)| !open.contains_key(order)) {
            info!(%order, %namespace, "objects of an order that no journal names are deleted");
            self.delete_objects(order, namespace).await;
        }
    }

    /// Deletes the objects of an order in a namespace. Without an answer, the next round deletes
    /// them.
    async fn delete_objects(&self, order: &str, namespace: &str) {
        let selector = format!("{}={order}", names::NODE_ORDER);
        let deleted = match namespace == self.namespace {
            true => {
                self.commands
                    .delete_labelled::<Job>(namespace, &selector)
                    .await
            }
            false => self.delete_requests(namespace, &selector).await,
        };
        if let Err(error) = deleted {
            warn!(%order, %namespace, %error, "the objects of an order were not deleted");
        }
    }

    async fn delete_requests(&self, namespace: &str, selector: &str) -> Result<(), WriteError> {
        let requests = self
            .commands
            .delete_labelled::<ProvisioningRequest>(namespace, selector);
        match requests.await {
            Ok(()) | Err(WriteError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        self.commands
            .delete_labelled::<PodTemplate>(namespace, selector)
            .await
    }

    /// Returns the orders that journals name.
    fn open_orders(&self) -> BTreeMap<String, OpenOrder> {
        let groups = self.context.cache.pod_groups.all().into_iter();
        groups
            .filter_map(|group| {
                let nodes = group.status.as_ref()?.provisioning.clone()?;
                let job = Key::from_meta(group.meta());
                Some((nodes.hash.clone(), OpenOrder { job, nodes }))
            })
            .collect()
    }
}

/// An order that a journal names.
struct OpenOrder {
    job: Key,
    nodes: JournaledOrder,
}

fn is_due(last: Option<Instant>, interval: Duration) -> bool {
    last.is_none_or(|at| at.elapsed() >= interval)
}

fn found_order<K: kube::Resource>(object: &K) -> Option<FoundOrder> {
    let order = object.labels().get(names::NODE_ORDER)?.clone();
    Some((order, object.namespace()?))
}

fn has_failed(job: &Job) -> bool {
    let conditions = job
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Failed" && condition.status == "True")
}
