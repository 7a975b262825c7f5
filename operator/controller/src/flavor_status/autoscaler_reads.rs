//! Reads the settings of the cluster's autoscalers.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use trellis_api::ResourceFlavor;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_gang::autoscaler_check::{
    Autoscalers, ClusterAutoscaler, ClusterAutoscalerFlags, NodePool,
};
use trellis_gang::node_order;
use trellis_gang::node_order::cluster_autoscaler::ProvisioningRequest;

/// Name of the Lease of Cluster Autoscaler. Its holder has the name of the pod.
const LEASE: &str = "cluster-autoscaler";

/// Reads the NodePools, and the flags of the Cluster Autoscaler that leads. Also reads whether the
/// cluster has the kind ProvisioningRequest, if a flavor uses it.
///
/// # Errors
/// See [`WriteError`].
pub(super) async fn read_autoscalers(
    commands: &Commands,
    flavors: &[&Arc<ResourceFlavor>],
) -> Result<Autoscalers, WriteError> {
    let node_pools = match commands.list_all(&ListParams::default()).await {
        // The cluster does not know the kind.
        Err(WriteError::NotFound(_)) => Vec::<NodePool>::new(),
        pools => pools?,
    };
    Ok(Autoscalers {
        node_pools,
        cluster_autoscaler: read_cluster_autoscaler(commands).await?,
        lacks_requests: use_requests(flavors) && lacks_requests(commands).await?,
    })
}

fn use_requests(flavors: &[&Arc<ResourceFlavor>]) -> bool {
    let mut settings = flavors
        .iter()
        .map(|flavor| node_order::request_settings(&flavor.spec));
    settings.any(|settings| settings.is_some())
}

async fn lacks_requests(commands: &Commands) -> Result<bool, WriteError> {
    let params = ListParams::default().limit(1);
    let listed: Result<Vec<PartialObjectMeta<ProvisioningRequest>>, _> =
        commands.list_all(&params).await;
    match listed {
        Err(WriteError::NotFound(_)) => Ok(true),
        listed => listed.map(|_| false),
    }
}

async fn read_cluster_autoscaler(commands: &Commands) -> Result<ClusterAutoscaler, WriteError> {
    let params = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    let leases: Vec<Lease> = commands.list_all(&params).await?;
    for lease in &leases {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|s| s.holder_identity.as_deref());
        // Newer versions append a random word to the name of the pod.
        let pod = holder
            .and_then(|h| h.split('_').next())
            .filter(|h| !h.is_empty());
        let (Some(namespace), Some(pod)) = (lease.namespace(), pod) else {
            continue;
        };
        let pod: Option<Pod> = commands.get(&namespace, pod).await?;
        if let Some(spec) = pod.and_then(|pod| pod.spec) {
            let flags = ClusterAutoscalerFlags::read(&spec);
            return Ok(ClusterAutoscaler::Visible(flags));
        }
    }
    Ok(match leases.is_empty() {
        true => ClusterAutoscaler::Absent,
        false => ClusterAutoscaler::Hidden,
    })
}
