//! The limits that a gang draws on.

use serde::{Deserialize, Serialize};

use crate::ids::{FlavorName, LimitName, ResourceName};

/// A limit that a gang draws on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitDraw {
    /// The limit.
    pub limit: LimitName,
    /// The quantity that the limit counts.
    pub of: LimitUnit,
    /// How much all gangs together may hold, in base units. None: usage is only counted, and the
    /// limit blocks no gang, even while it is closed.
    pub max: Option<i64>,
    /// A gang for which there is no room is reported as refused instead of pending.
    pub refuses: bool,
}

/// The quantity that a limit counts: what gangs hold while they are placed, unless the variant says
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum LimitUnit {
    /// Gangs: each is 1.
    Gangs,
    /// A resource.
    Resource {
        /// Its name.
        resource: ResourceName,
        /// The flavor in which it is held. None: all flavors together.
        flavor: Option<FlavorName>,
    },
    /// Pending gangs: each is 1. The gangs that have waited longest are let in first.
    Waiting,
    /// Devices that gangs hold, of the kinds that their task groups name: what uses up device time.
    /// A gang without devices draws nothing.
    Devices,
}
