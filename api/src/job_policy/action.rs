//! The actions that policies decide about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::words::words;

macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Actions that a policy decides about.
        #[derive(
            Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
        )]
        pub enum Action {
            $($(#[doc = $doc])+ $name,)+
        }

        words!(Action: $($name),+);
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
    /// Get new nodes of a ResourceFlavor. Without it, the job waits for existing nodes.
    ProvisionNodes,
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
