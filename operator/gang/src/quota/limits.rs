//! Converts limits into the engine's form and into the journal's.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::pod_group::PlannedLimit;
use trellis_api::quantity::Amount;
use trellis_api::quota_policy::QuotaEnforcement;
use trellis_policies::quota::{
    GpuTimeUsage, LimitHolder, LimitId, LimitedQuantity, QuotaDraw as Drawing,
};
use trellis_scheduler::{FlavorName, LimitDraw, LimitName, LimitUnit, ResourceName};

/// The limits that a job counts against, from one version of the QuotaPolicies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobLimits {
    /// Version of the policies.
    pub version: u64,
    /// The limits, in the order of the policies.
    pub draws: Vec<Drawing>,
    /// The requester of the job, if known.
    pub requester: Option<String>,
}

/// Current usage of the limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitsReport {
    /// Usage of each limit that jobs count against, in base units of the engine, and the maximum.
    pub usage: BTreeMap<LimitId, (i128, Amount)>,
    /// Used GPU-hours by part of the window, and the time until which they count, in seconds since
    /// 1970.
    pub used_gpu_hours: BTreeMap<LimitId, (i64, Vec<GpuTimeUsage>)>,
    /// Policies whose QuotaLedger cannot be read, with the error: all their GPU-hours count as
    /// used.
    pub unreadable_ledgers: BTreeMap<String, String>,
    /// Limits whose recorded usage differs from a fresh count.
    pub inconsistent_limits: BTreeSet<LimitId>,
}

impl LimitsReport {
    /// Returns the used GPU-seconds of a limit.
    #[must_use]
    pub fn used_gpu_seconds(&self, limit: &LimitId) -> i128 {
        let parts = self.used_gpu_hours.get(limit).into_iter();
        let parts = parts.flat_map(|(_, parts)| parts);
        parts.fold(0, |sum, part| sum.saturating_add(part.gpu_seconds))
    }
}

impl JobLimits {
    /// Returns the limits in the engine's form.
    #[must_use]
    pub fn to_draws(&self) -> Vec<LimitDraw> {
        self.draws.iter().map(to_draw).collect()
    }

    /// Returns the limits for pods that join a gang: they do not count as jobs.
    #[must_use]
    pub fn for_joining_pods(&self) -> Self {
        let mut limits = self.clone();
        let counts_jobs = |unit: LimitUnit| matches!(unit, LimitUnit::Gangs | LimitUnit::Waiting);
        limits.draws.retain(|drawn| !counts_jobs(to_draw(drawn).of));
        limits
    }
}

/// Returns the engine's name of a limit.
#[must_use]
pub fn limit_name(limit: &LimitId) -> LimitName {
    LimitName::new(limit.to_string())
}

/// Returns an amount in the engine's base units, rounded down.
#[must_use]
pub fn base_units(quantity: &LimitedQuantity, amount: Amount) -> i64 {
    match quantity {
        LimitedQuantity::Resource { resource, .. } if resource == "cpu" => amount.floor_millis(),
        _ => amount.floor_units(),
    }
}

fn to_draw(drawing: &Drawing) -> LimitDraw {
    let limit = &drawing.limit;
    let max = match &limit.quantity {
        // For the engine, a limit of GPU-hours is only open or closed.
        LimitedQuantity::GpuHours => i64::MAX,
        quantity => base_units(quantity, drawing.max),
    };
    let holds = drawing.enforcement != QuotaEnforcement::Warn;
    LimitDraw {
        limit: limit_name(limit),
        of: to_drawn(&limit.quantity),
        max: holds.then_some(max),
        // A job over a limit on waiting jobs cannot wait for the limit, so it is refused.
        refuses: drawing.enforcement == QuotaEnforcement::Deny
            || limit.quantity == LimitedQuantity::QueuedJobs,
    }
}

fn to_drawn(quantity: &LimitedQuantity) -> LimitUnit {
    match quantity {
        LimitedQuantity::RunningJobs => LimitUnit::Gangs,
        LimitedQuantity::QueuedJobs => LimitUnit::Waiting,
        LimitedQuantity::GpuHours => LimitUnit::Devices,
        LimitedQuantity::Resource {
            flavor, resource, ..
        } => LimitUnit::Resource {
            resource: ResourceName::new(resource.as_str()),
            flavor: flavor.as_deref().map(FlavorName::new),
        },
    }
}

/// Returns the limits that a place is charged to, as the journal records them.
#[must_use]
pub fn to_planned_limits(limits: &JobLimits) -> Vec<PlannedLimit> {
    let charged = limits.draws.iter().map(|drawing| &drawing.limit);
    let charged = charged.filter(|limit| limit.quantity != LimitedQuantity::QueuedJobs);
    charged
        .map(|limit| {
            let (flavor, queue, quantity) = match &limit.quantity {
                LimitedQuantity::Resource {
                    flavor,
                    resource,
                    queue,
                } => (flavor.clone(), queue.clone(), resource.clone()),
                quantity => (None, None, quantity.to_string()),
            };
            PlannedLimit {
                policy: limit.policy.clone(),
                requester: limit.holder.requester().map(str::to_owned),
                limit: quantity,
                flavor,
                queue,
            }
        })
        .collect()
}

/// Returns the limit that a journal names, and its usage in the engine: it is counted, but never
/// delays a gang.
#[must_use]
pub fn from_planned_limit(planned: &PlannedLimit) -> (LimitId, LimitDraw) {
    let quantity = match planned.limit.as_str() {
        "runningJobs" => LimitedQuantity::RunningJobs,
        "gpuHours" => LimitedQuantity::GpuHours,
        resource => LimitedQuantity::Resource {
            flavor: planned.flavor.clone(),
            resource: resource.to_owned(),
            queue: planned.queue.clone(),
        },
    };
    let limit = LimitId {
        policy: planned.policy.clone(),
        holder: LimitHolder::from_status(planned.requester.as_deref()),
        quantity,
    };
    let draw = LimitDraw {
        limit: limit_name(&limit),
        of: to_drawn(&limit.quantity),
        max: None,
        refuses: false,
    };
    (limit, draw)
}

/// Returns the limit in the form of the quota policies.
#[must_use]
pub fn to_counted_drawing(planned: &PlannedLimit) -> Drawing {
    Drawing {
        limit: from_planned_limit(planned).0,
        max: Amount::ZERO,
        enforcement: QuotaEnforcement::Warn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(holder: LimitHolder, quantity: LimitedQuantity) -> Drawing {
        Drawing {
            limit: LimitId {
                policy: "p".to_owned(),
                holder,
                quantity,
            },
            max: Amount::from_millis(1_500),
            enforcement: QuotaEnforcement::Queue,
        }
    }

    fn resource(name: &str, flavor: Option<&str>, queue: Option<&str>) -> LimitedQuantity {
        LimitedQuantity::Resource {
            flavor: flavor.map(str::to_owned),
            resource: name.to_owned(),
            queue: queue.map(str::to_owned),
        }
    }

    #[test]
    fn planned_limit_converts_back_to_the_same_draw() {
        let limits = JobLimits {
            version: 1,
            requester: None,
            draws: vec![
                limit(LimitHolder::Subject, LimitedQuantity::RunningJobs),
                limit(LimitHolder::Unknown, LimitedQuantity::GpuHours),
                limit(LimitHolder::Subject, LimitedQuantity::QueuedJobs),
                limit(
                    LimitHolder::Requester("alice".to_owned()),
                    resource("cpu", None, None),
                ),
                limit(
                    LimitHolder::Subject,
                    resource("nvidia.com/gpu", Some("a100"), Some("q")),
                ),
            ],
        };
        let drawn = limits.to_draws();
        let from_journal: Vec<_> = to_planned_limits(&limits)
            .iter()
            .map(|p| from_planned_limit(p).1)
            .collect();
        let holds = |draw: &&LimitDraw| draw.of != LimitUnit::Waiting;
        let counted = drawn.iter().filter(holds).map(|draw| LimitDraw {
            max: None,
            ..draw.clone()
        });
        assert_eq!(from_journal, counted.collect::<Vec<_>>());
        let max: Vec<_> = drawn.iter().map(|draw| draw.max).collect();
        assert_eq!(
            max,
            [Some(1), Some(i64::MAX), Some(1), Some(1_500), Some(1)]
        );
        let refuses: Vec<_> = drawn.iter().map(|draw| draw.refuses).collect();
        assert_eq!(refuses, [false, false, true, false, false]);
    }

    #[test]
    fn warned_limit_only_counts_and_denied_limit_refuses() {
        let draw_with = |enforcement| {
            let limits = JobLimits {
                version: 1,
                requester: None,
                draws: vec![Drawing {
                    enforcement,
                    ..limit(LimitHolder::Subject, LimitedQuantity::RunningJobs)
                }],
            };
            let draw = limits.to_draws().remove(0);
            (draw.max, draw.refuses)
        };
        assert_eq!(draw_with(QuotaEnforcement::Warn), (None, false));
        assert_eq!(draw_with(QuotaEnforcement::Deny), (Some(1), true));
    }
}
