//! The live state: arrays over interned names. No decisions are made in here.

mod catalog;
mod classes;
mod domains;
mod index;
mod interner;
mod kinds;
mod labels;
mod ledger;
mod nodes;
mod pods;
mod profile;
mod shape;
mod shares;
mod signature;
mod slots;
mod traits;

pub(crate) use catalog::Catalog;
pub(crate) use classes::Class;
pub(crate) use domains::{Domains, Layout, Level};
pub(crate) use interner::Interner;
pub(crate) use labels::{Labelled, Labels};
pub(crate) use ledger::Column;
pub(crate) use nodes::{Facts, Nodes, SavedShares};
pub(crate) use pods::{Pod, Pods};
pub(crate) use profile::{Needs, Profile, WHOLE, fraction};
pub(crate) use shape::{Demand, GroupShape, Shape};
pub(crate) use signature::{Signature, Tier, cordoned};
pub(crate) use slots::Slots;
pub(crate) use traits::Traits;

macro_rules! indexes {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(u32);

        #[allow(dead_code, reason = "not every index is used in every way")]
        impl $name {
            /// The place in an array.
            pub(crate) const fn at(self) -> usize {
                self.0 as usize
            }

            /// The place in an array, as it is kept.
            pub(crate) const fn number(self) -> u32 {
                self.0
            }

            /// The index of a place in an array.
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
}
