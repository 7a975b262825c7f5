//! What we know of the cluster: one task a watch, each with its own back-off,
//! so that a broken watch stalls no other.

mod admission;
mod backoff;
mod daemon_set;
mod device_class;
mod disruption;
mod external_pod;
mod external_pods;
mod external_secret;
mod follow;
mod health;
mod item;
mod judged;
pub(crate) mod pod_view;
mod pods;
mod pulse;
mod repulsion;
mod slim;
mod source;
mod storage;
mod store;
mod tombstones;
mod unhealthy;

pub use admission::SlimAdmission;
pub use daemon_set::{DaemonPods, SlimDaemonPodSpec, SlimDaemonSet};
pub use device_class::SlimDeviceClass;
pub use disruption::{Disruption, Leave, Pace, Turned, Zone};
pub use external_pod::{BoundBy, ExternalPod, ExternalPods, Flavors};
pub use external_pods::ExternalPodIndex;
pub use external_secret::SlimExternalSecret;
pub use follow::{Sink, follow};
pub use health::{GIVEN_UP_AFTER, Health, LOST_AFTER, News, NodeHealth};
pub use item::Undecodable;
pub(crate) use item::object;
pub use judged::JudgedSpec;
pub(crate) use pod_view::phase;
pub use pod_view::{Checkpoint, Obstacle, PodPhase, PodView, Stuck};
pub use pods::{Change, PodIndex, Pods};
pub use pulse::Pulse;
pub use repulsion::{Repelled, Repulsion, Repulsions};
pub use slim::{
    SlimCondition, SlimConfigMap, SlimContainer, SlimContainerStatus, SlimMeta, SlimNamespace,
    SlimNetworkPolicy, SlimNode, SlimPod, SlimPodSpec, SlimPodStatus, SlimService,
};
pub use storage::{
    BOUND_BY_CONTROLLER, SELECTED_NODE, SlimClaim, SlimClaimRef, SlimClaimSpec, SlimStorageClass,
    SlimVolume, ZONE_LABELS, default_class,
};
pub use store::Store;
pub use unhealthy::Unhealthy;
