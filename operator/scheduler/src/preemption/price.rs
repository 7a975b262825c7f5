//! What is lost with a victim.

use std::time::Duration;

use crate::time::Time;

/// The longest work that counts as lost, for each device: never to write a
/// checkpoint is no shield.
const MOST: Duration = Duration::from_hours(4);

/// What is at stake with a gang that has its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stake {
    pub(crate) devices: u64,
    /// When it got its place.
    pub(crate) since: Time,
    /// When its work was last safe, as it was told.
    pub(crate) checkpoint: Option<Time>,
}

impl Stake {
    /// Work that is lost: device-seconds since it was last safe. That was at the last
    /// checkpoint, or when the gang got its place; a checkpoint in the future or before
    /// the start counts as now or as the start.
    pub(crate) fn lost_device_seconds(self, now: Time) -> u64 {
        let safe = self
            .checkpoint
            .map_or(self.since, |at| at.min(now).max(self.since));
        let lost = now.since(safe).min(MOST).as_secs();
        lost.saturating_mul(self.devices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds.saturating_mul(1_000))
    }

    #[test]
    fn what_was_done_since_the_last_checkpoint_is_lost_up_to_a_limit() {
        let lost = |since, checkpoint: Option<i64>, now| {
            let stake = Stake {
                devices: 8,
                since: at(since),
                checkpoint: checkpoint.map(at),
            };
            stake.lost_device_seconds(at(now))
        };
        assert_eq!(lost(100, None, 160), 480);
        assert_eq!(lost(100, Some(150), 160), 80);
        assert_eq!(lost(100, Some(170), 160), 0, "a clock that is ahead");
        assert_eq!(lost(100, Some(0), 160), 480, "of an earlier start");
        assert_eq!(lost(160, None, 100), 0);
        assert_eq!(lost(0, None, 10_000_000), 8 * 4 * 3600);
    }
}
