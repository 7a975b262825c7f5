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
    /// How much all gangs together may hold, in base units. None: the limit only counts usage and
    /// blocks no gang, even while it is closed.
    pub max: Option<i64>,
    /// If true, the engine reports a gang without room in the limit as refused instead of pending.
    pub refuses: bool,
}

/// The quantity that a limit counts. A gang counts while it is placed, unless the variant says
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
        /// The flavor of the resource. None: all flavors together.
        flavor: Option<FlavorName>,
    },
    /// Pending gangs: each is 1. The limit admits the gangs with the earliest submission first.
    Waiting,
    /// Devices that gangs hold, of the kinds that their task groups name. These devices use up
    /// device time. A gang without devices draws nothing.
    Devices,
}
