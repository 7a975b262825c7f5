//! The choice between the flavors of a queue.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a job tries the next flavor of its queue. The words are those of Kueue's
/// `flavorFungibility`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlavorPolicy {
    /// The choice of a job that would have to borrow in a flavor. Absent: Borrow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_can_borrow: Option<WhenCanBorrow>,
    /// The choice of a job that would have to preempt in a flavor. Absent: TryNextFlavor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_can_preempt: Option<WhenCanPreempt>,
}

/// The choice of a job whose queue would have to borrow in a flavor. Borrow: it borrows;
/// TryNextFlavor: it borrows only if no flavor has room within the queue's quota. Absent: Borrow.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WhenCanBorrow {
    /// The job borrows.
    #[default]
    Borrow,
    /// The job borrows only if no flavor has room within the queue's quota.
    TryNextFlavor,
}

/// The choice of a job that would have to preempt in a flavor. Preempt: it preempts; TryNextFlavor: it
/// preempts only if no flavor has quota and nodes. Absent: TryNextFlavor.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WhenCanPreempt {
    /// The job preempts.
    Preempt,
    /// The job preempts only if no flavor has quota and nodes.
    #[default]
    TryNextFlavor,
}
