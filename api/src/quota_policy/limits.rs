//! Limits of a QuotaPolicy.

use garde::Validate;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{Quantity, rules};

/// Independent limits: a job must have room in all of them.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::SOME_LIMIT.to_cel_rule())]
pub struct QuotaLimits {
    /// Amounts of resources that the jobs may hold together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[garde(length(max = 32), dive, custom(rules::some_limit(self)))]
    pub resources: Vec<ResourceLimit>,
    /// Largest number of jobs that may have a place at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::count)))]
    #[x_kube(validation = rules::COUNT.to_cel_rule())]
    pub running_jobs: Option<i64>,
    /// Largest number of jobs that may be pending at the same time. Further jobs are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::count)))]
    #[x_kube(validation = rules::COUNT.to_cel_rule())]
    pub queued_jobs: Option<i64>,
    /// Largest number of pods of one job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::count)))]
    #[x_kube(validation = rules::COUNT.to_cel_rule())]
    pub pods_per_job: Option<i64>,
    /// Largest number of GPUs of one job, over all of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::count)))]
    #[x_kube(validation = rules::COUNT.to_cel_rule())]
    pub gpus_per_job: Option<i64>,
    /// Longest running time of one job in seconds. The job must then set `deadlines.activeSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::deadline)))]
    #[x_kube(validation = rules::DEADLINE.to_cel_rule())]
    pub runtime_seconds_per_job: Option<i64>,
    /// GPU-hours that the jobs may use in a time window. A job's GPUs count from its placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub gpu_hours: Option<GpuHours>,
}

/// Limit on one resource that the jobs hold together: `max` or `percentOfQueue`.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::ONE_BOUND.to_cel_rule())]
pub struct ResourceLimit {
    /// Name of the resource.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::resource_name), custom(rules::one_bound(self)))]
    #[x_kube(validation = rules::RESOURCE_NAME.to_cel_rule())]
    pub resource: String,
    /// Flavor in which the resource is held. Absent: all flavors together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::flavor_name)))]
    #[x_kube(validation = rules::FLAVOR_NAME.to_cel_rule())]
    pub flavor: Option<String>,
    /// Largest amount that the jobs may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::nominal)))]
    #[x_kube(validation = rules::NOMINAL.to_cel_rule())]
    pub max: Option<Quantity>,
    /// Percentage of the resource's nominal quota, rounded down: of `subject.queueName` and all
    /// queues below it, else of the job's own queue. A resource without quota there is not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::percent)))]
    #[x_kube(validation = rules::PERCENT.to_cel_rule())]
    pub percent_of_queue: Option<i64>,
}

/// GPU-hours in a time window.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct GpuHours {
    /// GPU-hours that the jobs may use in the window, 1 to 1000000000. When they are used up, no
    /// job starts until the window has moved on. Running jobs go on.
    #[garde(custom(rules::gpu_hours))]
    #[x_kube(validation = rules::GPU_HOURS.to_cel_rule())]
    pub limit: i64,
    /// Length of the window in hours, 1 to 8784. The window always ends now. 720 hours are 30 days.
    #[garde(custom(rules::window_hours))]
    #[x_kube(validation = rules::WINDOW_HOURS.to_cel_rule())]
    pub window_hours: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation_message(limit: i64, window_hours: i64) -> Option<String> {
        let hours = GpuHours {
            limit,
            window_hours,
        };
        hours.validate().err().map(|report| report.to_string())
    }

    #[test]
    fn gpu_hours_outside_their_bounds_are_refused_with_the_fix() {
        assert_eq!(violation_message(1, 1), None);
        assert_eq!(violation_message(1_000_000_000, 8784), None);
        for limit in [0, -1, 1_000_000_001] {
            let message = violation_message(limit, 720).unwrap();
            assert!(message.contains("must be 1 to 1000000000"), "{message}");
            assert!(message.contains("gpusPerJob"), "{message}");
        }
        for window in [0, -1, 8785, i64::MAX] {
            let message = violation_message(1, window).unwrap();
            assert!(message.contains("must be 1 to 8784 hours"), "{message}");
        }
    }
}
