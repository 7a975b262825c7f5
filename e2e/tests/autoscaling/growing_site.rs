//! A site whose jobs get new nodes from their own NodePool.

use std::fmt::Debug;
use std::ops::Deref;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use trellis_api::{TrainingJob, names};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::karpenter::{NodePoolTemplate, TestNodePool};
use trellis_e2e::operator::PLACEHOLDER_NAMESPACE;
use trellis_e2e::wait::eventually;

use crate::ordering_site::{OrderingOptions, OrderingSite};
use crate::shared_control_plane;

/// Longest time until Karpenter has removed empty nodes.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// A site with a NodePool of its name, whose nodes are those of the site's flavor.
pub struct GrowingSite {
    pub pool: TestNodePool,
    site: OrderingSite,
}

impl GrowingSite {
    /// Creates a site on the shared control plane, with a queue of 1,000 GPUs whose jobs get new
    /// nodes at once. `configure` changes the NodePool.
    pub async fn new(
        prefix: &str,
        options: OrderingOptions,
        configure: impl FnOnce(NodePoolTemplate) -> NodePoolTemplate,
    ) -> Self {
        let control_plane = shared_control_plane().await;
        Self::on(control_plane, prefix, options, configure).await
    }

    /// Like [`Self::new`], on a control plane of the test.
    pub async fn on(
        control_plane: &ControlPlane,
        prefix: &str,
        options: OrderingOptions,
        configure: impl FnOnce(NodePoolTemplate) -> NodePoolTemplate,
    ) -> Self {
        let method = json!({"by": "Placeholders"});
        let site = OrderingSite::new(control_plane, prefix, options, method).await;
        let pool = configure(NodePoolTemplate::new(site.name()));
        Self {
            pool: pool.create(control_plane).await.unwrap(),
            site,
        }
    }

    /// Waits until Karpenter removes or has removed `count` nodes of the site's pool.
    pub async fn wait_for_lost_claims(&self, count: usize) {
        eventually(REMOVAL_TIMEOUT, || async {
            let lost = self.pool.lost_claims();
            ensure!(lost.len() == count, "{lost:?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Returns the names of the placeholders of a job: their Jobs, or the pods.
    pub async fn placeholders<K>(&self, job: &TrainingJob) -> Vec<String>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let uid = job.metadata.uid.as_deref().unwrap();
        let objects: Api<K> = Api::namespaced(self.client(), PLACEHOLDER_NAMESPACE);
        let labels = format!("{}={uid}", names::ORDERING_JOB_UID);
        let found = objects.list(&ListParams::default().labels(&labels)).await;
        found.unwrap().iter().map(ResourceExt::name_any).collect()
    }

    /// Waits until a job has neither placeholder Jobs nor their pods.
    pub async fn wait_until_no_placeholders(&self, job: &TrainingJob) {
        eventually(REMOVAL_TIMEOUT, || async {
            let jobs = self.placeholders::<Job>(job).await;
            let pods = self.placeholders::<Pod>(job).await;
            ensure!(jobs.is_empty() && pods.is_empty(), "{jobs:?}, {pods:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

impl Deref for GrowingSite {
    type Target = OrderingSite;

    fn deref(&self) -> &OrderingSite {
        &self.site
    }
}
