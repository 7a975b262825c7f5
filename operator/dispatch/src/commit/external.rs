//! Binds external pods. For a gang, this module writes its plan to the journal, binds its claims
//! and its pods, and closes the plan. A single pod needs no plan, because one write binds it.

mod pod_binding;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::info;
use trellis_api::Reason;
use trellis_api::pod_group::{NominatedVictim, Plan, PlannedPod};
use trellis_gang::external::ExternalGangRef;
use trellis_gang::external::plan::group_flavors;
use trellis_gang::external::plan::planned_pods;
use trellis_gang::key::Key;
use trellis_gang::observed::{BindingAnnotations, FlavorsByResource, JudgedSpec};
use trellis_gang::requirements::binding::ClaimMounts;
use trellis_gang::{external, journal};
use trellis_machine::clock;

use super::Committer;
use super::policy_freshness::PolicyVersions;
use crate::task_outcome::TaskOutcome;

/// Bindings of one gang in flight at once.
const MAX_CONCURRENT_BINDINGS: usize = 32;

/// External pods to bind, with their nodes.
#[derive(Clone, Debug)]
pub struct ExternalPlan {
    /// Uid of the PodGroup, or of the pod if it is single.
    pub uid: String,
    /// Nodes of the pods.
    pub plan: Plan,
    /// Name of the PodGroup whose gang the pods form or join.
    pub group: Option<String>,
    /// Claims that the pods mount.
    pub mounts: ClaimMounts,
    /// Start of the pods' wait. None: an earlier leader wrote the plan.
    pub since: Option<Timestamp>,
    /// Policy decision that allows the pods. None: the plan is in the journal already.
    pub judged: Option<PolicyVersions>,
    /// Specs that policies have judged, by pod name. Empty: an earlier leader wrote the plan.
    pub specs: BTreeMap<String, JudgedSpec>,
}

/// A place for external pods, and the victims that have to leave it first.
#[derive(Clone, Debug)]
pub struct ExternalNomination {
    /// As in [`ExternalPlan`].
    pub uid: String,
    /// Nodes that the pods are to get.
    pub plan: Plan,
    /// Claims that the pods mount.
    pub mounts: ClaimMounts,
    /// Policy decision that allows the pods.
    pub judged: PolicyVersions,
    /// Gangs and pods that have to leave.
    pub victims: Vec<NominatedVictim>,
    /// The nomination in words.
    pub message: String,
}

impl Committer {
    /// Writes a nomination to the journal, unless its claims or a victim's disruption budget
    /// forbids it. The victims have not been asked to leave yet. A single pod has no journal, so
    /// the outcome holds its victims.
    pub(crate) async fn nominate_external_pods(
        &self,
        unit: Key,
        nomination: ExternalNomination,
        stop: CancellationToken,
    ) -> TaskOutcome {
        let ExternalNomination {
            uid,
            plan,
            mounts,
            judged,
            victims,
            message,
        } = nomination;
        let _promise = self.claim_promises.guard_for(&unit);
        if let Err(outcome) = self.check_bindable(&unit, &mounts) {
            return outcome;
        }
        match self.find_protected_victim(&victims).await {
            Ok(Some(kept)) => return TaskOutcome::VictimProtected(kept),
            Ok(None) => {}
            Err(error) => return error.into(),
        }
        if let Err(outcome) = self.check_policy_versions(&unit, &judged, &stop).await {
            return outcome;
        }
        if stop.is_cancelled() {
            return TaskOutcome::Done;
        }
        if let Some(ExternalGangRef::Pod(_)) = external::parse_gang_key(&unit) {
            return TaskOutcome::Nominated(victims);
        }
        let written = self.write_journal(&unit, &uid, move |before| {
            journal::nominate(before, plan, victims, message)
        });
        written.await.err().unwrap_or(TaskOutcome::Done)
    }

    /// Writes the plan of a gang to the journal, and carries it out.
    pub(crate) async fn commit_external_pods(
        &self,
        unit: Key,
        wanted: ExternalPlan,
        stop: CancellationToken,
    ) -> TaskOutcome {
        let _promise = self.claim_promises.guard_for(&unit);
        if let Err(outcome) = self.check_bindable(&unit, &wanted.mounts) {
            return outcome;
        }
        if let Err(outcome) = self.check_policies(&unit, &wanted, &stop).await {
            return outcome;
        }
        if stop.is_cancelled() {
            return TaskOutcome::Done;
        }
        let opened = wanted.plan.clone();
        let opened = self.write_journal(&unit, &wanted.uid, move |before| {
            journal::open_plan(before, opened)
        });
        match opened.await {
            Ok(()) => self.bind_external_pods(&unit, &wanted, &stop).await,
            Err(outcome) => outcome,
        }
    }

    /// Carries out a plan that is in the journal.
    pub(crate) async fn resume_external_pods(
        &self,
        unit: Key,
        wanted: ExternalPlan,
        stop: CancellationToken,
    ) -> TaskOutcome {
        let _promise = self.claim_promises.guard_for(&unit);
        self.bind_external_pods(&unit, &wanted, &stop).await
    }

    async fn bind_external_pods(
        &self,
        unit: &Key,
        wanted: &ExternalPlan,
        stop: &CancellationToken,
    ) -> TaskOutcome {
        if let Err(outcome) = self.bind_claims_and_pods(unit, wanted, stop).await {
            return outcome;
        }
        if stop.is_cancelled() {
            return TaskOutcome::Done;
        }
        let hash = wanted.plan.hash.clone();
        let closed = self
            .with_low_priority(stop)
            .write_journal(unit, &wanted.uid, move |before| {
                journal::close_plan(before, &hash)
            })
            .await;
        match closed {
            Ok(()) => {
                let pods = planned_pods(&wanted.plan).count();
                info!(gang = %unit, pods, reason = %Reason::Placed, "bound");
                self.count_bound_gang(unit, wanted);
                TaskOutcome::Done
            }
            Err(outcome) => outcome,
        }
    }

    /// Binds a single pod.
    pub(crate) async fn bind_single_pod(
        &self,
        unit: Key,
        wanted: ExternalPlan,
        stop: CancellationToken,
    ) -> TaskOutcome {
        let _promise = self.claim_promises.guard_for(&unit);
        if let Err(outcome) = self.check_bindable(&unit, &wanted.mounts) {
            return outcome;
        }
        if let Err(outcome) = self.check_policies(&unit, &wanted, &stop).await {
            return outcome;
        }
        match self.bind_claims_and_pods(&unit, &wanted, &stop).await {
            Ok(()) if stop.is_cancelled() => TaskOutcome::Done,
            Ok(()) => {
                info!(pod = %unit, reason = %Reason::Placed, "bound");
                self.count_bound_gang(&unit, &wanted);
                TaskOutcome::Done
            }
            Err(outcome) => {
                // A single pod has no journal that says what to roll back.
                let claims = wanted.mounts.into_keys().collect();
                let unbound = self
                    .unbind_external_pods(&unit, &claims, &wanted.plan.hash)
                    .await;
                unbound.err().unwrap_or(outcome)
            }
        }
    }

    async fn check_policies(
        &self,
        unit: &Key,
        wanted: &ExternalPlan,
        stop: &CancellationToken,
    ) -> Result<(), TaskOutcome> {
        match &wanted.judged {
            Some(judged) => self.check_policy_versions(unit, judged, stop).await,
            None => Ok(()),
        }
    }

    fn count_bound_gang(&self, unit: &Key, wanted: &ExternalPlan) {
        if let (Some(since), Some(queue)) = (wanted.since, &wanted.plan.queue) {
            let waited = clock::now().duration_since(since);
            let waited = Duration::try_from(waited).unwrap_or_default();
            self.context.metrics.count_placement(unit, queue, waited);
        }
    }

    /// Binds the claims of a plan's pods, then the pods that are not bound yet.
    async fn bind_claims_and_pods(
        &self,
        unit: &Key,
        wanted: &ExternalPlan,
        stop: &CancellationToken,
    ) -> Result<(), TaskOutcome> {
        let plan = &wanted.plan;
        let until = plan.deadline.as_ref().map_or(Timestamp::MIN, |d| d.0);
        self.bind_claims(unit, plan, &wanted.mounts, until, stop)
            .await?;
        let is_bound = |pod: &PlannedPod, node: &str| {
            let there = self
                .context
                .cache
                .external_pods
                .get(&Key::new(&unit.namespace, &pod.name));
            there.is_some_and(|there| {
                there.uid == pod.uid
                    && there.node.as_deref() == Some(node)
                    && there.plan.as_ref() == Some(&plan.hash)
            })
        };
        let none = FlavorsByResource::new();
        let mut futures = Vec::new();
        for run in &plan.assignments {
            let by = BindingAnnotations {
                plan: &plan.hash,
                queue: plan.queue.as_deref().unwrap_or_default(),
                placed_with: wanted.group.as_deref(),
                flavors: group_flavors(plan, &run.group).unwrap_or(&none),
            };
            let node = run.node.as_str();
            for pod in run.pods.iter().filter(|pod| !is_bound(pod, node)) {
                let judged = wanted.specs.get(&pod.name);
                futures.push(self.bind_pod(unit, (pod, judged), node, by, stop));
            }
        }
        let mut bindings = stream::iter(futures).buffer_unordered(MAX_CONCURRENT_BINDINGS);
        let mut failure: Option<TaskOutcome> = None;
        while let Some(result) = bindings.next().await {
            if let Err(failed) = result {
                // Wait for the bindings in flight: no pod may be bound after the rollback.
                stop.cancel();
                let worse = matches!(failed, TaskOutcome::RollBack(..));
                if worse || failure.is_none() {
                    failure = Some(failed);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Takes back from the claims of an external gang the volumes that a plan gave them.
    pub(crate) async fn unbind_external_pods(
        &self,
        unit: &Key,
        claims: &BTreeSet<String>,
        plan: &str,
    ) -> Result<(), TaskOutcome> {
        self.unbind_claims(&unit.namespace, claims, plan).await
    }
}
