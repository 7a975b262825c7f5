//! The parts of the cluster's objects that Trellis reads: as little of each as it needs.

mod admission;
mod anti_affinity;
mod daemon_set;
mod device_class;
mod disruption;
mod external_pod;
mod external_secret;
mod grace_period;
mod judged_spec;
mod pod_view;
mod slim;
mod storage;
mod unhealthy;

pub use admission::SlimAdmission;
pub use anti_affinity::{AntiAffinityIndex, AntiAffinityTerm, TargetPod};
pub use daemon_set::{DaemonPodIndex, SlimDaemonPodSpec, SlimDaemonSet};
pub use device_class::SlimDeviceClass;
pub use disruption::{EvictionDecision, EvictionPace, EvictionZone, ZoneChange, ZoneDisruption};
pub use external_pod::{BindingAnnotations, ExternalPod, ExternalPods, FlavorsByResource};
pub use external_secret::SlimExternalSecret;
pub use judged_spec::JudgedSpec;
pub use pod_view::pod_phase;
pub use pod_view::{PodCheckpoint, PodPhase, PodView, StartObstacle, StartObstacleKind};
pub use slim::{
    SlimCondition, SlimConfigMap, SlimContainer, SlimContainerStatus, SlimMeta, SlimNamespace,
    SlimNetworkPolicy, SlimNode, SlimPod, SlimPodSpec, SlimPodStatus, SlimService,
};
pub use storage::{
    BOUND_BY_CONTROLLER, SELECTED_NODE, SlimClaim, SlimClaimRef, SlimClaimSpec, SlimStorageClass,
    SlimVolume, ZONE_LABELS, default_class,
};
pub use unhealthy::UnhealthyRules;
