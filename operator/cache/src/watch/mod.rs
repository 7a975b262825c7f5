//! The watches. Each has its own task and back-off, so that a broken watch stalls no other watch.
//! Events go to a [`Sink`], and most objects to a [`Store`].

mod backoff;
mod external_pods;
mod follow;
mod item;
mod node_health;
mod pods;
mod pulse;
mod source;
mod store;
mod tombstones;

pub use external_pods::ExternalPodIndex;
pub use follow::{Sink, follow};
pub use item::Undecodable;
pub use item::decode_object;
pub use node_health::{ABANDONED_AFTER, Health, HealthChanges, LOST_AFTER, NodeHealth};
pub use pods::{ChangeUrgency, JobPods, PodIndex};
pub use pulse::Pulse;
pub use store::Store;
