//! Surplus: pods of elastic groups above `minReplicas`, and pods of groups with `membership:
//! BestEffort`. As in the operator, each pod, or each slice of a group with slices, is a separate gang
//! for the engine. Surplus is placed after its gang, is evicted before the gang, and ends with it.

pub(super) mod state;

use std::collections::BTreeMap;

use trellis_gang::{GROWTH_INTERVAL, MAX_PENDING_SURPLUS_UNITS, engine};
use trellis_scheduler::{Gang, GangId, GroupName, NodeName, Placement, Victim};

use super::agenda::{DueEvent, RunEvent};
use super::record::{JobEvent, format_victim_reason};
use super::script::ScriptSurplusUnit;
use super::simulated_job::{SimulatedJobStage, pod_gpus};
use super::surplus_pods::state::SurplusPhase;
use super::{SimulationRunner, add_duration};

impl SimulationRunner<'_, '_> {
    /// Submits the surplus pods of a placed job to the engine.
    pub(super) fn submit_surplus(&mut self, id: &GangId) {
        let Some(job) = self.jobs.get(id) else { return };
        if !matches!(job.stage, SimulatedJobStage::Placed { .. }) || job.surplus.units.is_empty() {
            return;
        }
        let grows_at = job
            .surplus
            .last_growth
            .map(|grown| grown.plus(GROWTH_INTERVAL));
        let is_paused = grows_at.is_some_and(|at| at > self.now);
        let seats = &job.surplus.phases;
        let waiting = seats
            .values()
            .filter(|seat| **seat == SurplusPhase::Waiting);
        let free = MAX_PENDING_SURPLUS_UNITS.saturating_sub(waiting.count());
        let may_come = |pod: &&ScriptSurplusUnit| {
            let is_replaced = job.surplus.replacements.contains(&pod.gang.id);
            let pending = is_paused && pod.restarts_others && !is_replaced;
            !pending && !seats.contains_key(&pod.gang.id)
        };
        let coming = job.surplus.units.iter().filter(may_come).take(free);
        let gangs: Vec<Gang> = coming
            .filter_map(|pod| self.surplus_gang(id, pod))
            .collect();
        for gang in gangs {
            if let Some(job) = self.jobs.get_mut(id) {
                job.surplus
                    .phases
                    .insert(gang.id.clone(), SurplusPhase::Waiting);
            }
            self.engine.apply_gang(gang);
            self.is_unsettled = true;
        }
    }

    /// Returns a surplus pod in the engine's form, restricted to the flavors of its gang and to the
    /// domain that its gang requires.
    fn surplus_gang(&self, id: &GangId, pod: &ScriptSurplusUnit) -> Option<Gang> {
        let mut gang = pod.gang.clone();
        let placed_groups = self.engine.flavors(id).unwrap_or_default();
        let domain_labels = self.domain_labels(id, pod)?;
        for group in &mut gang.groups {
            let placed = placed_groups
                .iter()
                .filter(|placed| placed.group == group.name);
            let mut flavors: Vec<_> = placed.flat_map(|g| g.flavors.values().cloned()).collect();
            flavors.sort_unstable();
            flavors.dedup();
            if !flavors.is_empty() {
                group.flavors = flavors;
            }
            group.constraints.narrow_to(&domain_labels);
        }
        Some(gang)
    }

    /// Returns the labels of the domain in which a surplus pod must be. Empty: every domain is
    /// allowed. None: no node of the gang is in such a domain, so the pod waits.
    fn domain_labels(
        &self,
        id: &GangId,
        pod: &ScriptSurplusUnit,
    ) -> Option<BTreeMap<String, String>> {
        let Some(level) = &pod.level else {
            return Some(BTreeMap::new());
        };
        let placement = self.engine.placement(id)?;
        let group = pod.gang.groups.first().map(|group| &group.name);
        let is_own = |name: &GroupName| !level.is_of_group || Some(name) == group;
        let own = placement.iter().any(|(name, ..)| is_own(name));
        let mut nodes = placement
            .iter()
            .filter(|(name, ..)| !own || is_own(name))
            .map(|(_, _, node)| node);
        nodes.find_map(|node| self.engine.domain_labels(&level.name, node))
    }

    /// Places a surplus pod.
    pub(super) fn place_surplus(&mut self, job: &GangId, id: &GangId, placement: &Placement) {
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        let Some(pod) = state.surplus.unit(id).cloned() else {
            return;
        };
        let nodes: Vec<NodeName> = placement.iter().map(|(_, _, node)| node.clone()).collect();
        let phase = SurplusPhase::Placed(nodes.clone());
        state.surplus.phases.insert(id.clone(), phase);
        state.surplus.finished.remove(id);
        let is_replaced = state.surplus.replacements.remove(id);
        if pod.restarts_others && !is_replaced {
            self.grown_jobs.insert(job.clone());
        }
        self.add_surplus_use(&nodes, pod_gpus(&pod.gang));
        self.report_with_place(
            JobEvent::Grown,
            job,
            Some((&pod.gang, placement)),
            String::new(),
        );
    }

    /// Delays further surplus pods of the jobs that have grown in this cycle.
    pub(super) fn pause_growth(&mut self) {
        for id in std::mem::take(&mut self.grown_jobs) {
            let now = self.now;
            let Some(job) = self.jobs.get_mut(&id) else {
                continue;
            };
            job.surplus.last_growth = Some(now);
            let pods = job.surplus.units.iter().filter(|pod| pod.restarts_others);
            let waiting = pods.filter(|pod| {
                let is_replaced = job.surplus.replacements.contains(&pod.gang.id);
                job.surplus.phases.get(&pod.gang.id) == Some(&SurplusPhase::Waiting) && !is_replaced
            });
            let waiting: Vec<GangId> = waiting.map(|pod| pod.gang.id.clone()).collect();
            let due = DueEvent {
                event: RunEvent::GrowSurplus,
                job: id.clone(),
                event_generation: job.event_generation,
            };
            for pod in waiting {
                job.surplus.phases.remove(&pod);
                self.engine.delete_gang(&pod);
            }
            self.agenda.add(now.plus(GROWTH_INTERVAL), due);
        }
    }

    /// Adds to the GPUs in use on the nodes of the pods of a unit; negative values free GPUs.
    fn add_surplus_use(&mut self, nodes: &[NodeName], gpus_per_pod: i64) {
        for node in nodes {
            self.meter.add_used(node, gpus_per_pod);
        }
    }

    /// Evicts surplus for another gang.
    pub(super) fn evict_surplus(
        &mut self,
        job: &GangId,
        victim: &Victim,
        preemptor: Option<&GangId>,
    ) {
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        let grace = state.gang.grace;
        let Some(SurplusPhase::Placed(nodes)) = state.surplus.phases.get(&victim.gang).cloned()
        else {
            return;
        };
        let seat = SurplusPhase::Leaving(nodes);
        state.surplus.phases.insert(victim.gang.clone(), seat);
        let due = DueEvent {
            event: RunEvent::StopSurplus(victim.gang.clone()),
            job: job.clone(),
            event_generation: state.event_generation,
        };
        self.agenda.add(add_duration(self.now, grace), due);
        let pod = engine::parse_gang_id(&victim.gang).1;
        let pod = pod.map_or_else(String::new, |pod| pod.pod_name(&engine::job_key(job).name));
        let reason = format_victim_reason(victim, preemptor, None);
        self.report_with_place(JobEvent::Shrunk, job, None, format!("{pod}: {reason}"));
    }

    /// Releases the node of a surplus pod, which then has the state `seat`. None: the pod is
    /// pending again at once.
    pub(super) fn free_surplus(&mut self, job: &GangId, id: &GangId, seat: Option<SurplusPhase>) {
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        let freed = state.surplus.unit(id).map_or(0, |pod| pod_gpus(&pod.gang));
        let before = match seat {
            Some(seat) => state.surplus.phases.insert(id.clone(), seat),
            None => state.surplus.phases.remove(id),
        };
        if let Some(SurplusPhase::Placed(nodes) | SurplusPhase::Leaving(nodes)) = before {
            self.add_surplus_use(&nodes, freed.saturating_neg());
        }
        self.engine.delete_gang(id);
        self.is_unsettled = true;
        self.finish_job_if_done(job);
    }

    /// Deletes a surplus pod that the job no longer requests.
    pub(super) fn delete_surplus_unit(&mut self, job: &GangId, pod: &ScriptSurplusUnit) {
        let id = &pod.gang.id;
        let seat = self
            .jobs
            .get_mut(job)
            .and_then(|job| job.surplus.phases.remove(id));
        if let Some(SurplusPhase::Placed(nodes) | SurplusPhase::Leaving(nodes)) = seat {
            self.add_surplus_use(&nodes, pod_gpus(&pod.gang).saturating_neg());
            let name = engine::parse_gang_id(id).1;
            let name =
                name.map_or_else(String::new, |pod| pod.pod_name(&engine::job_key(job).name));
            let reason = format!("{name}: the job asks for fewer pods");
            self.report_with_place(JobEvent::Shrunk, job, None, reason);
        }
        self.engine.delete_gang(id);
        self.is_unsettled = true;
    }

    /// Removes all surplus pods of a job whose gang has lost its nodes.
    pub(super) fn withdraw_all_surplus(&mut self, job: &GangId) {
        let Some(state) = self.jobs.get(job) else {
            return;
        };
        let ids: Vec<GangId> = state.surplus.phases.keys().cloned().collect();
        for id in ids {
            self.free_surplus(job, &id, None);
        }
        if let Some(state) = self.jobs.get_mut(job) {
            state.surplus.last_growth = None;
            state.surplus.replacements.clear();
        }
    }

    /// Removes a node from surplus pods. The pods are submitted again.
    pub(super) fn remove_surplus_node(&mut self, node: &NodeName) {
        let mut lost: Vec<(GangId, GangId)> = Vec::new();
        for (job, state) in &self.jobs {
            let seats = state.surplus.phases.iter().filter(
                |(_, seat)| matches!(seat, SurplusPhase::Placed(on) | SurplusPhase::Leaving(on) if on.contains(node)),
            );
            lost.extend(seats.map(|(id, _)| (job.clone(), id.clone())));
        }
        for (job, id) in lost {
            self.free_surplus(&job, &id, None);
            let pod = engine::parse_gang_id(&id).1;
            let pod = pod.map_or_else(String::new, |pod| pod.pod_name(&engine::job_key(&job).name));
            let reason = format!("{pod}: node {:?} is gone", node.as_str());
            self.report_with_place(JobEvent::Shrunk, &job, None, reason);
            self.submit_surplus(&job);
        }
    }
}
