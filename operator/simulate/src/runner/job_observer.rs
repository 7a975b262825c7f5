//! States of jobs, their pods and nodes, for expectations.

use std::collections::BTreeSet;

use trellis_scheduler::{FlavorName, GangId};

use super::SimulationRunner;
use super::expectations::{JobObserver, SimulatedJobState};
use super::simulated_job::SimulatedJobStage;

impl JobObserver for SimulationRunner<'_, '_> {
    fn job_state(&self, id: &GangId) -> SimulatedJobState {
        let Some(job) = self.jobs.get(id) else {
            return SimulatedJobState::Absent;
        };
        match job.stage {
            SimulatedJobStage::Waiting if self.refused.contains(id) => SimulatedJobState::Refused,
            SimulatedJobStage::Withheld
            | SimulatedJobStage::Waiting
            | SimulatedJobStage::Leaving => SimulatedJobState::Waiting,
            SimulatedJobStage::Refused => SimulatedJobState::Refused,
            SimulatedJobStage::Placed { .. } => SimulatedJobState::Placed,
            SimulatedJobStage::Ended => SimulatedJobState::Ended,
        }
    }

    fn was_preempted(&self, job: &GangId) -> bool {
        self.jobs.get(job).is_some_and(|job| job.was_preempted)
    }

    fn nodes(&self, id: &GangId) -> BTreeSet<String> {
        let Some(job) = self.jobs.get(id) else {
            return BTreeSet::new();
        };
        let mut nodes: BTreeSet<String> =
            job.surplus.node_names().map(ToString::to_string).collect();
        if !matches!(
            job.stage,
            SimulatedJobStage::Placed { .. } | SimulatedJobStage::Leaving
        ) {
            return nodes;
        }
        let placement = self.engine.placement(id).unwrap_or_default();
        for (name, index, node) in placement.iter() {
            let pod = job.gang.member_pod(name, index);
            if pod.is_some_and(|(_, key)| !job.stopped_pods.contains_key(&key)) {
                nodes.insert(node.to_string());
            }
        }
        nodes
    }

    fn running_pods(&self, id: &GangId) -> u64 {
        let Some(job) = self.jobs.get(id) else {
            return 0;
        };
        let count = |pods: usize| u64::try_from(pods).unwrap_or(u64::MAX);
        let surplus = count(job.surplus.node_names().count());
        if !matches!(
            job.stage,
            SimulatedJobStage::Placed { .. } | SimulatedJobStage::Leaving
        ) {
            return surplus;
        }
        let gang = job
            .gang
            .pod_count()
            .saturating_sub(count(job.stopped_pods.len()));
        gang.saturating_add(surplus)
    }

    fn flavors(&self, id: &GangId) -> BTreeSet<String> {
        let groups = self.engine.flavors(id).unwrap_or_default();
        let flavors = groups.iter().flat_map(|group| group.flavors.values());
        flavors.map(ToString::to_string).collect()
    }

    fn node_count(&self, flavor: &FlavorName) -> usize {
        let nodes = self.nodes.values();
        nodes
            .filter(|node| self.autoscaler.belongs_to_flavor(node, flavor))
            .count()
    }

    fn job_ids(&self) -> Vec<GangId> {
        self.jobs.keys().cloned().collect()
    }
}
