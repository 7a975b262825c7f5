//! Writes for an external gang: the rest of its plan, its adoption, the deletion of its pods, and
//! the end of its rollback.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;
use trellis_api::pod_group::{Plan, PodGroupStatus};
use trellis_api::{PodGroup, Reason};
use trellis_gang::external::{external_request, plan};
use trellis_gang::gang_step::PodDeletion;
use trellis_gang::journal;
use trellis_gang::key::Key;
use trellis_gang::observed::ExternalPods as Pods;
use trellis_machine::clock;

use super::super::Driver;
use crate::commit::ExternalPlan;
use crate::task_outcome::TaskOutcome;

impl Driver {
    /// Continues the plan in the journal.
    pub(super) fn resume_external_plan(
        &mut self,
        unit: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
        pods: &Pods,
    ) {
        let (Some(plan), Some(uid)) = (journal.plan.clone(), group.metadata.uid.clone()) else {
            return;
        };
        self.keep_unless_leaving(unit);
        let mut claims = BTreeMap::new();
        for (name, pod) in pods {
            // A bound pod has no stored spec, and its claims are bound.
            if let Some(Ok(spec)) = &pod.spec {
                claims.insert(name.clone(), external_request::pod_claims(name, spec));
            }
        }
        let nodes = plan::planned_pods(&plan).map(|(pod, node)| (pod.name.as_str(), node));
        let mounts = external_request::collect_mounts(&claims, nodes);
        let state = self.external_pods.gangs.get(unit);
        let request = state.and_then(|state| state.request.as_ref());
        let wanted = ExternalPlan {
            uid,
            plan,
            group: group.metadata.name.clone(),
            mounts,
            since: request.map(|request| request.submitted),
            judged: None,
            specs: request
                .map(|request| request.judged_specs.clone())
                .unwrap_or_default(),
        };
        let (committer, key) = (self.committer.clone(), unit.clone());
        self.start_task(unit, None, |stop| async move {
            committer.resume_external_pods(key, wanted, stop).await
        });
    }

    /// Writes a journal for bound pods that have none.
    ///
    /// The pods keep the queue and the priority with which they were bound, because policies have
    /// not judged the PodGroup's current values.
    pub(super) fn adopt_external_pods(&mut self, unit: &Key, group: &PodGroup, pods: &Pods) {
        let charged_pods = || {
            let all = pods.values();
            all.filter(|pod| pod.gang_charged_queue().is_some())
        };
        // The adoption does not renew the gang's protection from preemption.
        let since = charged_pods().filter_map(|pod| pod.created).min();
        let until = since.and_then(|since| since.saturating_add(journal::PLAN_TIMEOUT).ok());
        let adopted = Plan {
            hash: trellis_compiler::hash_of(&(
                &group.metadata.uid,
                clock::now().as_nanosecond().to_string(),
            )),
            attempt: 1,
            generation: group.metadata.generation.unwrap_or(0),
            queue: charged_pods().find_map(|pod| pod.queue.clone()),
            priority: charged_pods().map(|pod| pod.priority).min(),
            deadline: until.map(Time),
            ..Plan::default()
        };
        self.write_journal(unit, move |before| plan::adopt(before, adopted));
    }

    pub(super) fn stop_external_pods(&mut self, unit: &Key, doomed: Vec<PodDeletion>, evict: bool) {
        let now = Instant::now();
        if let Some(state) = self.external_pods.gangs.get_mut(unit) {
            for pod in &doomed {
                state.deletions.record_request(&pod.uid, pod.force, now);
            }
        }
        let (committer, key) = (self.committer.clone(), unit.clone());
        self.start_task(unit, None, |_| async move {
            match evict {
                true => committer.evict_pods(&key, doomed).await,
                false => committer.delete_pods(&key, doomed).await,
            }
        });
    }

    /// Ends a rollback once no pod of the plan is left: takes back the volumes of its claims.
    pub(super) fn finish_external_rollback(
        &mut self,
        unit: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
        pods: &Pods,
    ) {
        let Some(uid) = group.metadata.uid.clone() else {
            return;
        };
        let preempted = journal.reason == Some(Reason::Preempted);
        if let Some(state) = self.external_pods.gangs.get_mut(unit) {
            state.was_preempted = preempted;
        }
        self.withdraw(unit);
        let specs = pods.iter().filter_map(|(name, pod)| match &pod.spec {
            Some(Ok(spec)) => Some(external_request::pod_claims(name, spec)),
            _ => None,
        });
        let claims = specs.flatten().collect();
        let hash = journal.plan.as_ref().map(|plan| plan.hash.clone());
        let (committer, key) = (self.committer.clone(), unit.clone());
        self.start_task(unit, None, |_| async move {
            let hash = hash.unwrap_or_default();
            let cleared = async {
                committer.unbind_external_pods(&key, &claims, &hash).await?;
                committer.write_journal(&key, &uid, plan::clear_place).await
            };
            cleared.await.err().unwrap_or(TaskOutcome::Done)
        });
    }
}
