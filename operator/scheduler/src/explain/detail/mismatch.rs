//! Flavors that a task group cannot use, and topology levels that do not exist.

/// The reason why a task group cannot use a flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlavorMismatch {
    /// The flavor is not defined.
    Undefined,
    /// The flavor has taints that the group does not tolerate.
    Untolerated,
    /// The group's node selector asks for other nodes.
    OtherNodes,
}

/// A topology level that a gang asks for and that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingLevel {
    /// No topology has the level that is required.
    Required(String),
    /// No topology has the level that is preferred.
    Preferred(String),
    /// The topology of the required level has no such finer level.
    NotFiner {
        /// The level that is required.
        required: String,
        /// The level that is preferred.
        preferred: String,
    },
}
