//! Reads the settings of the cluster's autoscalers.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_gang::autoscaler_check::{
    Autoscalers, ClusterAutoscaler, ClusterAutoscalerFlags, NodePool,
};

/// Name of the Lease of Cluster Autoscaler. Its holder has the name of the pod.
const LEASE: &str = "cluster-autoscaler";

/// Reads the NodePools, and the flags of the Cluster Autoscaler that leads.
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
    })
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
