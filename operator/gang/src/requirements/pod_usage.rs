//! Usage of a node by a pod, as the engine counts it.

use k8s_openapi::jiff::Timestamp;
use trellis_scheduler::Resources;

use crate::observed::{self, PodPhase, SlimPod};
use crate::requirements::resource_request;

/// Usage of a node by a pod.
#[derive(Clone, Debug)]
pub enum PodUsage {
    /// The pod holds resources of a node.
    Holds {
        /// Name of the node.
        node: String,
        /// Resources that the pod holds.
        request: Resources,
        /// When a pod that is being deleted will be gone.
        leaves: Option<Timestamp>,
    },
    /// The pod has no node or has failed. A placed gang keeps the pod's resources, because the pod
    /// may be replaced.
    None,
    /// The pod has succeeded and holds no resources any more.
    Done,
}

impl PodUsage {
    /// Returns the usage of a pod.
    #[must_use]
    pub fn of(pod: &SlimPod) -> Self {
        // The pod's phase as the lifecycle sees it: a succeeded pod may have a failed container.
        let phase = observed::pod_phase(pod);
        match &pod.spec.node_name {
            _ if phase == PodPhase::Succeeded => Self::Done,
            Some(node) if !phase.is_over() => Self::Holds {
                node: node.clone(),
                request: resource_request::pod_request(pod),
                leaves: pod.metadata.deletion_timestamp.as_ref().map(|by| by.0),
            },
            _ => Self::None,
        }
    }
}
