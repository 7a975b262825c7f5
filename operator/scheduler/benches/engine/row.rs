//! Printing of results.

use std::time::Duration;

/// A row with one figure.
pub(crate) struct Row {
    case: String,
    value: f64,
    unit: &'static str,
    peer: Option<&'static str>,
}

impl Row {
    /// Creates a row of a time, in microseconds.
    pub(crate) fn new(case: impl Into<String>, took: Duration) -> Self {
        Self {
            case: case.into(),
            value: took.as_secs_f64() * 1e6,
            unit: "us",
            peer: None,
        }
    }

    /// Creates a row of an amount of memory, in MiB.
    pub(crate) fn bytes(case: impl Into<String>, bytes: f64) -> Self {
        Self {
            case: case.into(),
            value: bytes / 1_048_576.0,
            unit: "MiB",
            peer: None,
        }
    }

    /// Adds the published figure of a peer.
    pub(crate) fn peer(mut self, peer: &'static str) -> Self {
        self.peer = Some(peer);
        self
    }

    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            // The escapes of Debug suffice for all strings here.
            println!(
                "{{\"case\":{:?},\"value\":{},\"unit\":{:?},\"share\":null}}",
                self.case, self.value, self.unit
            );
        } else {
            println!(
                "{:<56} {:>11.2} {:<4} {}",
                self.case,
                self.value,
                self.unit,
                self.peer.unwrap_or_default()
            );
        }
    }
}
