//! Flavors that a task group cannot use, and topology levels that do not exist.

/// The reason why a task group cannot use a flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlavorMismatch {
    /// The flavor is not defined.
    Undefined,
    /// The flavor has taints that the group does not tolerate.
    Untolerated,
    /// The group's node selector requires other nodes.
    OtherNodes,
}

/// A topology level that a gang requests and that does not exist, or not where it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingLevel {
    /// No topology has the required level.
    Required(String),
    /// No topology has the preferred level.
    Preferred(String),
    /// The topology of the required level has no such finer level.
    NotFiner {
        /// The required level.
        required: String,
        /// The preferred level.
        preferred: String,
    },
    /// No topology has this level of slices.
    Slices(String),
    /// No topology has both the requested level of the group and the level of its slices.
    SlicesElsewhere {
        /// The level of the slices.
        level: String,
        /// The requested level.
        outer: String,
    },
    /// The topology of a layer of slices, or of the required level, has no such finer level.
    SlicesNotFiner {
        /// The level of the layer, or the required level.
        coarser: String,
        /// The level of the next layer.
        finer: String,
    },
}
