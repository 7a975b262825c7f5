//! The events of a run, as a hash and on request as lines.

use crate::random::hash;
use crate::time::VirtualTime;

/// Records events. Two runs of one script have the same hash.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    /// The lines, if they are kept.
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(keeps_lines: bool) -> Self {
        Self {
            lines: keeps_lines.then(Vec::new),
            ..Self::default()
        }
    }

    /// Records an event, and details that count for the hash alone.
    pub(crate) fn record(&mut self, now: VirtualTime, event: &str, details: &[u8]) {
        self.events += 1;
        self.hash = hash(self.hash ^ now.0, event.as_bytes());
        self.hash = hash(self.hash, details);
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{now} {event} [{:08x}]", self.hash >> 32));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
