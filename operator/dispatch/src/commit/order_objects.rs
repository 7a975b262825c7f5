//! Creates and withdraws the objects that ask autoscalers for the nodes of a gang.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodTemplate;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::IgnoredAny;
use trellis_api::names;
use trellis_api::pod_group::JournaledOrder;
use trellis_gang::AuthorizedAttempt;
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::key::Key;
use trellis_gang::node_order::cluster_autoscaler::ProvisioningRequest;
use trellis_gang::node_order::{self, OrderObjectBuilder};
use trellis_gang::observed::SlimPod;
use trellis_machine::clock;

use super::Committer;
use crate::commands::WriteError;
use crate::node_orders::{has_ended, list_requests};
use crate::task_outcome::TaskOutcome;

/// How much longer than the order its placeholders exist, if no operator withdraws them.
const DEADLINE_MARGIN: SignedDuration = SignedDuration::from_secs(60);
/// Pause in which further placeholders may disappear.
const GATHER: Duration = Duration::from_millis(100);
/// Longest time until placeholders are read and deleted again.
const WITHDRAWAL_PAUSE: Duration = Duration::from_secs(2);

impl Committer {
    /// Creates the objects of an order that the journal names. Those that exist stay.
    pub async fn create_order_objects(
        &self,
        job: Key,
        run: Arc<AuthorizedAttempt>,
        nodes: JournaledOrder,
        admitted: BTreeMap<String, AdmittedPod>,
    ) -> TaskOutcome {
        let tried = self.try_to_create_order_objects(&job, &run, &nodes, &admitted);
        match tried.await {
            Ok(()) => TaskOutcome::Done,
            Err(outcome) => {
                // The next try creates the objects that do not exist.
                self.context.node_orders.mark_incomplete(nodes.hash);
                outcome
            }
        }
    }

    async fn try_to_create_order_objects(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        nodes: &JournaledOrder,
        admitted: &BTreeMap<String, AdmittedPod>,
    ) -> Result<(), TaskOutcome> {
        let Some(namespace) = self.context.node_orders.namespace() else {
            return Ok(());
        };
        let objects = OrderObjectBuilder {
            run,
            nodes,
            admitted,
            flavors: &self.context.cache.flavor_specs(),
        };
        let left = nodes.until.0.duration_since(clock::now());
        let deadline = left.saturating_add(DEADLINE_MARGIN).as_secs().max(1);
        for placeholders in objects.placeholder_jobs(namespace, deadline) {
            self.create_order_object(namespace, &placeholders).await?;
        }
        let group = self.context.cache.pod_groups.get(job);
        let Some(owner) = group.and_then(|group| group.controller_owner_ref(&())) else {
            return Err(TaskOutcome::Retry(
                "the PodGroup is not there yet".to_owned(),
            ));
        };
        let requests = objects.requests(&owner);
        if !requests.is_empty() {
            let earlier = format!("{},{}!={}", of_job(run), names::NODE_ORDER, nodes.hash);
            self.withdraw_requests(job, &earlier).await?;
        }
        for wanted in requests {
            for template in &wanted.templates {
                self.create_order_object(&job.namespace, template).await?;
            }
            self.create_order_object(&job.namespace, &wanted.request)
                .await?;
        }
        Ok(())
    }

    /// Creates an object that asks for nodes, unless it exists.
    async fn create_order_object<K>(&self, namespace: &str, object: &K) -> Result<(), TaskOutcome>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize,
    {
        let created: Result<IgnoredAny, _> = self
            .commands
            .create(namespace, names::SCHEDULER_MANAGER, object, false)
            .await;
        match created {
            Ok(IgnoredAny) | Err(WriteError::AlreadyExists(_)) => Ok(()),
            Err(WriteError::NotFound(error)) if K::kind(&()) == ProvisioningRequest::kind(&()) => {
                let message = format!(
                    "the cluster has no kind ProvisioningRequest ({error}): install its CRD, or use a flavor with provisioning.by: Placeholders"
                );
                Err(TaskOutcome::Retry(message))
            }
            Err(error) => {
                let message = format!(
                    "the {} of the node order was not created: {error}",
                    K::kind(&())
                );
                Err(TaskOutcome::Retry(message))
            }
        }
    }

    /// Withdraws what asks autoscalers for the nodes of a gang. Otherwise they would buy these nodes
    /// a second time once the gang's pods have nodes.
    pub(super) async fn withdraw_order(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        until: Timestamp,
    ) -> Result<(), TaskOutcome> {
        self.withdraw_requests(job, &of_job(run)).await?;
        self.withdraw_placeholders(run, until).await
    }

    /// Deletes the ProvisioningRequests of a job with these labels, except those whose nodes came
    /// for the job alone.
    async fn withdraw_requests(&self, job: &Key, labels: &str) -> Result<(), TaskOutcome> {
        // Without this namespace, the operator has no right to read requests.
        if self.context.node_orders.namespace().is_none() {
            return Ok(());
        }
        let flavors = self.context.cache.flavors.all();
        let mut specs = flavors.iter().map(|flavor| &flavor.spec);
        // Requests of a deleted flavor may still exist, also those of an earlier leader.
        if !specs.any(|spec| node_order::request_settings(spec).is_some())
            && self.context.node_orders.requests.is_empty()
        {
            return Ok(());
        }
        let requests = list_requests(&self.commands, Some(&job.namespace), labels).await?;
        let is_kept = |request: &ProvisioningRequest| request.node_label_value().is_some();
        let (kept, withdrawn): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_kept);
        for request in &withdrawn {
            let (name, uid) = (request.name_any(), request.uid().unwrap_or_default());
            self.commands
                .delete::<ProvisioningRequest>(&job.namespace, &name, &uid, None)
                .await?;
        }
        if kept.is_empty() && !withdrawn.is_empty() {
            self.commands
                .delete_labelled::<PodTemplate>(&job.namespace, labels)
                .await?;
        }
        Ok(())
    }

    /// Deletes the placeholders of a gang, and waits until they are gone: Karpenter buys nodes for
    /// terminating pods, too. The watch does not show a Job that has no pods yet, and may not have
    /// shown its pods, so the API server is asked.
    async fn withdraw_placeholders(
        &self,
        run: &AuthorizedAttempt,
        until: Timestamp,
    ) -> Result<(), TaskOutcome> {
        let Some(namespace) = self.context.node_orders.namespace() else {
            return Ok(());
        };
        let selector = of_job(run);
        let mut changes = self.context.node_orders.placeholders.changes();
        while self.delete_placeholders(namespace, &selector).await? {
            if clock::now() >= until {
                let message = "its placeholder pods still exist, so autoscalers would buy its nodes a second time";
                return Err(TaskOutcome::Retry(message.to_owned()));
            }
            tokio::time::sleep(GATHER).await;
            let _ = tokio::time::timeout(WITHDRAWAL_PAUSE, changes.changed()).await;
        }
        Ok(())
    }

    /// Deletes the placeholder Jobs with these labels. Returns true if an autoscaler may still buy a
    /// node for one of their pods.
    async fn delete_placeholders(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<bool, WriteError> {
        let labels = ListParams::default().labels(selector);
        let jobs: Vec<PartialObjectMeta<Job>> = self.commands.list(namespace, &labels).await?;
        if !jobs.is_empty() {
            self.commands
                .delete_labelled::<Job>(namespace, selector)
                .await?;
        }
        // A Job that is gone gets no further pods.
        let pods: Vec<SlimPod> = self.commands.list(namespace, &labels).await?;
        Ok(pods.iter().any(|pod| !has_ended(pod)))
    }
}

/// Returns the selector of the objects of all orders of a job.
fn of_job(run: &AuthorizedAttempt) -> String {
    format!("{}={}", names::ORDERING_JOB_UID, run.uid)
}

#[cfg(test)]
mod tests;
