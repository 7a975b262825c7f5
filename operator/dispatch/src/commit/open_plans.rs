//! Pods that gangs have yet to create, under commit or with new nodes on order. A core ResourceQuota
//! counts a pod only once it exists. Without this record, two gangs would both get the same room, or
//! nodes for it.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use trellis_gang::journal::open_plan_demand::OpenPlan;
use trellis_gang::key::Key;
use trellis_gang::quota::namespace_quota::QuotaDemand;

/// The plans that are being committed, and the orders of new nodes, by job.
#[derive(Debug, Default)]
pub struct OpenPlans {
    plans: Mutex<BTreeMap<Key, OpenPlan>>,
}

impl OpenPlans {
    /// Adds a plan, unless `refused` returns an error. `refused` gets the pods that other gangs of
    /// the namespace have yet to create. Holds the lock during the call, so that no other plan is
    /// checked at the same time.
    ///
    /// # Errors
    /// The error of `refused`.
    pub(crate) fn try_insert<E>(
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

    /// Removes a plan. Returns true if there was one.
    pub fn remove(&self, job: &Key) -> bool {
        self.plans.lock().remove(job).is_some()
    }

    /// Returns the pods that other gangs of the job's namespace have yet to create.
    pub(crate) fn other_demands(
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
    use trellis_gang::admitted_pod::AdmittedPod;

    use super::*;

    fn plan(hash: &str, pods: i64) -> OpenPlan {
        OpenPlan {
            hash: hash.to_owned(),
            groups: vec![("worker".to_owned(), pods, AdmittedPod::default())],
        }
    }

    #[test]
    fn plan_is_refused_when_an_open_plan_takes_the_quota() {
        let plans = OpenPlans::default();
        let demand = |_: &Key, plan: &OpenPlan| plan.total_demand();
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        let room_for = |pods: i64, own_pods: i64| {
            move |other_demands: &[QuotaDemand]| {
                let sum: i64 = other_demands.iter().map(QuotaDemand::count).sum();
                (sum.saturating_add(own_pods) > pods).then_some(sum)
            }
        };
        assert_eq!(
            plans.try_insert(&a, plan("a", 3), demand, room_for(4, 3)),
            Ok(())
        );
        assert_eq!(
            plans.try_insert(&b, plan("b", 3), demand, room_for(4, 3)),
            Err(3)
        );
        // A job's own plan and plans of other namespaces do not count.
        assert_eq!(
            plans.try_insert(&a, plan("a", 3), demand, room_for(4, 3)),
            Ok(())
        );
        let other_namespace = Key::new("ns2", "a");
        assert_eq!(
            plans.try_insert(&other_namespace, plan("c", 3), demand, room_for(4, 3)),
            Ok(())
        );
        assert!(plans.remove(&a));
        assert!(!plans.remove(&a));
        assert_eq!(
            plans.try_insert(&b, plan("b", 3), demand, room_for(4, 3)),
            Ok(())
        );
    }
}
