//! What we know of the cluster: one task a watch, each with its own back-off,
//! so that a broken watch stalls no other.

mod follow;
mod health;
mod pods;
mod slim;
mod store;
mod tombstones;

pub use follow::{Sink, follow};
pub use health::{GIVEN_UP_AFTER, Health, LOST_AFTER, News, NodeHealth};
pub use pods::{Change, PodIndex, PodPhase, PodView, Pods};
pub use slim::{
    SlimCondition, SlimContainer, SlimContainerStatus, SlimMeta, SlimNamespace, SlimNode, SlimPod,
    SlimService,
};
pub use store::Store;
