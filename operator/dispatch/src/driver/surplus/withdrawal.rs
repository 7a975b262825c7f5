//! Surplus that gives up its places, and surplus that has to go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use trellis_api::pod_group::Plan;
use trellis_gang::engine::{self, SurplusUnit};
use trellis_gang::gang_step::SurplusPods;
use trellis_gang::key::Key;
use trellis_gang::observed::PodView;
use trellis_scheduler::GangId;

use super::units::{TORN_TIME, is_named_by_plan};
use super::{JobSurplus, SurplusPlacement};
use crate::driver::Driver;

/// How long the engine seeks no place for a pod that could not be created.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// How long a disruption budget may delay an eviction. Then the pod is deleted.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(120);

impl Driver {
    /// Gives up the places of pods that are gone, for a job that may not run as it is.
    pub(super) fn withdraw_gone_surplus_pods(
        &mut self,
        job: &Key,
        pods: &BTreeMap<String, PodView>,
    ) {
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let is_there = |unit: &&SurplusUnit| {
            let mut unit_pods = self.surplus_pods(job, unit, pods);
            unit_pods.any(|pod| !pod.phase.is_over())
        };
        let stopped = state.surplus.states.keys().filter(|unit| !is_there(unit));
        let stopped: Vec<SurplusUnit> = stopped.cloned().collect();
        for unit in stopped {
            self.withdraw_surplus_unit(job, &unit);
        }
    }

    /// Removes a surplus unit from the engine, except for its quota until it has stopped.
    pub(super) fn withdraw_surplus_unit(&mut self, job: &Key, unit: &SurplusUnit) {
        self.leaving.remove(&engine::surplus_unit_key(job, unit));
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        if state.surplus.states.remove(unit).is_some() {
            self.engine.retire_gang(&engine::surplus_gang_id(job, unit));
        }
    }

    /// Removes all surplus pods from the engine, because the gang has lost its place.
    pub(in crate::driver) fn withdraw_surplus(&mut self, job: &Key) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let units: Vec<SurplusUnit> = state.surplus.units().cloned().collect();
        for unit in units {
            self.withdraw_surplus_unit(job, &unit);
        }
        if let Some(state) = self.gangs.get_mut(job) {
            state.surplus = JobSurplus::default();
        }
    }

    /// Gives up, for a while, the places of pods that could not be created.
    pub(in crate::driver) fn refuse_uncreated_surplus(&mut self, job: &Key) {
        let pods = self.committer.cache().pods.pods_of_job(job);
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let assigned = state.surplus.states.iter();
        let assigned =
            assigned.filter(|(_, placement)| matches!(placement, SurplusPlacement::Assigned(_)));
        let is_whole = |unit: &SurplusUnit| {
            self.surplus_pods(job, unit, &pods).count() == self.unit_indexes(job, unit).len()
        };
        let absent = assigned.filter(|(unit, _)| !is_whole(unit));
        let absent: Vec<SurplusUnit> = absent.map(|(unit, _)| unit.clone()).collect();
        let until = Instant::now().checked_add(REFUSED_FOR);
        for unit in absent {
            self.withdraw_surplus_unit(job, &unit);
            if let (Some(state), Some(until)) = (self.gangs.get_mut(job), until) {
                state.surplus.refused_until.insert(unit, until);
            }
        }
    }

    /// Returns the surplus pods to remove: those of a stale leader, and preempted ones.
    pub(in crate::driver) fn surplus_to_remove(
        &self,
        job: &Key,
        pods: &BTreeMap<String, PodView>,
        plan: Option<&Plan>,
    ) -> SurplusPods {
        let Ok(ours) = self.committer.commands().epoch() else {
            return SurplusPods::default();
        };
        // Most waiting gangs have no pods.
        if pods.is_empty() {
            return SurplusPods::default();
        }
        // A leader that had lost the lease created them, so no leader counted them.
        let is_stale = |pod: &&PodView| {
            let earlier = pod.epoch.is_some_and(|epoch| epoch != ours.0);
            earlier && !self.inheritance.has_surplus_pod(&pod.uid)
        };
        let now = Instant::now();
        let is_long = |since: &Instant| now.saturating_duration_since(*since) >= TORN_TIME;
        let torn = self.gangs.get(job).map(|state| &state.surplus.torn);
        let torn = torn.into_iter().flatten();
        let torn = torn.filter(|(_, since)| is_long(since));
        let torn = torn.flat_map(|(unit, _)| self.surplus_pods(job, unit, pods));
        let stale: BTreeSet<String> = pods
            .values()
            .filter(is_stale)
            .chain(torn)
            .map(|p| p.uid.clone())
            .collect();
        let mut leaving = BTreeMap::new();
        let mut nominated = BTreeSet::new();
        let from = Key::new(&job.namespace, &format!("{}/", job.name));
        for (key, leaving_pod) in self.leaving.range(from..) {
            let (member_job, Some(unit)) = engine::parse_gang_id(&GangId::new(key.to_string()))
            else {
                break;
            };
            if member_job != *job {
                break;
            }
            // The slice has joined the gang since.
            if plan.is_some_and(|plan| is_named_by_plan(plan, &unit)) {
                continue;
            }
            let is_asked = leaving_pod.leave_request().is_some();
            let is_delayable = now.saturating_duration_since(leaving_pod.since) < EVICTION_TIMEOUT;
            for pod in self.surplus_pods(job, &unit, pods) {
                match is_asked {
                    true => leaving.insert(pod.uid.clone(), is_delayable).is_some(),
                    false => nominated.insert(pod.uid.clone()),
                };
            }
        }
        SurplusPods {
            stale,
            evictions: leaving,
            nominated,
        }
    }
}
