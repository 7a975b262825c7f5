//! Rules on quota policies.

use super::names::syntax::is_label_value;
use super::rule::Rule;
use crate::quota_policy::{QuotaLimits, ResourceLimit};

/// Value of a label.
pub const LABEL_VALUE: Rule = Rule::new(
    "self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",
    "must be the value of a label: 1 to 63 letters, digits, -, _ and ., starting and ending with a letter or digit",
);
/// Name of a user.
pub const USER_NAME: Rule = Rule::new(
    "size(self) >= 1 && size(self) <= 253",
    "must be the name of a user as the API server knows it, such as alice@example.com: 1 to 253 characters",
);
/// Number of jobs, pods or GPUs.
pub const COUNT: Rule = Rule::new(
    "self >= 0 && self <= 1000000000",
    "must be 0 to 1000000000: leave it out for no limit",
);
/// GPU-hours in a window. With a limit of 0 the first job would still start: nothing is used yet.
pub const GPU_HOURS: Rule = Rule::new(
    "self >= 1 && self <= 1000000000",
    "must be 1 to 1000000000: a job starts as long as fewer are used; for no GPUs at all set gpusPerJob to 0",
);
/// Length of the window of GPU-hours: at most a leap year.
pub const WINDOW_HOURS: Rule = Rule::new(
    "self >= 1 && self <= 8784",
    "must be 1 to 8784 hours: 24 are a day, 720 are 30 days, 8784 a leap year",
);
/// Percentage of a quota.
pub const PERCENT: Rule = Rule::new(
    "self >= 0 && self <= 100",
    "must be 0 to 100 hundredths of the queue's nominal quota",
);
/// A limit on a resource is absolute, or a percentage of the queue's quota.
pub const ONE_BOUND: Rule = Rule::new(
    "has(self.max) != has(self.percentOfQueue)",
    "must have max or percentOfQueue, and not both: write one of them",
)
.for_field(".resource");
/// A policy has at least one limit.
pub const SOME_LIMIT: Rule = Rule::new(
    "(has(self.resources) && size(self.resources) > 0) || has(self.runningJobs) || has(self.queuedJobs) || has(self.podsPerJob) || has(self.gpusPerJob) || has(self.runtimeSecondsPerJob) || has(self.gpuHours)",
    "must have at least one limit: resources, runningJobs, queuedJobs, podsPerJob, gpusPerJob, runtimeSecondsPerJob or gpuHours",
)
.for_field(".resources");

/// [`LABEL_VALUE`].
pub fn label_value(value: &str, _: &()) -> garde::Result {
    LABEL_VALUE.check(!value.is_empty() && is_label_value(value))
}

/// [`USER_NAME`].
pub fn user_name(name: &str, _: &()) -> garde::Result {
    USER_NAME.check(!name.is_empty() && name.chars().count() <= 253)
}

/// [`COUNT`].
pub fn count(count: &i64, _: &()) -> garde::Result {
    COUNT.check((0..=1_000_000_000).contains(count))
}

/// [`GPU_HOURS`].
pub fn gpu_hours(hours: &i64, _: &()) -> garde::Result {
    GPU_HOURS.check((1..=1_000_000_000).contains(hours))
}

/// [`WINDOW_HOURS`].
pub fn window_hours(hours: &i64, _: &()) -> garde::Result {
    WINDOW_HOURS.check((1..=8784).contains(hours))
}

/// [`PERCENT`].
pub fn percent(percent: &i64, _: &()) -> garde::Result {
    PERCENT.check((0..=100).contains(percent))
}

/// [`ONE_BOUND`].
pub fn one_bound(limit: &ResourceLimit) -> impl FnOnce(&str, &()) -> garde::Result {
    let ok = limit.max.is_some() != limit.percent_of_queue.is_some();
    move |_, ()| ONE_BOUND.check(ok)
}

/// [`SOME_LIMIT`].
pub fn some_limit(limits: &QuotaLimits) -> impl FnOnce(&[ResourceLimit], &()) -> garde::Result {
    let counts = [
        limits.running_jobs,
        limits.queued_jobs,
        limits.pods_per_job,
        limits.gpus_per_job,
        limits.runtime_seconds_per_job,
    ];
    let ok = !limits.resources.is_empty()
        || counts.iter().any(Option::is_some)
        || limits.gpu_hours.is_some();
    move |_, ()| SOME_LIMIT.check(ok)
}
