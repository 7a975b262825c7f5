//! The sentences about nodes and quota that are reserved for another gang.

use std::fmt;

use super::CountText;
use crate::explain::WaitDetail;
use crate::time::Time;

impl WaitDetail {
    /// Writes the sentences about reservations.
    pub(super) fn write_reserved(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved { head, start, nodes } => write!(
                f,
                "there is room, but {:?} waits before it: {}, on {}",
                head.as_str(),
                StartText(*start),
                CountText(*nodes, "node"),
            ),
            Self::QuotaReserved { queue, head, start } => write!(
                f,
                "there is quota, but {:?} waits before it in queue {:?}: {}",
                head.as_str(),
                queue.as_str(),
                StartText(*start),
            ),
            _ => Ok(()),
        }
    }
}

struct StartText(Option<Time>);

impl fmt::Display for StartText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(start) => {
                f.write_str("that is expected to start at ")?;
                start.fmt(f)
            }
            None => f.write_str("when that starts is not known"),
        }
    }
}
