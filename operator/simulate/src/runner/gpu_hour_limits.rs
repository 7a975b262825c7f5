//! GPU-hours that jobs use, and limits that close once they are used up. The count is the
//! operator's, in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_gang::quota::{GpuHourUsage, limit_name};
use trellis_policies::quota::{LimitId, QuotaPolicies};
use trellis_scheduler::{Engine, LimitDraw, LimitName, Time};

/// Usage of each limit on GPU-hours, from zero.
#[derive(Debug, Default)]
pub(super) struct GpuHourLimits {
    usage: GpuHourUsage,
    policies: Arc<QuotaPolicies>,
    /// Limits that a job counts against, by the engine's name.
    limits: BTreeMap<LimitName, LimitId>,
}

impl GpuHourLimits {
    /// These policies take effect from now on.
    pub(super) fn apply_policies(&mut self, policies: Arc<QuotaPolicies>) {
        self.policies = policies;
    }

    /// A job draws on these limits of GPU-hours.
    pub(super) fn add_limits(&mut self, limits: Vec<LimitId>) {
        let named = limits.into_iter().map(|limit| (limit_name(&limit), limit));
        self.limits.extend(named);
    }

    /// Counts usage until now, and closes or opens limits. Called before the engine decides and
    /// after it, because usage changes with each decision. A limit that would close in between
    /// stops no job.
    pub(super) fn update_usage(&mut self, engine: &mut Engine, now: Time) {
        if self.limits.is_empty() {
            return;
        }
        let used: BTreeMap<&LimitName, i128> = engine.limit_usage().collect();
        let held = self.limits.iter().map(|(name, limit)| {
            let gpus = used.get(name).copied().unwrap_or_default();
            (limit.clone(), i64::try_from(gpus).unwrap_or(i64::MAX))
        });
        let held: Vec<_> = held.collect();
        let second = now.as_millis().div_euclid(1_000);
        for (limit, gate) in self.usage.count_until(&self.policies, held, second) {
            match gate {
                Some(closure) => engine.close_limit(limit_name(&limit), closure),
                None => engine.open_limit(&limit_name(&limit)),
            }
        }
    }

    /// Time at which a limit of one of these draws opens. None: none is closed, or the time is not
    /// known.
    pub(super) fn next_opening<'d>(
        engine: &Engine,
        draws: impl Iterator<Item = &'d LimitDraw>,
        now: Time,
    ) -> Option<Time> {
        let closed: BTreeMap<&LimitName, Time> = engine
            .closed_limits()
            .filter_map(|(limit, closure)| Some((limit, closure.until.filter(|at| *at > now)?)))
            .collect();
        if closed.is_empty() {
            return None;
        }
        let opens = draws.filter_map(|draw| closed.get(&draw.limit).copied());
        opens.min()
    }
}
