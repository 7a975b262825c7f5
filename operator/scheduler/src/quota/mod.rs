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
//! with memory: see [`decay`] for the arithmetic and [`turn_order`] for the order.
//!
//! Where to look: `tree` keeps the queues, `links` decides which of them count and to which parent,
//! `cell` has the algebra and `charge` changes usage. `availability`, `shortage`, `borrowers`,
//! `quota_holders`, `reclaim`, `claim` and `quota_usage` read usage. `memory` and `share` are the
//! basis of `turn_order`. `remembered_usage` saves and restores `memory`.

mod amounts;
mod availability;
mod borrowers;
mod cell;
mod charge;
mod claim;
mod decay;
mod links;
mod memory;
mod queue_config;
mod queue_fault;
mod quota_holders;
mod quota_usage;
mod reclaim;
mod remembered_usage;
mod share;
mod shortage;
#[cfg(test)]
mod tests;
mod tree;
mod turn_order;

pub use self::decay::UsageDecay;
pub use self::memory::DecayedAmount;
pub use self::queue_config::{Quota, Weight};
pub(crate) use self::{
    amounts::{Demand, FlavorIdx, FlavorResource},
    claim::{ClaimKind, QuotaClaim},
    queue_config::QueueConfig,
    queue_fault::QueueFault,
    remembered_usage::{RememberedUsage, UsageLag},
    shortage::QuotaShortage,
    tree::QuotaTree,
    turn_order::{NextGang, TurnOrder},
};
