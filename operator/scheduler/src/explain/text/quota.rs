//! The sentence about quota that other gangs hold.

use std::fmt;

use super::queue::FlavorSuffix;
use super::{AmountWithVerb, CountText, amount_text};
use crate::explain::{OwnQuota, ShareComparison, WaitDetail};
use crate::ids::{QueueName, ResourceName};
use crate::queue::ReclaimPolicy;

impl WaitDetail {
    /// Writes the sentence about quota that other gangs hold.
    pub(super) fn write_quota_exceeded(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::QuotaExceeded {
            queue,
            borrowing_limit,
            flavor,
            resource,
            needs,
            most,
            used,
            own,
            missing,
            holders,
            largest,
            queues,
            borrowers,
            fair_share,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "needs {} {resource}{}, {} of {}{} are held in queue {:?}: {} missing",
            amount_text(resource, *needs),
            FlavorSuffix(flavor),
            amount_text(resource, *used),
            amount_text(resource, *most),
            if *borrowing_limit {
                " (its borrowing limit)"
            } else {
                ""
            },
            queue.as_str(),
            AmountWithVerb(amount_text(resource, *missing)),
        )?;
        write_holders(f, "; held by queue", queues, resource)?;
        if *holders > 0 {
            let start = if queues.is_empty() {
                "; held by"
            } else {
                ", and by"
            };
            write!(f, "{start} {}", CountText(*holders, "gang"))?;
            if !queues.is_empty() {
                f.write_str(" of its own queue")?;
            }
        }
        if !largest.is_empty() {
            f.write_str(" (")?;
            for (i, (gang, held)) in largest.iter().enumerate() {
                let comma = if i == 0 { "" } else { ", " };
                write!(
                    f,
                    "{comma}{:?} {}",
                    gang.as_str(),
                    amount_text(resource, *held)
                )?;
            }
            let all = usize::try_from(*holders).is_ok_and(|n| n <= largest.len());
            f.write_str(if all { ")" } else { ", ...)" })?;
        }
        write_holders(f, "; borrowed by queue", borrowers, resource)?;
        if let Some(own) = own {
            own.write_sentence(f, resource)?;
        }
        match fair_share {
            Some(shares) => shares.write_sentence(f),
            None => Ok(()),
        }
    }
}

impl OwnQuota {
    fn write_sentence(&self, f: &mut fmt::Formatter<'_>, resource: &ResourceName) -> fmt::Result {
        let name = self.queue.as_str();
        write!(
            f,
            "; queue {name:?} holds {} of its {}",
            amount_text(resource, self.usage),
            amount_text(resource, self.nominal),
        )?;
        // Within its nominal quota, the queue lacks only quota that it has lent, and would not
        // borrow.
        if self.would_borrow > 0 {
            write!(
                f,
                ", would borrow {} and may borrow {} now",
                amount_text(resource, self.would_borrow),
                amount_text(resource, self.may_borrow),
            )?;
        }
        match self.reclaim {
            Some(ReclaimPolicy::Never) => f.write_str(
                ", and what it has lent is not taken back: its preemption.reclaimWithinCohort is Never",
            ),
            Some(ReclaimPolicy::LowerPriority) => f.write_str(
                ", and what it has lent is taken back from lower priorities alone: its preemption.reclaimWithinCohort is LowerPriority",
            ),
            Some(ReclaimPolicy::Any) | None => Ok(()),
        }
    }
}

impl ShareComparison {
    fn write_sentence(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "; queue {:?} would have a borrowed share of {}, and queue {:?} has {}",
            self.queue.as_str(),
            self.share,
            self.other.as_str(),
            self.other_share
        )?;
        if self.share < self.other_share {
            f.write_str(", but no gang there may be preempted for it, or makes enough room")?;
        }
        Ok(())
    }
}

/// Writes `; held by queue "a" 12, "b" 4`, if there are any.
fn write_holders(
    f: &mut fmt::Formatter<'_>,
    start: &str,
    queues: &[(QueueName, i128)],
    resource: &ResourceName,
) -> fmt::Result {
    for (i, (queue, held)) in queues.iter().enumerate() {
        let start = if i == 0 { start } else { "," };
        write!(
            f,
            "{start} {:?} {}",
            queue.as_str(),
            amount_text(resource, *held)
        )?;
    }
    Ok(())
}
