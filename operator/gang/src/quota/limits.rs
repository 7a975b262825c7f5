//! Converts limits into the engine's form and into the journal's.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::pod_group::PlannedLimit;
use trellis_api::quantity::Amount;
use trellis_api::quota_policy::QuotaEnforcement;
use trellis_policies::quota::{Burnt, Draw as Drawing, Holder, LimitId, What};
use trellis_scheduler::{Draw, Drawn, FlavorName, LimitName, ResourceName};

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
    pub lines: BTreeMap<LimitId, (i128, Amount)>,
    /// Used GPU-hours by part of the window, and the time until which they count, in seconds since
    /// 1970.
    pub burnt: BTreeMap<LimitId, (i64, Vec<Burnt>)>,
    /// Policies whose QuotaLedger cannot be read, with the error: all their GPU-hours count as
    /// used.
    pub unreadable_ledgers: BTreeMap<String, String>,
    /// Limits whose recorded usage differs from a fresh count.
    pub wrong: BTreeSet<LimitId>,
}

impl LimitsReport {
    /// Used GPU-seconds of a limit.
    #[must_use]
    pub fn burnt_seconds(&self, limit: &LimitId) -> i128 {
        let parts = self.burnt.get(limit).into_iter();
        let parts = parts.flat_map(|(_, parts)| parts);
        parts.fold(0, |sum, part| sum.saturating_add(part.gpu_seconds))
    }
}

impl JobLimits {
    /// The limits in the engine's form.
    #[must_use]
    pub fn draws(&self) -> Vec<Draw> {
        self.draws.iter().map(draw).collect()
    }

    /// The limits for pods that join a gang: they do not count as jobs.
    #[must_use]
    pub fn joining(&self) -> Self {
        let mut limits = self.clone();
        let counts_jobs = |of: Drawn| matches!(of, Drawn::Gangs | Drawn::Waiting);
        limits.draws.retain(|drawn| !counts_jobs(draw(drawn).of));
        limits
    }
}

/// The engine's name of a limit.
#[must_use]
pub fn name(limit: &LimitId) -> LimitName {
    LimitName::new(limit.to_string())
}

/// An amount in the engine's base units, rounded down.
#[must_use]
pub fn base_units(what: &What, amount: Amount) -> i64 {
    match what {
        What::Resource { resource, .. } if resource == "cpu" => amount.millis_down(),
        _ => amount.units_down(),
    }
}

fn draw(drawing: &Drawing) -> Draw {
    let limit = &drawing.limit;
    let max = match &limit.what {
        // The engine only knows whether this limit is open or closed.
        What::GpuHours => i64::MAX,
        what => base_units(what, drawing.max),
    };
    let holds = drawing.enforcement != QuotaEnforcement::Warn;
    Draw {
        limit: name(limit),
        of: drawn(&limit.what),
        max: holds.then_some(max),
        // A limit on waiting jobs always refuses: there is nothing that the job could wait for
        // instead.
        refuses: drawing.enforcement == QuotaEnforcement::Deny || limit.what == What::QueuedJobs,
    }
}

fn drawn(what: &What) -> Drawn {
    match what {
        What::RunningJobs => Drawn::Gangs,
        What::QueuedJobs => Drawn::Waiting,
        What::GpuHours => Drawn::Devices,
        What::Resource {
            flavor, resource, ..
        } => Drawn::Resource {
            resource: ResourceName::new(resource.as_str()),
            flavor: flavor.as_deref().map(FlavorName::new),
        },
    }
}

/// The limits that a place is charged to, as the journal records them.
#[must_use]
pub fn planned(limits: &JobLimits) -> Vec<PlannedLimit> {
    let held = limits.draws.iter().map(|drawing| &drawing.limit);
    let held = held.filter(|limit| limit.what != What::QueuedJobs);
    held.map(|limit| {
        let (flavor, queue, what) = match &limit.what {
            What::Resource {
                flavor,
                resource,
                queue,
            } => (flavor.clone(), queue.clone(), resource.clone()),
            what => (None, None, what.to_string()),
        };
        PlannedLimit {
            policy: limit.policy.clone(),
            requester: limit.holder.requester().map(str::to_owned),
            limit: what,
            flavor,
            queue,
        }
    })
    .collect()
}

/// The limit that a journal names, and its usage in the engine: it is counted, but never delays a
/// gang.
#[must_use]
pub fn limit_of(planned: &PlannedLimit) -> (LimitId, Draw) {
    let what = match planned.limit.as_str() {
        "runningJobs" => What::RunningJobs,
        "gpuHours" => What::GpuHours,
        resource => What::Resource {
            flavor: planned.flavor.clone(),
            resource: resource.to_owned(),
            queue: planned.queue.clone(),
        },
    };
    let limit = LimitId {
        policy: planned.policy.clone(),
        holder: Holder::named(planned.requester.as_deref()),
        what,
    };
    let draw = Draw {
        limit: name(&limit),
        of: drawn(&limit.what),
        max: None,
        refuses: false,
    };
    (limit, draw)
}

/// The same limit in the form of the quota policies.
#[must_use]
pub fn counted(planned: &PlannedLimit) -> Drawing {
    Drawing {
        limit: limit_of(planned).0,
        max: Amount::ZERO,
        enforcement: QuotaEnforcement::Warn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(holder: Holder, what: What) -> Drawing {
        Drawing {
            limit: LimitId {
                policy: "p".to_owned(),
                holder,
                what,
            },
            max: Amount::from_millis(1_500),
            enforcement: QuotaEnforcement::Queue,
        }
    }

    fn resource(name: &str, flavor: Option<&str>, queue: Option<&str>) -> What {
        What::Resource {
            flavor: flavor.map(str::to_owned),
            resource: name.to_owned(),
            queue: queue.map(str::to_owned),
        }
    }

    #[test]
    fn what_a_journal_names_is_the_limit_that_was_drawn_on() {
        let limits = JobLimits {
            version: 1,
            requester: None,
            draws: vec![
                limit(Holder::Subject, What::RunningJobs),
                limit(Holder::Unknown, What::GpuHours),
                limit(Holder::Subject, What::QueuedJobs),
                limit(
                    Holder::Requester("alice".to_owned()),
                    resource("cpu", None, None),
                ),
                limit(
                    Holder::Subject,
                    resource("nvidia.com/gpu", Some("a100"), Some("q")),
                ),
            ],
        };
        let drawn = limits.draws();
        let of_journal: Vec<_> = planned(&limits).iter().map(|p| limit_of(p).1).collect();
        let holds = |draw: &&Draw| draw.of != Drawn::Waiting;
        let counted = drawn.iter().filter(holds).map(|draw| Draw {
            max: None,
            ..draw.clone()
        });
        assert_eq!(of_journal, counted.collect::<Vec<_>>());
        let max: Vec<_> = drawn.iter().map(|draw| draw.max).collect();
        assert_eq!(
            max,
            [Some(1), Some(i64::MAX), Some(1), Some(1_500), Some(1)]
        );
        let refuses: Vec<_> = drawn.iter().map(|draw| draw.refuses).collect();
        assert_eq!(refuses, [false, false, true, false, false]);
    }

    #[test]
    fn what_is_only_warned_of_is_counted_and_refused_what_is_denied() {
        let with = |enforcement| {
            let limits = JobLimits {
                version: 1,
                requester: None,
                draws: vec![Drawing {
                    enforcement,
                    ..limit(Holder::Subject, What::RunningJobs)
                }],
            };
            let draw = limits.draws().remove(0);
            (draw.max, draw.refuses)
        };
        assert_eq!(with(QuotaEnforcement::Warn), (None, false));
        assert_eq!(with(QuotaEnforcement::Deny), (Some(1), true));
    }
}
