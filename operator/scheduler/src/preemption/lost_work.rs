//! The work that a victim loses.

use std::time::Duration;

use crate::time::Time;

/// The longest work that counts as lost, per device. So a gang without checkpoints gets no
/// unlimited protection.
const MAX_LOST_TIME: Duration = Duration::from_hours(4);

/// The work and devices that a placed gang would lose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stake {
    pub(crate) devices: u64,
    /// When the gang was placed.
    pub(crate) since: Time,
    /// When the gang last reported a checkpoint.
    pub(crate) checkpoint: Option<Time>,
}

impl Stake {
    /// Returns the lost work in device-seconds since the last checkpoint, or since the gang was
    /// placed. A checkpoint in the future counts as now. A checkpoint before the placement counts
    /// as the placement.
    pub(crate) fn lost_device_seconds(self, now: Time) -> u64 {
        let safe = self
            .checkpoint
            .map_or(self.since, |at| at.min(now).max(self.since));
        let lost = now.since(safe).min(MAX_LOST_TIME).as_secs();
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
    fn work_since_the_last_checkpoint_is_lost_up_to_a_limit() {
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
