//! What a gang draws on.

use serde::{Deserialize, Serialize};

use crate::ids::{FlavorName, LimitName, ResourceName};

/// A limit that a gang draws on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Draw {
    /// Which.
    pub limit: LimitName,
    /// What the limit counts.
    pub of: Drawn,
    /// How much of that all together may hold, in base units. None: it is only counted,
    /// and holds nobody up, be it closed or not.
    pub max: Option<i64>,
    /// A gang for which there is no room is told that it is refused, and not that it waits.
    pub refuses: bool,
}

/// What a limit counts: what gangs hold while they have their place, unless it says
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Drawn {
    /// Gangs: each is 1.
    Gangs,
    /// A resource.
    Resource {
        /// Its name.
        resource: ResourceName,
        /// The flavor in which it is held. None: whichever, together.
        flavor: Option<FlavorName>,
    },
    /// Gangs that wait: each is 1. Who has waited longest is let in first.
    Waiting,
    /// Devices that gangs hold of the kind that their task groups name: what burns
    /// device-time. A gang without any draws nothing.
    Devices,
}
