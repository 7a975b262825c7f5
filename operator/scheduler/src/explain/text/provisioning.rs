//! The sentences about nodes that are provisioned for a gang.

use std::fmt;

use super::{CountText, verb};
use crate::explain::WaitDetail;

impl WaitDetail {
    /// Writes the sentence about new nodes.
    pub(super) fn write_provisioning(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Provisioning {
            nodes,
            arrived,
            until,
        } = self
        else {
            return Ok(());
        };
        for (number, (flavor, count)) in nodes.iter().enumerate() {
            let start = if number > 0 { " and " } else { "waits for " };
            write!(
                f,
                "{start}{} of flavor {:?}",
                CountText(*count, "new node"),
                flavor.as_str()
            )?;
        }
        write!(
            f,
            ": {arrived} {} ready; the order times out at ",
            verb(*arrived, "is", "are"),
        )?;
        // The alternate form shows seconds of a simulation.
        fmt::Display::fmt(until, f)
    }
}
