//! The sentences about queues that keep a gang from starting.

use std::fmt;

use super::{GroupPrefix, amount_text};
use crate::explain::{FlavorMismatch, WaitDetail};
use crate::ids::{FlavorName, ResourceName};

impl WaitDetail {
    /// Writes the sentences about the queue.
    pub(super) fn write_queue(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueNotFound { queue } => {
                write!(f, "queue {:?} does not exist", queue.as_str())
            }
            Self::QueueStopped { queue } => {
                write!(
                    f,
                    "queue {:?} is stopped: nothing of it is started",
                    queue.as_str()
                )
            }
            Self::BackingOff { until } => {
                f.write_str("the last try to start it failed; the next is not before ")?;
                fmt::Display::fmt(until, f)
            }
            Self::NotOffered {
                queue,
                resource,
                needs,
                offers,
            } => {
                let offers: Vec<&str> = offers.iter().map(ResourceName::as_str).collect();
                write!(
                    f,
                    "needs {} {resource}, which queue {:?} does not offer (it offers {})",
                    amount_text(resource, *needs),
                    queue.as_str(),
                    if offers.is_empty() {
                        "nothing".to_owned()
                    } else {
                        offers.join(", ")
                    },
                )
            }
            Self::QueueMisconfigured { queue, fault } => {
                write!(f, "queue {:?} {fault}", queue.as_str())
            }
            Self::BehindHead { queue, head } => write!(
                f,
                "queue {:?} starts its jobs strictly in order, and {:?} is at its head",
                queue.as_str(),
                head.as_str()
            ),
            Self::FlavorNotFound {
                queue,
                group,
                flavors,
            } => {
                write!(
                    f,
                    "{}queue {:?} has no flavor for it:",
                    GroupPrefix(group),
                    queue.as_str()
                )?;
                for (i, (flavor, why)) in flavors.iter().enumerate() {
                    let comma = if i == 0 { " " } else { ", " };
                    let why = match why {
                        FlavorMismatch::Undefined => "does not exist (create the ResourceFlavor)",
                        FlavorMismatch::Untolerated => {
                            "has taints that taskGroups[].tolerations does not tolerate"
                        }
                        FlavorMismatch::OtherNodes => {
                            "is of other nodes than taskGroups[].nodeSelector"
                        }
                    };
                    write!(f, "{comma}{:?} {why}", flavor.as_str())?;
                }
                Ok(())
            }
            Self::FlavorNotOffered {
                queue,
                group,
                flavors,
                offers,
            } => write!(
                f,
                "{}asks for flavor {}, which queue {:?} does not offer (it offers {})",
                GroupPrefix(group),
                quote_flavors(flavors),
                queue.as_str(),
                quote_flavors(offers)
            ),
            Self::NoSharedFlavor { queue, groups } => {
                let queue = queue.as_str();
                let names_flavors = groups.iter().any(|(_, accepted)| !accepted.is_empty());
                let groups = groups
                    .iter()
                    .map(|(group, accepted)| match accepted.is_empty() {
                        true => format!("{:?}", group.as_str()),
                        false => {
                            format!("{:?} (accepts {})", group.as_str(), quote_flavors(accepted))
                        }
                    });
                let groups = groups.collect::<Vec<_>>().join(" and ");
                write!(
                    f,
                    "task groups {groups} must get the same flavor (taskGroups[].sameFlavorAs), and "
                )?;
                match names_flavors {
                    true => write!(f, "no flavor of queue {queue:?} suits all of them"),
                    false => write!(
                        f,
                        "queue {queue:?} has no quota of flavors: name taskGroups[].flavors in one of them"
                    ),
                }
            }
            Self::ExceedsQuota {
                queue,
                flavor,
                resource,
                needs,
                most,
            } => write!(
                f,
                "needs {} {resource}{}, the whole quota of queue {:?} is {}",
                amount_text(resource, *needs),
                FlavorSuffix(flavor),
                queue.as_str(),
                amount_text(resource, *most),
            ),
            _ => Ok(()),
        }
    }
}

/// Returns `"a100", "h100"`.
fn quote_flavors(flavors: &[FlavorName]) -> String {
    let flavors: Vec<String> = flavors
        .iter()
        .map(|f| format!("{:?}", f.as_str()))
        .collect();
    flavors.join(", ")
}

/// ` of flavor "h100"`, unless it is the default one.
pub(super) struct FlavorSuffix<'a>(pub(super) &'a Option<FlavorName>);

impl fmt::Display for FlavorSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(flavor) => write!(f, " of flavor {:?}", flavor.as_str()),
            None => Ok(()),
        }
    }
}
