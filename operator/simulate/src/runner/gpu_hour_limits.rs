//! GPU-hours that jobs use, and limits that close when they are used up. The operator's own code
//! counts them, in virtual time.

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
    /// Applies new policies from now on.
    pub(super) fn apply_policies(&mut self, policies: Arc<QuotaPolicies>) {
        self.policies = policies;
    }

    /// Adds the GPU-hour limits that a job counts against.
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
        let usage_by_limit = self.limits.iter().map(|(name, limit)| {
            let gpus = used.get(name).copied().unwrap_or_default();
            (limit.clone(), i64::try_from(gpus).unwrap_or(i64::MAX))
        });
        let usage_by_limit: Vec<_> = usage_by_limit.collect();
        let second = now.as_millis().div_euclid(1_000);
        for (limit, gate) in self
            .usage
            .count_until(&self.policies, usage_by_limit, second)
        {
            match gate {
                Some(closure) => engine.close_limit(limit_name(&limit), closure),
                None => engine.open_limit(&limit_name(&limit)),
            }
        }
    }

    /// Returns the time at which a closed limit of one of these draws opens. None: no limit is
    /// closed, or the time is unknown.
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
