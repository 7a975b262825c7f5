//! Checks whether an autoscaler's settings would remove nodes of running gangs, buy nodes twice, or
//! add no nodes. `node_pool` has the rules for Karpenter, `cluster_autoscaler` has the rules for
//! Cluster Autoscaler, and `new_nodes` records the taints of nodes that have joined.

mod cluster_autoscaler;
mod flavor_taints;
mod new_nodes;
mod node_pool;

use trellis_api::ResourceFlavorSpec;
use trellis_api::resource_flavor::ProvisioningMethod;

pub use cluster_autoscaler::{ClusterAutoscaler, ClusterAutoscalerFlags};
pub use new_nodes::TaintsOfNewNodes;
pub use node_pool::{NODE_POOL_LABEL, NodePool};

/// The autoscalers of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Autoscalers {
    /// Karpenter's NodePools.
    pub node_pools: Vec<NodePool>,
    /// Cluster Autoscaler.
    pub cluster_autoscaler: ClusterAutoscaler,
    /// True if the cluster lacks the kind ProvisioningRequest.
    pub lacks_requests: bool,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AutoscalerVerdict {
    /// No rule is broken.
    Suitable,
    /// One sentence for each broken rule, with its effect and the remedy.
    Unsuitable(Vec<String>),
    /// The settings are not visible, for this reason.
    Unknown(&'static str),
}

/// Checks the autoscaler that adds nodes of a flavor. None: the flavor gets no new nodes.
/// `new_nodes` has the taints that the flavor's nodes had when they joined.
#[must_use]
pub fn check_flavor(
    flavor: &ResourceFlavorSpec,
    autoscalers: &Autoscalers,
    new_nodes: &TaintsOfNewNodes,
) -> Option<AutoscalerVerdict> {
    let provisioning = flavor.provisioning.as_ref()?;
    let pools = autoscalers.node_pools.iter();
    let pools: Vec<_> = pools.filter(|pool| pool.can_add_nodes_of(flavor)).collect();
    if pools.is_empty()
        && let Some(name) = flavor.node_labels.get(NODE_POOL_LABEL)
    {
        let problem = format!("NodePool {name:?} does not exist, or lacks a label of the flavor");
        return Some(AutoscalerVerdict::Unsuitable(vec![problem]));
    }
    if pools.is_empty()
        && autoscalers.lacks_requests
        && provisioning.by == ProvisioningMethod::ProvisioningRequest
    {
        let problem = "the cluster has no kind ProvisioningRequest: install its CRD, and use a \
                       Cluster Autoscaler that reads it";
        return Some(AutoscalerVerdict::Unsuitable(vec![problem.to_owned()]));
    }
    let problems: Vec<_> = match (pools.is_empty(), &autoscalers.cluster_autoscaler) {
        (false, _) => pools
            .iter()
            .flat_map(|pool| pool.find_problems(flavor, provisioning, new_nodes))
            .collect(),
        (true, ClusterAutoscaler::Visible(flags)) => {
            flags.find_problems(flavor, provisioning, new_nodes)
        }
        (true, ClusterAutoscaler::Hidden) => {
            return Some(AutoscalerVerdict::Unknown(
                "Cluster Autoscaler runs outside the cluster, where its flags cannot be read",
            ));
        }
        (true, ClusterAutoscaler::Absent) => {
            return Some(AutoscalerVerdict::Unknown(
                "the cluster has no NodePool for the flavor and no Lease of Cluster Autoscaler",
            ));
        }
    };
    Some(match problems.is_empty() {
        true => AutoscalerVerdict::Suitable,
        false => AutoscalerVerdict::Unsuitable(problems),
    })
}

#[cfg(test)]
mod tests;
