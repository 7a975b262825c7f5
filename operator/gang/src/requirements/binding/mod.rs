//! Claims whose class binds with the first consumer: the nodes that can run their pods
//! (`reachable_nodes`), and the volumes for them once their pods have nodes (`volume_choice`). The
//! rules are those of kube-scheduler's VolumeBinding, applied to a whole gang. Pure.

mod mounts;
mod reachable_nodes;
mod storage;
mod volume_choice;
mod volume_matching;

pub use mounts::{ClaimMount, ClaimMounts, collect_mounts};
pub use reachable_nodes::{provisioning_terms, unbound_claim_requirement};
pub use storage::Storage;
pub use volume_choice::{
    BindingCandidates, BindingFailure, BindingStep, choose_volumes, no_volume_message,
};
pub use volume_matching::is_reserved_for;
