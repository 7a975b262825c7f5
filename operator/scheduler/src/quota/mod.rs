//! The tree of queues: quota, lending and borrowing, and whose turn it is.
//!
//! # Quota
//!
//! The names and the algebra are Kueue's (`pkg/cache/scheduler/resource_node.go`). Kueue calls a
//! queue with children a cohort. For each queue, flavor and resource:
//!
//! ```text
//! subtree = nominal + for each child: child subtree - child local
//! local   = max(0, subtree - lending limit); 0 without a lending limit
//! usage   = what is charged to it + for each child: max(0, child usage - child local)
//!
//! available(root)  = subtree - usage
//! available(queue) = max(0, local - usage)
//!                  + min(available(parent),
//!                        subtree - local - max(0, usage - local) + borrowing limit)
//! ```
//!
//! Without a borrowing limit the second term is `available(parent)` alone. For a queue within its
//! local quota the second term is at least 0, so that the debt of another queue never reduces a
//! guarantee. Kueue does not have this rule. A root neither lends nor borrows, so its two limits
//! have no effect.
//!
//! A queue without quotas owns no quota. It has no limit if no queue of its tree has quotas.
//! Otherwise it may hold the quota that other queues leave idle. A queue with quotas offers only
//! the resources that it names, and `pods`. If it does not name `pods`, pods do not count.
//!
//! # Turns
//!
//! Dominant-resource fairness (Ghodsi et al., NSDI '11) at each level of the tree,
//! with memory: see [`fair_share::decay`] for the arithmetic and [`fair_share::turn_order`] for the
//! order.
//!
//! Where to look: `tree` keeps the queues, `tree::links` decides which of them count and to which
//! parent, `tree::cell` has the algebra and `charge` changes usage. `availability`, `shortage`,
//! `borrowers`, `quota_holders`, `reclaim`, `claim` and `quota_usage` read usage. `fair_share`
//! orders the queues: its `memory` and `share` are the basis of its `turn_order`.

mod amounts;
mod availability;
mod borrowers;
mod charge;
mod claim;
mod fair_share;
mod quota_holders;
mod quota_usage;
mod reclaim;
mod shortage;
#[cfg(test)]
mod tests;
mod tree;

pub use self::fair_share::decay::UsageDecay;
pub use self::fair_share::memory::DecayedAmount;
pub use self::fair_share::share::FairShare;
pub use self::tree::queue_config::{Quota, Weight};
pub(crate) use self::{
    amounts::{Demand, FlavorIdx, FlavorResource},
    claim::{ClaimKind, ClaimTerms, QuotaClaim},
    fair_share::remembered_usage::{RememberedUsage, UsageLag},
    fair_share::turn_order::{NextGang, TurnOrder},
    shortage::QuotaShortage,
    tree::QuotaTree,
    tree::queue_config::QueueConfig,
    tree::queue_fault::QueueFault,
};
