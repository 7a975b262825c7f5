//! Watches that have broken. They start again by themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Time after the last error of a watch at which the watch is open again: the longest pause of the
/// watcher is 30 s. An open watch without changes shows nothing.
const REOPEN_TIME: Duration = Duration::from_secs(35);

/// Kinds whose watch has broken, with the time of the last error.
#[derive(Debug, Default)]
pub(super) struct BrokenWatches {
    last_errors: BTreeMap<&'static str, Instant>,
    gaps: u64,
}

impl BrokenWatches {
    pub(super) fn record_error(&mut self, kind: &'static str) {
        let is_broken = self.kinds().contains(&kind);
        self.last_errors.insert(kind, Instant::now());
        if !is_broken {
            self.gaps = self.gaps.saturating_add(1);
        }
    }

    /// Records an event of the watch, so it is open.
    pub(super) fn record_event(&mut self, kind: &'static str) {
        self.last_errors.remove(kind);
    }

    /// Returns the kinds whose watch is broken now.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        let broken = self.last_errors.iter();
        let broken = broken.filter(|(_, last)| last.elapsed() < REOPEN_TIME);
        broken.map(|(kind, _)| *kind).collect()
    }

    /// Returns how often a watch broke.
    pub(super) fn gaps(&self) -> u64 {
        self.gaps
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watch_is_broken_until_its_next_event() {
        let mut watches = BrokenWatches::default();
        watches.record_error("pods");
        watches.record_error("pods");
        watches.record_error("nodes");
        assert_eq!(watches.kinds(), ["nodes", "pods"]);
        assert_eq!(watches.gaps(), 2);
        watches.record_event("pods");
        assert_eq!(watches.kinds(), ["nodes"]);
        watches.record_error("pods");
        assert_eq!(watches.gaps(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn watch_without_another_error_is_open_again() {
        let mut watches = BrokenWatches::default();
        watches.record_error("pods");
        advance(REOPEN_TIME.saturating_sub(Duration::from_secs(1))).await;
        watches.record_error("pods");
        assert_eq!(watches.gaps(), 1);
        advance(REOPEN_TIME).await;
        assert_eq!(watches.kinds(), Vec::<&str>::new());
        watches.record_error("pods");
        assert_eq!(watches.gaps(), 2);
    }
}
