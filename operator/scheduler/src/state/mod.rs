//! The live state: arrays over interned names. This module makes no decisions.

mod catalog;
mod classes;
mod domains;
mod interner;
mod kinds;
mod labels;
mod ledger;
mod name_index;
mod node_traits;
mod nodes;
mod pods;
mod profile;
mod shape;
mod shares;
mod signature;
mod slots;

pub(crate) use catalog::Catalog;
pub(crate) use classes::NodeClass;
pub(crate) use domains::{DomainLevel, Layout, TopologyDomains};
pub(crate) use interner::Interner;
pub(crate) use labels::{LabelSource, LabelTexts, NodeLabels};
pub(crate) use ledger::ResourceColumn;
pub(crate) use node_traits::NodeTraits;
pub(crate) use nodes::{NodeProperties, Nodes, SavedShares};
pub(crate) use pods::{KnownPod, KnownPods};
pub(crate) use profile::{NodeProfile, PodNeeds, WHOLE_DEVICE, fraction};
pub(crate) use shape::{GangShape, GroupShape, PodDemand};
pub(crate) use signature::{ConstraintSignature, PreferenceTier};
pub(crate) use slots::Slots;

macro_rules! indexes {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(u32);

        #[allow(dead_code, reason = "not every index is used in every way")]
        impl $name {
            /// Returns the place in an array.
            pub(crate) const fn at(self) -> usize {
                self.0 as usize
            }

            /// Returns the place in an array, as stored.
            pub(crate) const fn number(self) -> u32 {
                self.0
            }

            /// Returns the index of a place in an array.
            pub(crate) fn of(at: usize) -> Self {
                Self(u32::try_from(at).unwrap_or(u32::MAX))
            }
        }
    )+};
}

indexes! {
    /// A node.
    NodeIdx;
    /// A resource.
    ResourceIdx;
    /// The demand of one pod.
    DemandIdx;
    /// Constraints.
    SignatureIdx;
    /// A gang.
    GangIdx;
    /// A queue. A queue keeps its number while it exists, while it has a charge, or while another
    /// queue names it as its parent.
    QueueIdx;
}
