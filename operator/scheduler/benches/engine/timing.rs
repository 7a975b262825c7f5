//! Measures times and memory.

use std::time::{Duration, Instant};

/// Statistics of many runs.
pub(crate) struct RunStatistics {
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
}

/// Returns the duration of a run, and its result.
pub(crate) fn time_run<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = std::hint::black_box(run());
    (start.elapsed(), result)
}

/// Times many runs, each of which returns its duration.
pub(crate) fn time_runs(count: usize, mut run: impl FnMut(usize) -> Duration) -> RunStatistics {
    let mut took: Vec<Duration> = (0..count).map(&mut run).collect();
    took.sort_unstable();
    let at = |percent: usize| {
        let index = took.len().saturating_sub(1) * percent / 100;
        took.get(index).copied().unwrap_or_default()
    };
    RunStatistics {
        median: at(50),
        p99: at(99),
    }
}

/// Returns the memory that the process holds, or 0 if the system does not report it.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
