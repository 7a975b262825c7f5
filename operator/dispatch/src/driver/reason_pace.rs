//! Limits how often a waiting job gets another reason. On a busy cluster, each gang that starts or
//! ends can change the reason of all waiting jobs, and each change is a write of a status.

use std::time::Duration;

use tokio::time::Instant;

/// A job gets another reason once in this time, on average.
const REASON_INTERVAL: Duration = Duration::from_secs(10);
/// A job whose reason has not changed for a while gets so many reasons at once.
const BURST: u32 = 2;

/// When a waiting job may get another reason.
#[derive(Debug, Default)]
pub(super) struct ReasonPace {
    /// Each reason costs one interval. The reasons so far are paid for at this time.
    paid_until: Option<Instant>,
}

impl ReasonPace {
    /// Returns how long the controller waits before it writes a reason that is new now. None: it
    /// will write an earlier reason later, and writes the newest one then.
    pub(super) fn delay(&mut self, now: Instant) -> Option<Duration> {
        let paid_until = self
            .paid_until
            .map_or(now, |paid_until| paid_until.max(now));
        let unpaid = paid_until.saturating_duration_since(now);
        let credit = REASON_INTERVAL.saturating_mul(BURST);
        // More is unpaid only while an earlier reason waits for its time.
        if unpaid > credit {
            return None;
        }
        self.paid_until = paid_until.checked_add(REASON_INTERVAL);
        Some(unpaid.saturating_sub(credit.saturating_sub(REASON_INTERVAL)))
    }

    /// Returns true if a message may be written now only for its numbers.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.paid_until.is_none_or(|paid_until| paid_until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn first_reasons_are_written_at_once_and_later_ones_every_ten_seconds() {
        let mut pace = ReasonPace::default();
        let start = Instant::now();
        let mut writes = Vec::new();
        for second in 0..60 {
            let now = start + second * SECOND;
            writes.extend(pace.delay(now).map(|delay| now + delay));
        }
        let seconds: Vec<u64> = writes.iter().map(|at| (*at - start).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 10, 20, 30, 40, 50, 60]);
    }

    #[test]
    fn numbers_are_not_renewed_soon_after_a_reason() {
        let mut pace = ReasonPace::default();
        let start = Instant::now();
        assert!(pace.is_idle(start));
        assert_eq!(pace.delay(start), Some(Duration::ZERO));
        assert!(!pace.is_idle(start + 9 * SECOND));
        assert!(pace.is_idle(start + 10 * SECOND));
    }
}
