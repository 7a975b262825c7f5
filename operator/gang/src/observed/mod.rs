//! The parts of the cluster's objects that Trellis reads: as little of each as it needs.

mod admission;
mod daemon_set;
mod device_class;
mod disruption;
mod external_pod;
mod external_secret;
mod judged;
mod pod_view;
mod repulsion;
mod slim;
mod storage;
mod unhealthy;

pub use admission::SlimAdmission;
pub use daemon_set::{DaemonPods, SlimDaemonPodSpec, SlimDaemonSet};
pub use device_class::SlimDeviceClass;
pub use disruption::{Disruption, Leave, Pace, Turned, Zone};
pub use external_pod::{BoundBy, ExternalPod, ExternalPods, Flavors};
pub use external_secret::SlimExternalSecret;
pub use judged::JudgedSpec;
pub use pod_view::phase;
pub use pod_view::{Checkpoint, Obstacle, PodPhase, PodView, Stuck};
pub use repulsion::{Repelled, Repulsion, Repulsions};
pub use slim::{
    SlimCondition, SlimConfigMap, SlimContainer, SlimContainerStatus, SlimMeta, SlimNamespace,
    SlimNetworkPolicy, SlimNode, SlimPod, SlimPodSpec, SlimPodStatus, SlimService,
};
pub use storage::{
    BOUND_BY_CONTROLLER, SELECTED_NODE, SlimClaim, SlimClaimRef, SlimClaimSpec, SlimStorageClass,
    SlimVolume, ZONE_LABELS, default_class,
};
pub use unhealthy::Unhealthy;
