//! Checks before the placement of a job whether its limits have room for it.

use trellis_api::quota_policy::QuotaEnforcement;
use trellis_policies::quota::{LimitedQuantity, QuotaDraw};

use super::gpu_hours::{HOUR_SECONDS, UNREADABLE_LEDGER, all_hours_used};
use super::{JobDemand, LimitsReport, base_units};
use crate::engine;

/// Returns why a job with this demand and these limits is refused: its first denying limit without
/// room. None if all limits have room, or if that depends on the placement.
///
/// Before the placement, the job's flavor and whether the job will wait are not known. The
/// scheduler checks limits of one flavor and limits on waiting jobs.
#[must_use]
pub fn find_exceeded_limit(
    draws: &[QuotaDraw],
    demand: &JobDemand,
    report: &LimitsReport,
) -> Option<String> {
    let deny = draws
        .iter()
        .filter(|draw| draw.enforcement == QuotaEnforcement::Deny);
    let mut messages = deny.filter_map(|draw| {
        let limit = &draw.limit;
        if limit.quantity == LimitedQuantity::GpuHours {
            let message = exhausted_hours_message(draw, demand, report)?;
            return Some(format!(
                "{limit}: {message}, and nothing starts before that changes"
            ));
        }
        let needs = i128::from(demand_for_limit(&limit.quantity, demand)?);
        let used = report.usage.get(limit).map_or(0, |(used, _)| *used);
        let most = i128::from(base_units(&limit.quantity, draw.max));
        let missing = used.saturating_add(needs).saturating_sub(most);
        let shown = |amount: i128| match &limit.quantity {
            LimitedQuantity::Resource { resource, .. } => {
                engine::to_quantity(resource, amount).as_str().to_owned()
            }
            _ => amount.to_string(),
        };
        let (needs, used, most) = (shown(needs), shown(used), shown(most));
        (missing > 0).then(|| {
            let verb = if missing == 1 { "is" } else { "are" };
            format!(
                "{limit}: needs {needs}, {used} of {most} are held: {} {verb} missing",
                shown(missing)
            )
        })
    });
    let message = messages.next()?;
    Some(format!("{message}: apply it again once there is room"))
}

/// Returns the amount that the job adds to a limit, in the engine's base units. None if it depends
/// on the placement.
fn demand_for_limit(quantity: &LimitedQuantity, demand: &JobDemand) -> Option<i64> {
    match quantity {
        LimitedQuantity::RunningJobs => Some(1),
        LimitedQuantity::Resource {
            flavor: None,
            resource,
            ..
        } => {
            // A sum that overflows was refused before.
            let demand = (*demand.total.get(resource)?)?;
            Some(base_units(quantity, demand)).filter(|needs| *needs > 0)
        }
        LimitedQuantity::Resource { .. }
        | LimitedQuantity::QueuedJobs
        | LimitedQuantity::GpuHours => None,
    }
}

/// Returns why a job may not use more hours of a limit of GPU hours. None if it may, or needs no
/// GPUs.
fn exhausted_hours_message(
    draw: &QuotaDraw,
    demand: &JobDemand,
    report: &LimitsReport,
) -> Option<String> {
    if demand.gpus == 0 {
        return None;
    }
    let unreadable = &report.unreadable_ledgers;
    if unreadable.contains_key(&draw.limit.policy) {
        return Some(UNREADABLE_LEDGER.to_owned());
    }
    let hours = draw.max.floor_units();
    let most = i128::from(hours).saturating_mul(HOUR_SECONDS);
    (report.used_gpu_seconds(&draw.limit) >= most).then(|| all_hours_used(hours))
}

#[cfg(test)]
mod tests {
    use trellis_api::quantity::Amount;
    use trellis_policies::quota::{GpuTimeUsage, LimitHolder, LimitId};

    use super::*;

    fn draw(quantity: LimitedQuantity, max: i64, enforcement: QuotaEnforcement) -> QuotaDraw {
        QuotaDraw {
            limit: LimitId {
                policy: "p".to_owned(),
                holder: LimitHolder::Subject,
                quantity,
            },
            max: Amount::from_units(max),
            enforcement,
        }
    }

    fn resource(name: &str, flavor: Option<&str>) -> LimitedQuantity {
        LimitedQuantity::Resource {
            flavor: flavor.map(str::to_owned),
            resource: name.to_owned(),
            queue: None,
        }
    }

    fn job_demand() -> JobDemand {
        let total = [("cpu", 4), ("nvidia.com/gpu", 8)];
        let total = total.map(|(name, units)| (name.to_owned(), Some(Amount::from_units(units))));
        JobDemand {
            total: total.into(),
            pods: 1,
            gpus: 8,
        }
    }

    /// Returns the result if this amount of the limit is used, in base units.
    fn find_exceeded_with_usage(
        quantity: &LimitedQuantity,
        used: i128,
        enforcement: QuotaEnforcement,
    ) -> Option<String> {
        let draw = draw(quantity.clone(), 16, enforcement);
        let mut report = LimitsReport::default();
        report.usage.insert(draw.limit.clone(), (used, draw.max));
        find_exceeded_limit(&[draw], &job_demand(), &report)
    }

    #[test]
    fn job_is_refused_when_a_denying_limit_has_no_room() {
        use QuotaEnforcement::{Deny, Queue, Warn};
        let gpus = resource("nvidia.com/gpu", None);
        assert_eq!(find_exceeded_with_usage(&gpus, 8, Deny), None);
        let expected = "quota policy \"p\", nvidia.com/gpu: needs 8, 9 of 16 are held: 1 is missing: \
                        apply it again once there is room";
        assert_eq!(
            find_exceeded_with_usage(&gpus, 9, Deny).as_deref(),
            Some(expected)
        );
        let cpu = find_exceeded_with_usage(&resource("cpu", None), 13_500, Deny).unwrap();
        assert!(
            cpu.contains("needs 4, 13.5 of 16 are held: 1.5 are missing"),
            "{cpu}"
        );
        let jobs = find_exceeded_with_usage(&LimitedQuantity::RunningJobs, 17, Deny).unwrap();
        assert!(
            jobs.contains("needs 1, 17 of 16 are held: 2 are missing"),
            "{jobs}"
        );
        assert_eq!(
            find_exceeded_with_usage(&LimitedQuantity::RunningJobs, 15, Deny),
            None
        );
        for enforcement in [Queue, Warn] {
            assert_eq!(find_exceeded_with_usage(&gpus, 99, enforcement), None);
        }
        // Limits that depend on the placement, and a resource that the job does not request.
        for quantity in [
            resource("nvidia.com/gpu", Some("a100")),
            LimitedQuantity::QueuedJobs,
            resource("rdma/hca", None),
        ] {
            assert_eq!(find_exceeded_with_usage(&quantity, 99, Deny), None);
        }
        let no_usage = LimitsReport::default();
        assert_eq!(
            find_exceeded_limit(&[draw(gpus, 16, Deny)], &job_demand(), &no_usage),
            None
        );
    }

    #[test]
    fn job_with_gpus_is_refused_when_gpu_hours_are_used() {
        let draw = draw(LimitedQuantity::GpuHours, 2, QuotaEnforcement::Deny);
        let find_with_usage = |gpu_seconds: i128, demand: &JobDemand| {
            let mut report = LimitsReport::default();
            let part = |gpu_seconds| GpuTimeUsage {
                start: 0,
                gpu_seconds,
            };
            let parts = vec![part(3_600), part(gpu_seconds)];
            report.used_gpu_hours.insert(draw.limit.clone(), (9, parts));
            find_exceeded_limit(std::slice::from_ref(&draw), demand, &report)
        };
        assert_eq!(find_with_usage(3_599, &job_demand()), None);
        let message = find_with_usage(3_600, &job_demand()).unwrap();
        assert!(
            message.contains("gpuHours: all 2 GPU hours are used"),
            "{message}"
        );
        let without_gpus = JobDemand {
            gpus: 0,
            ..job_demand()
        };
        assert_eq!(find_with_usage(3_600, &without_gpus), None);
    }
}
