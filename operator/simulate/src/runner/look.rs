//! States of jobs and their pods, for expectations.

use std::collections::BTreeSet;

use trellis_scheduler::GangId;

use super::Runner;
use super::expect::{Look, Standing};
use super::job::Stage;

impl Look for Runner<'_, '_> {
    fn standing(&self, id: &GangId) -> Standing {
        let Some(job) = self.jobs.get(id) else {
            return Standing::Absent;
        };
        match job.stage {
            Stage::Waiting if self.refused.contains(id) => Standing::Refused,
            Stage::Held | Stage::Waiting | Stage::Leaving => Standing::Waiting,
            Stage::Refused => Standing::Refused,
            Stage::Placed { .. } => Standing::Placed,
            Stage::Ended => Standing::Ended,
        }
    }

    fn was_preempted(&self, job: &GangId) -> bool {
        self.jobs.get(job).is_some_and(|job| job.was_preempted)
    }

    fn nodes(&self, id: &GangId) -> BTreeSet<String> {
        let Some(job) = self.jobs.get(id) else {
            return BTreeSet::new();
        };
        let mut nodes: BTreeSet<String> = job.surplus.nodes().map(ToString::to_string).collect();
        if !matches!(job.stage, Stage::Placed { .. } | Stage::Leaving) {
            return nodes;
        }
        let placement = self.engine.placement(id).unwrap_or_default();
        for (name, index, node) in placement.iter() {
            let group = job.gang.groups.iter().find(|group| group.name == *name);
            let key = group.map(|group| job.gang.pod_key(group, index));
            if key.is_some_and(|key| !job.ranks.contains_key(&key)) {
                nodes.insert(node.to_string());
            }
        }
        nodes
    }

    fn running(&self, id: &GangId) -> u64 {
        let Some(job) = self.jobs.get(id) else {
            return 0;
        };
        let count = |pods: usize| u64::try_from(pods).unwrap_or(u64::MAX);
        let surplus = count(job.surplus.nodes().count());
        if !matches!(job.stage, Stage::Placed { .. } | Stage::Leaving) {
            return surplus;
        }
        let gang = job.gang.pod_count().saturating_sub(count(job.ranks.len()));
        gang.saturating_add(surplus)
    }

    fn flavors(&self, id: &GangId) -> BTreeSet<String> {
        let given = self.engine.flavors(id).unwrap_or_default();
        let given = given.iter().flat_map(|group| group.flavors.values());
        given.map(ToString::to_string).collect()
    }

    fn all(&self) -> Vec<GangId> {
        self.jobs.keys().cloned().collect()
    }
}
