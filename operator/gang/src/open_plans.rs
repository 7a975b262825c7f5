//! Pods that gangs under commit have still to create. A core ResourceQuota counts a pod only once
//! it exists, so without this record two gangs that are checked at once would both get the same
//! room.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use trellis_compiler::CompiledJob;

use super::admitted_pod::AdmittedPod;
use super::namespace_quota::QuotaDemand;
use crate::key::Key;
use crate::observed::PodView;

/// A plan that is being committed.
#[derive(Clone, Debug, Default)]
pub struct OpenPlan {
    /// Hash of the plan.
    pub hash: String,
    /// Task groups: name, number of pods, and one pod.
    pub groups: Vec<(String, i64, AdmittedPod)>,
}

impl OpenPlan {
    /// The plan of that hash, with the pods after admission, by group. Groups without an answer of
    /// admission count as they are sent.
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

    /// Demand of the whole gang.
    #[must_use]
    pub fn total_demand(&self) -> QuotaDemand {
        self.remaining_demand(&BTreeMap::new())
    }

    /// Demand of the pods that do not exist yet.
    #[must_use]
    pub fn remaining_demand(&self, pods: &BTreeMap<String, PodView>) -> QuotaDemand {
        let mut ask = QuotaDemand::default();
        for (group, count, pod) in &self.groups {
            let there = pods
                .values()
                .filter(|p| p.plan == self.hash && p.group == *group)
                .count();
            let there = i64::try_from(there).unwrap_or(i64::MAX);
            let left = count.saturating_sub(there).max(0);
            ask.add(left, &pod.request, &pod.quota_fields);
        }
        ask
    }
}

/// The plans that are being committed, by job.
#[derive(Debug, Default)]
pub struct OpenPlans {
    plans: Mutex<BTreeMap<Key, OpenPlan>>,
}

impl OpenPlans {
    /// Adds a plan, unless `refused` returns an error. `refused` gets the pods that other gangs of
    /// the namespace have still to create. The lock is held meanwhile, so that no other plan is
    /// checked.
    ///
    /// # Errors
    /// The error of `refused`.
    pub fn try_insert<E>(
        &self,
        job: &Key,
        plan: OpenPlan,
        rest: impl Fn(&Key, &OpenPlan) -> QuotaDemand,
        refused: impl FnOnce(&[QuotaDemand]) -> Option<E>,
    ) -> Result<(), E> {
        let mut plans = self.plans.lock();
        let others = other_demands(&plans, job, rest);
        if let Some(error) = refused(&others) {
            return Err(error);
        }
        plans.insert(job.clone(), plan);
        Ok(())
    }

    /// Adds a plan without a check, because it was accepted before, perhaps by an earlier leader.
    pub fn insert(&self, job: &Key, plan: OpenPlan) {
        self.plans.lock().insert(job.clone(), plan);
    }

    /// Removes a plan. True if there was one.
    pub fn remove(&self, job: &Key) -> bool {
        self.plans.lock().remove(job).is_some()
    }

    /// Pods that other gangs of the job's namespace have still to create.
    pub fn other_demands(
        &self,
        job: &Key,
        rest: impl Fn(&Key, &OpenPlan) -> QuotaDemand,
    ) -> Vec<QuotaDemand> {
        other_demands(&self.plans.lock(), job, rest)
    }
}

fn other_demands(
    plans: &BTreeMap<Key, OpenPlan>,
    job: &Key,
    rest: impl Fn(&Key, &OpenPlan) -> QuotaDemand,
) -> Vec<QuotaDemand> {
    plans
        .range(Key::new(&job.namespace, "")..)
        .take_while(|(other, _)| other.namespace == job.namespace)
        .filter(|(other, _)| *other != job)
        .map(|(other, plan)| rest(other, plan))
        .collect()
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::Resources;

    use super::*;
    use crate::namespace_quota::find_exceeded_quota;
    use crate::observed::PodPhase;

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

    #[test]
    fn plan_is_refused_when_an_open_plan_takes_the_quota() {
        let plans = OpenPlans::default();
        let rest = |_: &Key, plan: &OpenPlan| plan.total_demand();
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        let room_for = |pods: i64, mine: i64| {
            move |others: &[QuotaDemand]| {
                let sum: i64 = others.iter().map(QuotaDemand::count).sum();
                (sum + mine > pods).then_some(sum)
            }
        };
        assert_eq!(
            plans.try_insert(&a, plan("a", 3), rest, room_for(4, 3)),
            Ok(())
        );
        assert_eq!(
            plans.try_insert(&b, plan("b", 3), rest, room_for(4, 3)),
            Err(3)
        );
        // A job's own plan does not count against it, and neither do plans of other namespaces.
        assert_eq!(
            plans.try_insert(&a, plan("a", 3), rest, room_for(4, 3)),
            Ok(())
        );
        let elsewhere = Key::new("ns2", "a");
        assert_eq!(
            plans.try_insert(&elsewhere, plan("c", 3), rest, room_for(4, 3)),
            Ok(())
        );
        assert!(plans.remove(&a));
        assert!(!plans.remove(&a));
        assert_eq!(
            plans.try_insert(&b, plan("b", 3), rest, room_for(4, 3)),
            Ok(())
        );
    }
}
