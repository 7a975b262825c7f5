//! Checks whether the limits have room for a job before it is placed. Pure.

use trellis_api::quota_policy::QuotaEnforcement;
use trellis_policies::quota::{Draw, What};

use super::hours::{HOUR, UNREADABLE, all_burnt};
use super::{Asked, LimitsReport, base_units};
use crate::engine;

/// Why a job with this demand and these limits is refused: the first limit that denies and has no
/// room. None if there is room, or if that depends on the placement.
///
/// The job's flavor is not known yet, nor whether it will wait. Limits of one flavor and limits of
/// waiting jobs are left to the scheduler.
#[must_use]
pub fn no_room(draws: &[Draw], asked: &Asked, report: &LimitsReport) -> Option<String> {
    let deny = draws
        .iter()
        .filter(|draw| draw.enforcement == QuotaEnforcement::Deny);
    let mut lacks = deny.filter_map(|draw| {
        let limit = &draw.limit;
        if limit.what == What::GpuHours {
            let why = burnt(draw, asked, report)?;
            return Some(format!(
                "{limit}: {why}, and nothing starts before that changes"
            ));
        }
        let needs = i128::from(needs(&limit.what, asked)?);
        let used = report.lines.get(limit).map_or(0, |(used, _)| *used);
        let most = i128::from(base_units(&limit.what, draw.max));
        let missing = used.saturating_add(needs).saturating_sub(most);
        let shown = |amount: i128| match &limit.what {
            What::Resource { resource, .. } => {
                engine::quantity(resource, amount).as_str().to_owned()
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
    let why = lacks.next()?;
    Some(format!("{why}: apply it again once there is room"))
}

/// Amount that the job adds to a limit, in the engine's base units. None if it depends on the
/// placement.
fn needs(what: &What, asked: &Asked) -> Option<i64> {
    match what {
        What::RunningJobs => Some(1),
        What::Resource {
            flavor: None,
            resource,
            ..
        } => {
            // A sum that overflows was refused before.
            let asked = (*asked.total.get(resource)?)?;
            Some(base_units(what, asked)).filter(|needs| *needs > 0)
        }
        What::Resource { .. } | What::QueuedJobs | What::GpuHours => None,
    }
}

/// Why a job that needs GPUs may not use a limit of GPU hours. None if it may, or needs no GPUs.
fn burnt(draw: &Draw, asked: &Asked, report: &LimitsReport) -> Option<String> {
    if asked.gpus == 0 {
        return None;
    }
    let unreadable = &report.unreadable_ledgers;
    if unreadable.contains_key(&draw.limit.policy) {
        return Some(UNREADABLE.to_owned());
    }
    let hours = draw.max.units_down();
    let most = i128::from(hours).saturating_mul(HOUR);
    (report.burnt_seconds(&draw.limit) >= most).then(|| all_burnt(hours))
}

#[cfg(test)]
mod tests {
    use trellis_api::quantity::Amount;
    use trellis_policies::quota::{Burnt, Holder, LimitId};

    use super::*;

    fn draw(what: What, max: i64, enforcement: QuotaEnforcement) -> Draw {
        Draw {
            limit: LimitId {
                policy: "p".to_owned(),
                holder: Holder::Subject,
                what,
            },
            max: Amount::from_units(max),
            enforcement,
        }
    }

    fn resource(name: &str, flavor: Option<&str>) -> What {
        What::Resource {
            flavor: flavor.map(str::to_owned),
            resource: name.to_owned(),
            queue: None,
        }
    }

    fn asked() -> Asked {
        let total = [("cpu", 4), ("nvidia.com/gpu", 8)];
        let total = total.map(|(name, units)| (name.to_owned(), Some(Amount::from_units(units))));
        Asked {
            total: total.into(),
            pods: 1,
            gpus: 8,
        }
    }

    /// The result if this amount of the limit is used, in base units.
    fn said(what: &What, used: i128, enforcement: QuotaEnforcement) -> Option<String> {
        let draw = draw(what.clone(), 16, enforcement);
        let mut report = LimitsReport::default();
        report.lines.insert(draw.limit.clone(), (used, draw.max));
        no_room(&[draw], &asked(), &report)
    }

    #[test]
    fn what_denies_and_has_no_room_is_told_in_the_schedulers_words() {
        use QuotaEnforcement::{Deny, Queue, Warn};
        let gpus = resource("nvidia.com/gpu", None);
        assert_eq!(said(&gpus, 8, Deny), None);
        let expected = "quota policy \"p\", nvidia.com/gpu: needs 8, 9 of 16 are held: 1 is missing: \
                        apply it again once there is room";
        assert_eq!(said(&gpus, 9, Deny).as_deref(), Some(expected));
        let cpu = said(&resource("cpu", None), 13_500, Deny).unwrap();
        assert!(
            cpu.contains("needs 4, 13.5 of 16 are held: 1.5 are missing"),
            "{cpu}"
        );
        let jobs = said(&What::RunningJobs, 17, Deny).unwrap();
        assert!(
            jobs.contains("needs 1, 17 of 16 are held: 2 are missing"),
            "{jobs}"
        );
        assert_eq!(said(&What::RunningJobs, 15, Deny), None);
        for enforcement in [Queue, Warn] {
            assert_eq!(said(&gpus, 99, enforcement), None);
        }
        // Limits that depend on the placement, and a resource that the job does not request.
        for what in [
            resource("nvidia.com/gpu", Some("a100")),
            What::QueuedJobs,
            resource("rdma/hca", None),
        ] {
            assert_eq!(said(&what, 99, Deny), None);
        }
        let none = LimitsReport::default();
        assert_eq!(no_room(&[draw(gpus, 16, Deny)], &asked(), &none), None);
    }

    #[test]
    fn hours_that_are_burnt_are_told_to_who_needs_gpus() {
        let draw = draw(What::GpuHours, 2, QuotaEnforcement::Deny);
        let with = |gpu_seconds: i128, asked: &Asked| {
            let mut report = LimitsReport::default();
            let part = |gpu_seconds| Burnt {
                start: 0,
                gpu_seconds,
            };
            let parts = vec![part(3_600), part(gpu_seconds)];
            report.burnt.insert(draw.limit.clone(), (9, parts));
            no_room(std::slice::from_ref(&draw), asked, &report)
        };
        assert_eq!(with(3_599, &asked()), None);
        let said = with(3_600, &asked()).unwrap();
        assert!(
            said.contains("gpuHours: all 2 GPU hours are burnt"),
            "{said}"
        );
        let none = Asked { gpus: 0, ..asked() };
        assert_eq!(with(3_600, &none), None);
    }
}
