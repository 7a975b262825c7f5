//! The sentences about nodes and quota that are reserved for another gang.

use std::fmt;

use super::Count;
use crate::explain::Detail;
use crate::time::Time;

impl Detail {
    /// The sentences about reservations.
    pub(super) fn reserved(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved { head, start, nodes } => write!(
                f,
                "there is room, but {:?} waits before it: {}, on {}",
                head.as_str(),
                Start(*start),
                Count(*nodes, "node"),
            ),
            Self::QuotaReserved { queue, head, start } => write!(
                f,
                "there is quota, but {:?} waits before it in queue {:?}: {}",
                head.as_str(),
                queue.as_str(),
                Start(*start),
            ),
            _ => Ok(()),
        }
    }
}

struct Start(Option<Time>);

impl fmt::Display for Start {
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
