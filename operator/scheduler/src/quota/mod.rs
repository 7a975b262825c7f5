//! The tree of queues: who may hold how much, who lends and borrows, whose turn
//! it is.
//!
//! # Quota
//!
//! The names and the algebra are Kueue's (`pkg/cache/scheduler/resource_node.go`);
//! a queue with children is what Kueue calls a cohort. For each queue, flavor and
//! resource:
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
//! Without a borrowing limit the second term is `available(parent)` alone. For a
//! queue within its local quota it is at least 0, so that another's debt never
//! eats a guarantee: here we differ from Kueue. A root neither lends nor borrows,
//! so its two limits mean nothing.
//!
//! A queue that names no quotas at all has none of its own: in a tree where no
//! queue names any it has no limit, else it holds what the others leave idle. A
//! queue that names some offers what it names and nothing else; `pods` alone need
//! not be named, and is then not counted.
//!
//! # Turns
//!
//! Dominant-resource fairness (Ghodsi et al., NSDI '11) at each level of the tree,
//! with memory: see [`decay`] for the arithmetic and [`order`] for the order.
//!
//! Where to look: `tree` keeps the queues, `links` says which of them count and to
//! whom, `cell` is the algebra, `charge` moves it, `room`, `lack`,
//! `borrowers`, `holding`, `reclaim`, `claim` and `standing` ask it; `memory` and `share` are what `order` goes by.

mod amounts;
mod borrowers;
mod cell;
mod charge;
mod claim;
mod decay;
mod holding;
mod lack;
mod links;
mod member;
mod memory;
mod misconfigured;
mod order;
mod reclaim;
mod room;
mod share;
mod standing;
#[cfg(test)]
mod tests;
mod tree;

pub use self::decay::Decay;
pub use self::member::{Quota, Weight};
pub use self::memory::Decayed;
pub(crate) use self::{
    amounts::{Demand, FlavorIdx, FlavorResource},
    claim::{Claim, Claimed},
    lack::Lack,
    member::Member,
    memory::{Lag, Remembered},
    misconfigured::Misconfigured,
    order::{Next, Order},
    tree::{QueueIdx, Tree},
};
