//! Reads the settings of the cluster's autoscalers.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_gang::autoscaler_check::{
    Autoscalers, ClusterAutoscaler, ClusterAutoscalerFlags, NodePool,
};
use trellis_gang::node_order::cluster_autoscaler::ProvisioningRequest;

/// Name of the Lease of Cluster Autoscaler. Its holder has the name of the pod.
const LEASE: &str = "cluster-autoscaler";

/// Reads the NodePools, the flags of the Cluster Autoscaler that leads, and whether the cluster has the
/// kind ProvisioningRequest.
///
/// # Errors
/// See [`WriteError`].
pub(super) async fn read_autoscalers(commands: &Commands) -> Result<Autoscalers, WriteError> {
    let node_pools = match commands.list_all(&ListParams::default()).await {
        // The cluster does not know the kind.
        Err(WriteError::NotFound(_)) => Vec::<NodePool>::new(),
        pools => pools?,
    };
    Ok(Autoscalers {
        node_pools,
        cluster_autoscaler: read_cluster_autoscaler(commands).await?,
        lacks_requests: lacks_requests(commands).await?,
    })
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
