//! Virtual time.

use std::fmt;
use std::time::Duration;

/// Milliseconds since the begin of a run. tokio's timers count milliseconds, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualTime(pub u64);

impl VirtualTime {
    /// Returns the time since an earlier one, or zero.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for VirtualTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

/// Renders minutes, seconds and milliseconds.
impl fmt::Display for VirtualTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1000, self.0 % 1000);
        write!(
            formatter,
            "{:02}:{:02}.{millis:03}",
            seconds / 60,
            seconds % 60
        )
    }
}
