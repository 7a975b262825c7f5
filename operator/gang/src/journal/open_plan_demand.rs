//! The demand on quota of the pods that a gang under commit has still to create.

use std::collections::BTreeMap;

use trellis_compiler::CompiledJob;

use crate::admitted_pod::AdmittedPod;
use crate::observed::PodView;
use crate::quota::namespace_quota::QuotaDemand;

/// A plan that is being committed.
#[derive(Clone, Debug, Default)]
pub struct OpenPlan {
    /// Hash of the plan.
    pub hash: String,
    /// Task groups: name, number of pods, and one pod.
    pub groups: Vec<(String, i64, AdmittedPod)>,
}

impl OpenPlan {
    /// Returns the plan of that hash, with the pods after admission, by group. Groups without an
    /// answer of admission count as they are sent.
    #[must_use]
    pub fn new(hash: &str, job: &CompiledJob, admitted: &BTreeMap<String, AdmittedPod>) -> Self {
        let groups = job.groups().iter().map(|group| {
            let pod = admitted.get(group.name()).cloned();
            let pod = pod.unwrap_or_else(|| AdmittedPod::from_group(group));
            (group.name().to_owned(), i64::from(group.gang_size()), pod)
        });
        Self {
            hash: hash.to_owned(),
            groups: groups.collect(),
        }
    }

    /// Returns the demand of a job's whole gang, before admission.
    #[must_use]
    pub fn job_demand(job: &CompiledJob) -> QuotaDemand {
        Self::new("", job, &BTreeMap::new()).total_demand()
    }

    /// Returns the demand of the whole gang.
    #[must_use]
    pub fn total_demand(&self) -> QuotaDemand {
        self.remaining_demand(&BTreeMap::new())
    }

    /// Returns the demand of the pods that do not exist yet.
    #[must_use]
    pub fn remaining_demand(&self, pods: &BTreeMap<String, PodView>) -> QuotaDemand {
        let mut demand = QuotaDemand::default();
        for (group, count, pod) in &self.groups {
            let existing = pods
                .values()
                .filter(|p| p.plan == self.hash && p.group == *group)
                .count();
            let existing = i64::try_from(existing).unwrap_or(i64::MAX);
            let missing = count.saturating_sub(existing).max(0);
            demand.add(missing, &pod.request, &pod.quota_fields);
        }
        demand
    }
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::Resources;

    use super::*;
    use crate::observed::PodPhase;
    use crate::quota::namespace_quota::find_exceeded_quota;

    fn half_a_core() -> AdmittedPod {
        AdmittedPod {
            request: Resources::new().with("cpu", 500),
            ..AdmittedPod::default()
        }
    }

    fn plan(hash: &str, pods: i64) -> OpenPlan {
        OpenPlan {
            hash: hash.to_owned(),
            groups: vec![("worker".to_owned(), pods, half_a_core())],
        }
    }

    fn pod(plan: &str) -> PodView {
        PodView {
            uid: String::new(),
            job_uid: String::new(),
            is_owned: true,
            judged_spec: Default::default(),
            group: "worker".to_owned(),
            index: 0,
            attempt: 1,
            round: 0,
            epoch: None,
            ready: false,
            plan: plan.to_owned(),
            created: None,
            node: None,
            phase: PodPhase::Pending,
            start_obstacle: None,
            deleting: false,
            has_overlong_grace: false,
            deletion_requested: None,
            is_disrupted: false,
            checkpoint: None,
        }
    }

    #[test]
    fn remaining_demand_excludes_existing_pods_of_the_plan() {
        let pods = BTreeMap::from([
            ("a".to_owned(), pod("plan")),
            ("b".to_owned(), pod("another")),
        ]);
        let rest = plan("plan", 4).remaining_demand(&pods);
        assert_eq!(rest.count(), 3);
        let cores = |hard: &str| {
            let quota =
                serde_json::json!({"metadata": {"name": "q"}, "spec": {"hard": {"cpu": hard}}});
            find_exceeded_quota([&serde_json::from_value(quota).unwrap()], &rest, &[])
        };
        assert!(cores("1500m").is_none() && cores("1499m").is_some());
        assert_eq!(plan("plan", 0).remaining_demand(&pods).count(), 0);
    }
}
