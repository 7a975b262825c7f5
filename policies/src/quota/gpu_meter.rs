//! GPU time used in a window that ends now.
//!
//! Usage is constant between two changes of what jobs hold, so the sum is exact, over preemption
//! and restarts of jobs. The window is kept in parts. A part counts until its end has left the
//! window, so that usage counts at most a 48th of the window too long, and never too short.

use std::collections::BTreeMap;

/// Parts of a window.
const WINDOW_PARTS: i64 = 48;

/// GPU time used in one part of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuTimeUsage {
    /// When the part begins, in seconds since 1970.
    pub start: i64,
    /// GPU-seconds.
    pub gpu_seconds: i128,
}

/// GPU time that one holder uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuTimeMeter {
    /// Length of a part, in seconds.
    part: i64,
    /// Length of the window, in seconds.
    window: i64,
    /// GPUs in use.
    gpus: i64,
    /// Time up to which usage is counted, in seconds since 1970.
    counted_until: i64,
    /// GPU-seconds by the start of each part.
    parts: BTreeMap<i64, i128>,
}

impl GpuTimeMeter {
    /// A meter of a window of `window_hours`, without usage before `until`, in seconds since 1970.
    /// A window has at least one hour.
    #[must_use]
    pub fn new(window_hours: i64, until: i64) -> Self {
        let window = window_hours.max(1).saturating_mul(3600);
        Self {
            part: window.div_euclid(WINDOW_PARTS),
            window,
            gpus: 0,
            counted_until: until,
            parts: BTreeMap::new(),
        }
    }

    /// Continues from saved usage. If the window's length has changed, parts of the old length
    /// count from their start.
    #[must_use]
    pub fn resume(
        window_hours: i64,
        until: i64,
        usage: impl IntoIterator<Item = GpuTimeUsage>,
    ) -> Self {
        let mut meter = Self::new(window_hours, until);
        meter.add(usage);
        meter
    }

    /// Adds saved usage.
    pub fn add(&mut self, usage: impl IntoIterator<Item = GpuTimeUsage>) {
        for part in usage {
            let sum = self.parts.entry(part.start).or_default();
            *sum = sum.saturating_add(part.gpu_seconds.max(0));
        }
    }

    /// Sets the number of GPUs in use from now on. Time does not go backwards.
    pub fn set_gpus(&mut self, gpus: i64, now: i64) {
        self.advance(now);
        self.gpus = gpus.max(0);
    }

    /// Counts usage until now, and drops usage that has left the window.
    pub fn advance(&mut self, now: i64) {
        // Parts before that are out of the window: a time of long ago takes no longer than another.
        let first = now.saturating_sub(self.window).saturating_sub(self.part);
        self.counted_until = self.counted_until.max(first);
        while self.counted_until < now {
            let start = self
                .counted_until
                .div_euclid(self.part)
                .saturating_mul(self.part);
            let end = start.saturating_add(self.part).min(now);
            let seconds = i128::from(end.saturating_sub(self.counted_until));
            if self.gpus > 0 {
                let sum = self.parts.entry(start).or_default();
                *sum = sum.saturating_add(seconds.saturating_mul(i128::from(self.gpus)));
                self.counted_until = end;
            } else {
                self.counted_until = now;
            }
        }
        let (oldest, part) = (self.counted_until.saturating_sub(self.window), self.part);
        self.parts
            .retain(|start, _| start.saturating_add(part) > oldest);
    }

    /// GPU-seconds used in the window that ends at the last count.
    #[must_use]
    pub fn used_gpu_seconds(&self) -> i128 {
        self.parts
            .values()
            .fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Time at which less than this many GPU-seconds are in the window without further usage, in
    /// seconds since 1970: now if they already are, None if never.
    #[must_use]
    pub fn time_below(&self, gpu_seconds: i128) -> Option<i64> {
        let mut left = self.used_gpu_seconds();
        if left < gpu_seconds {
            return Some(self.counted_until);
        }
        for (start, part) in &self.parts {
            left = left.saturating_sub(*part);
            if left < gpu_seconds {
                let end = start.saturating_add(self.part);
                return Some(end.saturating_add(self.window));
            }
        }
        None
    }

    /// Until when it is counted, in seconds since 1970.
    #[must_use]
    pub fn counted_until(&self) -> i64 {
        self.counted_until
    }

    /// Earliest time at which this many GPU-seconds are in the window at the current usage, in
    /// seconds since 1970. None: never.
    #[must_use]
    pub fn time_reaching(&self, gpu_seconds: i128) -> Option<i64> {
        let left = gpu_seconds.saturating_sub(self.used_gpu_seconds());
        if left <= 0 {
            return Some(self.counted_until);
        }
        let rate = i128::from(self.gpus);
        let seconds = left.checked_add(rate.checked_sub(1)?)?.checked_div(rate)?;
        self.counted_until.checked_add(i64::try_from(seconds).ok()?)
    }

    /// True if the meter has a window of this many hours.
    #[must_use]
    pub fn has_window(&self, window_hours: i64) -> bool {
        self.window == Self::new(window_hours, 0).window
    }

    /// True if nothing is in the window, and nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gpus == 0 && self.parts.is_empty()
    }

    /// Usage by part, to be saved across a restart.
    pub fn parts(&self) -> impl Iterator<Item = GpuTimeUsage> {
        let parts = self.parts.iter();
        parts.map(|(start, gpu_seconds)| GpuTimeUsage {
            start: *start,
            gpu_seconds: *gpu_seconds,
        })
    }
}
