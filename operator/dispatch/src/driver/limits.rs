//! Limits of QuotaPolicies: the gangs that draw on them, the used GPU-hours, and their usage.

pub(super) mod wrong_limits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trellis_api::pod_group::Plan;
use trellis_api::quantity::Amount;
use trellis_gang::key::Key;
use trellis_gang::quota::{JobLimits, LimitsReport, base_units, from_planned_limit, limit_name};
use trellis_gang::{engine, external, quota};
use trellis_machine::clock;
use trellis_policies::quota::{
    AllocatedAmount, CountedJob, LimitId, LimitedQuantity, QuotaDraw as Drawing, count_usage,
};
use trellis_scheduler::{FlavorName, LimitDraw, LimitName, ResourceName};

use super::{Driver, EngineState, TrackedGang};
use crate::SchedulerEvent;

impl TrackedGang {
    /// Returns the limits that the gang draws on, as the engine's type.
    pub(super) fn draws(&self) -> Vec<LimitDraw> {
        let limits = self.limits.as_deref();
        limits.map(JobLimits::to_draws).unwrap_or_default()
    }
}

impl Driver {
    /// Stores the limits of a job that has been judged.
    pub(super) fn set_limits(
        &mut self,
        job: &Key,
        limits: Arc<JobLimits>,
        touched: &mut BTreeSet<Key>,
    ) {
        let state = self.gangs.entry(job.clone()).or_default();
        if state.limits.as_ref() == Some(&limits) {
            return;
        }
        state.limits = Some(limits.clone());
        let inside = state.engine_state;
        self.track_gpu_hours(&limits);
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        if inside == EngineState::Absent {
            // The gang may have been skipped because its policy had changed, so this tries it
            // again.
            touched.insert(job.clone());
            return;
        }
        self.engine
            .apply_draws(&engine::gang_id(job), state.draws());
        let draws = state.surplus_draws();
        for unit in state.surplus.units() {
            let id = engine::surplus_gang_id(job, unit);
            self.engine.apply_draws(&id, draws.clone());
        }
    }

    /// Starts to count the GPU-hours of the limits that the job draws on.
    pub(super) fn track_gpu_hours(&mut self, limits: &JobLimits) {
        for draw in &limits.draws {
            if draw.limit.quantity == LimitedQuantity::GpuHours {
                let limit = draw.limit.clone();
                self.hour_limits.insert(limit_name(&limit), limit);
            }
        }
    }

    /// Returns true if the job has been judged by the current policies.
    pub(super) fn is_judged(&self, job: &Key) -> bool {
        let judged = self.gangs.get(job).and_then(|state| state.limits.as_ref());
        let of_now = self.committer.cache().quotas.version();
        judged.map_or(0, |limits| limits.version) == of_now
    }

    /// Returns the limits that a place is charged to, from its journal.
    pub(super) fn planned_draws(&mut self, plan: &Plan) -> Vec<LimitDraw> {
        let mut draws = Vec::with_capacity(plan.limits.len());
        for planned in &plan.limits {
            let (limit, draw) = from_planned_limit(planned);
            if limit.quantity == LimitedQuantity::GpuHours {
                self.hour_limits.insert(draw.limit.clone(), limit);
            }
            draws.push(draw);
        }
        draws
    }

    /// Continues from the ledgers of GPU-hours: when this replica begins to lead, and when an
    /// unreadable ledger can be read again.
    pub(super) fn resume_hours(&mut self) {
        let quotas = &self.committer.cache().quotas;
        let version = quotas.version();
        if std::mem::replace(&mut self.hours_version, version) != version {
            let objects = quotas.objects.all();
            let policies = objects.iter().map(|object| &**object);
            let now = clock::now().as_second();
            self.hours
                .read_ledgers(policies, |policy| quotas.read_ledger(policy), now);
            // The controller judges jobs again. External pods are judged when the scheduler looks
            // at them.
            let units = self.external_pods.units();
            units.for_each(|unit| {
                self.committer
                    .context()
                    .send_event(SchedulerEvent::Recheck(unit.clone()))
            });
        }
    }

    /// Counts the GPU-hours used until now, and closes or opens limits.
    pub(super) fn count_hours(&mut self) {
        self.resume_hours();
        if self.hour_limits.is_empty() && self.hours.used_hours().next().is_none() {
            return;
        }
        let (_, policies) = self.committer.cache().quotas.active();
        let used: BTreeMap<&LimitName, i128> = self.engine.limit_usage().collect();
        let charged = self.hour_limits.iter().map(|(name, limit)| {
            let gpus = used.get(name).copied().unwrap_or_default();
            (limit.clone(), i64::try_from(gpus).unwrap_or(i64::MAX))
        });
        let charged: Vec<_> = charged.collect();
        let now = clock::now().as_second();
        for (limit, gate) in self.hours.count_until(&policies, charged, now) {
            let limit = limit_name(&limit);
            match gate {
                Some(closure) => self.engine.close_limit(limit, closure),
                None => self.engine.open_limit(&limit),
            }
        }
    }

    /// Returns the time until a limit of GPU-hours is used up, or has room again.
    pub(super) fn hours_pause(&self) -> Option<Duration> {
        let (_, policies) = self.committer.cache().quotas.active();
        let at = self.hours.next_change(&policies)?;
        let seconds = at.saturating_sub(clock::now().as_second()).max(1);
        Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(1)))
    }

    /// Returns the usage of all limits. Limits of GPU-hours that no gang draws on any more are
    /// forgotten.
    pub(super) fn report_limits(&mut self) -> LimitsReport {
        // A report made before the ledgers are read would overwrite them with empty ones.
        self.resume_hours();
        let used: BTreeMap<&LimitName, i128> = self.engine.limit_usage().collect();
        let mut report = LimitsReport::default();
        let of_jobs = self
            .gangs
            .values()
            .filter_map(|gang| gang.limits.as_deref());
        let of_external_pods = self
            .external_pods
            .draws()
            .filter_map(|(_, _, limits)| limits);
        for draw in of_jobs
            .chain(of_external_pods)
            .flat_map(|limits| &limits.draws)
        {
            let line = report.usage.entry(draw.limit.clone());
            line.or_insert_with(|| {
                let used = used.get(&limit_name(&draw.limit)).copied();
                (used.unwrap_or_default(), draw.max)
            });
        }
        let drawn = |limit: &LimitName| used.contains_key(limit);
        self.hour_limits
            .retain(|name, limit| report.usage.contains_key(limit) || drawn(name));
        for (limit, until, parts) in self.hours.used_hours() {
            report.used_gpu_hours.insert(limit.clone(), (until, parts));
        }
        report.unreadable_ledgers = self.hours.unreadable().clone();
        report.inconsistent_limits = self.find_wrong_limits();
        report
    }

    /// Returns the number of limits that were wrong for long in the last report. Zero without
    /// policies, because then no report is made.
    pub(super) fn wrong_limit_count(&self) -> usize {
        match self.committer.cache().quotas.objects.is_empty() {
            true => 0,
            false => self.wrong_limits.reported_count(),
        }
    }

    /// Returns the limits whose account in the engine has differed from a recount for long.
    fn find_wrong_limits(&mut self) -> BTreeSet<LimitId> {
        let used: BTreeMap<&LimitName, i128> = self.engine.limit_usage().collect();
        let wrong: BTreeSet<LimitId> = self
            .recount()
            .into_iter()
            .filter(|(limit, counted)| {
                let used = used.get(&limit_name(limit)).copied().unwrap_or_default();
                counted.map(|amount| i128::from(base_units(&limit.quantity, amount))) != Some(used)
            })
            .map(|(limit, _)| limit)
            .collect();
        self.wrong_limits.update(wrong, Instant::now())
    }

    /// Returns the limits in the journal of a gang that has not been judged: its job does not
    /// decode, or an earlier leader promised the place to external pods.
    fn planned_drawings(&self, job: &Key) -> Vec<Drawing> {
        let group = self.committer.cache().pod_groups.get(job);
        let plan = group
            .as_ref()
            .and_then(|group| group.status.as_ref()?.plan.as_ref());
        let planned = plan.into_iter().flat_map(|plan| &plan.limits);
        planned.map(quota::to_counted_drawing).collect()
    }

    /// Recounts the usage of each limit from the gangs' places and what the engine charges for
    /// them.
    fn recount(&self) -> BTreeMap<LimitId, Option<Amount>> {
        let amount = |resource: &str, units: i128| {
            let units = i64::try_from(units).ok()?;
            Some(match resource {
                "cpu" => Amount::from_millis(units),
                _ => Amount::from_units(units),
            })
        };
        let to_amounts = |charge: Vec<(FlavorName, ResourceName, i128)>| -> Vec<AllocatedAmount> {
            let charge = charge.into_iter();
            charge
                .map(|(flavor, resource, units)| AllocatedAmount {
                    flavor: flavor.as_str().to_owned(),
                    amount: amount(resource.as_str(), units),
                    resource: resource.as_str().to_owned(),
                })
                .collect()
        };
        let jobs = self.gangs.iter().flat_map(|(job, state)| {
            let draws = || match &state.limits {
                Some(limits) => limits.draws.clone(),
                None => self.planned_drawings(job),
            };
            let is_inside = state.engine_state != EngineState::Absent;
            // A leaving gang holds no quota. A restarting gang waits, and holds its kept place.
            let charge = is_inside.then(|| self.engine.queue_charge(&engine::gang_id(job)));
            let charge = charge.flatten().map(|charge| (draws(), Some(charge)));
            let waits = (state.engine_state == EngineState::Waiting).then(|| (draws(), None));
            [charge, waits].into_iter().flatten()
        });
        let jobs = jobs.map(|(draws, charge)| (draws, charge.map(&to_amounts)));
        // Surplus pods do not count as jobs.
        let surplus = self.gangs.iter().flat_map(|(job, state)| {
            let limits = state.limits.iter().flat_map(|limits| &limits.draws);
            let is_amount = |draw: &&Drawing| {
                !matches!(
                    draw.limit.quantity,
                    LimitedQuantity::RunningJobs | LimitedQuantity::QueuedJobs
                )
            };
            let draws: Vec<Drawing> = limits.filter(is_amount).cloned().collect();
            state.surplus.placed().filter_map(move |member| {
                let charge = self
                    .engine
                    .queue_charge(&engine::surplus_gang_id(job, member))?;
                Some((draws.clone(), Some(charge)))
            })
        });
        let surplus = surplus.map(|(draws, charge)| (draws, charge.map(&to_amounts)));
        let external_pods = self
            .external_pods
            .draws()
            .filter_map(|(unit, inside, limits)| {
                let charge = match inside {
                    EngineState::Absent => return None,
                    EngineState::Waiting => None,
                    EngineState::Nominated | EngineState::Placed | EngineState::Restarting => {
                        Some(self.engine.queue_charge(&engine::gang_id(unit))?)
                    }
                };
                let draws = match limits {
                    Some(limits) => limits.draws.clone(),
                    None => self.planned_drawings(&external::journal_pod_group(unit)),
                };
                Some((draws, charge))
            });
        let external_pods = external_pods.map(|(draws, charge)| (draws, charge.map(&to_amounts)));
        let jobs: Vec<_> = jobs.chain(surplus).chain(external_pods).collect();
        let mut counted = count_usage(jobs.iter().map(|(draws, charge)| CountedJob {
            draws,
            amounts: charge.as_deref(),
        }));
        // GPU-hours are used up, not held.
        counted.retain(|limit, _| limit.quantity != LimitedQuantity::GpuHours);
        counted
    }
}
