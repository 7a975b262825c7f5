//! Why the queue lets nothing start.

use std::fmt;

use super::{Count, Is, amount};
use crate::explain::Detail;
use crate::ids::ResourceName;

impl Detail {
    /// The sentences about the queue.
    pub(super) fn queue(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
                write!(
                    f,
                    "the last try to start it failed; the next is not before {until}"
                )
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
                    amount(resource, *needs),
                    queue.as_str(),
                    if offers.is_empty() {
                        "nothing".to_owned()
                    } else {
                        offers.join(", ")
                    },
                )
            }
            Self::ExceedsQuota {
                queue,
                resource,
                needs,
                nominal,
            } => write!(
                f,
                "needs {} {resource}, the whole quota of queue {:?} is {}",
                amount(resource, *needs),
                queue.as_str(),
                amount(resource, i128::from(*nominal)),
            ),
            Self::QuotaExceeded {
                queue,
                resource,
                needs,
                nominal,
                used,
                missing,
                holders,
                largest,
            } => {
                write!(
                    f,
                    "needs {} {resource}, {} of {} are held in queue {:?}: {} missing; held by {} (",
                    amount(resource, *needs),
                    amount(resource, *used),
                    amount(resource, i128::from(*nominal)),
                    queue.as_str(),
                    Is(amount(resource, *missing)),
                    Count(*holders, "gang"),
                )?;
                for (i, (gang, held)) in largest.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{:?} {}", gang.as_str(), amount(resource, *held))?;
                }
                let all = usize::try_from(*holders).is_ok_and(|n| n <= largest.len());
                f.write_str(if all { ")" } else { ", ...)" })
            }
            _ => Ok(()),
        }
    }
}
