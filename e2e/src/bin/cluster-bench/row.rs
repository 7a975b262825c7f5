//! Printed rows of results.

use std::time::Duration;

use serde_json::json;

/// Returns the median of several runs.
pub(crate) fn median(runs: &[Duration]) -> Duration {
    let mut sorted = runs.to_vec();
    sorted.sort();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// One result.
pub(crate) struct BenchRow {
    case: String,
    value: f64,
    unit: &'static str,
    /// The value as a share of the ceiling measured in this run.
    share: Option<f64>,
}

impl BenchRow {
    pub(crate) fn new(case: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            case: case.into(),
            value,
            unit,
            share: None,
        }
    }

    /// Adds the share of a ceiling.
    pub(crate) fn with_ceiling(mut self, ceiling: f64) -> Self {
        self.share = Some(self.value / ceiling);
        self
    }

    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            println!(
                "{}",
                json!({"case": self.case, "value": self.value, "unit": self.unit, "share": self.share})
            );
        } else {
            let share = self
                .share
                .map_or_else(String::new, |s| format!("{:>6.0} %", s * 100.0));
            println!(
                "{:<58} {:>9.2} {:<8}{share}",
                self.case, self.value, self.unit
            );
        }
    }
}
