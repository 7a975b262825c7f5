//! The sentences about nodes and quota that are reserved for another gang.

use std::fmt;

use super::CountText;
use crate::explain::WaitDetail;
use crate::time::Time;

impl WaitDetail {
    /// Writes the sentences about reservations.
    pub(super) fn write_reserved(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved { head, start, nodes } => {
                write!(
                    f,
                    "there is room, but {:?} waits before it: ",
                    head.as_str()
                )?;
                write_start(f, *start)?;
                write!(f, ", on {}", CountText(*nodes, "node"))
            }
            Self::QuotaReserved { queue, head, start } => {
                let (head, queue) = (head.as_str(), queue.as_str());
                write!(
                    f,
                    "there is quota, but {head:?} waits before it in queue {queue:?}: "
                )?;
                write_start(f, *start)
            }
            _ => Ok(()),
        }
    }
}

/// Writes when another gang starts. The alternate form shows seconds of a simulation.
fn write_start(f: &mut fmt::Formatter<'_>, start: Option<Time>) -> fmt::Result {
    match start {
        Some(start) => {
            f.write_str("that is expected to start at ")?;
            fmt::Display::fmt(&start, f)
        }
        None => f.write_str("when that starts is not known"),
    }
}
