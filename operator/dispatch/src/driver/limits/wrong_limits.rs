//! Limits whose account in the engine differs from a recount.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::error;
use trellis_policies::quota::LimitId;

/// How long a limit's account must be wrong before it is reported.
const REPORT_WRONG_AFTER: Duration = Duration::from_secs(10);

/// The wrong limits, and those of the last report.
#[derive(Debug, Default)]
pub(in crate::driver) struct WrongLimits {
    since: BTreeMap<LimitId, Instant>,
    reported: usize,
}

impl WrongLimits {
    /// Records the limits that are wrong now. Returns those that have been wrong for long.
    pub(in crate::driver) fn update(
        &mut self,
        wrong: BTreeSet<LimitId>,
        now: Instant,
    ) -> BTreeSet<LimitId> {
        self.since.retain(|limit, _| wrong.contains(limit));
        let mut reported = BTreeSet::new();
        for limit in wrong {
            let since = *self.since.entry(limit.clone()).or_insert(now);
            if now.saturating_duration_since(since) >= REPORT_WRONG_AFTER {
                error!(%limit, "the account of the limit differs from a recount: report it, and restart the operator");
                reported.insert(limit);
            }
        }
        self.reported = reported.len();
        reported
    }

    /// Returns the number of limits in the last report.
    pub(in crate::driver) const fn reported_count(&self) -> usize {
        self.reported
    }

    /// Returns true if no limit is wrong.
    #[cfg(test)]
    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.since.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use trellis_policies::quota::{LimitHolder, LimitedQuantity};

    use super::*;

    fn limit() -> LimitId {
        LimitId {
            policy: "team-a".to_owned(),
            holder: LimitHolder::Subject,
            quantity: LimitedQuantity::RunningJobs,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_limit_is_reported_after_a_while() {
        let mut limits = WrongLimits::default();
        let wrong = || BTreeSet::from([limit()]);
        let start = Instant::now();
        let later = start.checked_add(REPORT_WRONG_AFTER).unwrap();
        assert!(limits.update(wrong(), start).is_empty());
        assert_eq!(limits.update(wrong(), later), wrong());
        assert_eq!(limits.reported_count(), 1);
        // A correct limit ends the period, so the next one begins anew.
        assert!(limits.update(BTreeSet::new(), later).is_empty());
        assert!(limits.update(wrong(), later).is_empty());
        assert_eq!(limits.reported_count(), 0);
    }
}
