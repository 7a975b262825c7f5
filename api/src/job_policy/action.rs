//! The actions that policies decide about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Actions that a policy decides about.
        #[derive(
            Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
        )]
        pub enum Action {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Action {
            /// All actions.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the action's name in policies.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }
        }
    };
}

actions! {
    /// Submit a job. The resource is the job itself.
    Submit,
    /// Wait in a TrainingQueue.
    UseQueue,
    /// Use a PriorityClass.
    UsePriorityClass,
    /// Use nodes of a ResourceFlavor.
    UseFlavor,
    /// Run an image.
    UseImage,
    /// Run as a ServiceAccount.
    UseServiceAccount,
    /// Read a Secret.
    UseSecret,
    /// Read a ConfigMap, or mount a claim.
    UseVolume,
    /// Connect to a peer.
    ConnectTo,
    /// Accept connections from a peer.
    AcceptFrom,
    /// Use a privilege beyond Pod Security "restricted".
    UsePrivilege,
}
