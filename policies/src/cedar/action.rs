//! The actions that policies decide about, each with the one kind of resource
//! that it is done to.

use super::entity_kind::EntityKind;

macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $name:ident on $kind:ident,)+) => {
        /// An action that a job requests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Action {
            /// Every action.
            pub const ALL: [Self; 11] = [$(Self::$name,)+];

            /// The action's name in policies.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// Meaning of the action, in one sentence.
            pub(super) const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }

            /// Kind of the resource that the action is about.
            pub(super) const fn kind(self) -> EntityKind {
                match self { $(Self::$name => EntityKind::$kind,)+ }
            }
        }
    };
}

actions! {
    /// To submit a job.
    Submit on TrainingJob,
    /// To wait in a queue, and to hold what it gives.
    UseQueue on Queue,
    /// To have the priority of a class.
    UsePriorityClass on PriorityClass,
    /// To be given nodes of a flavor. A task group that names none asks for all that its queue
    /// offers.
    UseFlavor on ResourceFlavor,
    /// To run an image.
    UseImage on Image,
    /// To run as a ServiceAccount.
    UseServiceAccount on ServiceAccount,
    /// To read a Secret: mounted, in the environment, for pulling images, or from a store outside
    /// the cluster.
    UseSecret on Secret,
    /// To mount a claim, or to read a ConfigMap.
    UseVolume on Volume,
    /// To connect there.
    ConnectTo on Endpoint,
    /// To be reached from there.
    AcceptFrom on Endpoint,
    /// To have a privilege beyond Pod Security "restricted".
    UsePrivilege on Privilege,
}
