//! Turns a placement into pods: preflight and journal (`plan_opening`), claims (`claim_binding`),
//! pods (`pod_creation`), close. A rollback releases the claims (`claim_release`). If victims have
//! to leave first, this module writes a nomination to the journal (`nomination`) once their
//! disruption budgets allow it (`disruption_budgets`). If new nodes have to come first, it writes
//! an order (`provisioning`). The rest of the operator decides, and this module writes.

mod children;
mod claim_binding;
mod claim_release;
mod disruption_budgets;
mod external;
mod faulty_node;
mod journal_write;
mod missing_pods;
mod nomination;
mod open_plans;
mod order_objects;
mod plan_opening;
mod pod_conditions;
mod pod_creation;
mod pod_deletion;
mod pod_eviction;
mod policy_freshness;
mod provisioning;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Resource;
use tokio_util::sync::CancellationToken;
use trellis_cache::Cache;
use trellis_gang::AuthorizedAttempt;
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::journal::open_plan_demand::OpenPlan;
use trellis_gang::key::Key;
use trellis_gang::quota::namespace_quota::{self, QuotaDemand};
use trellis_gang::requirements::flavors::GangPlacement;

use super::preflight::Preflight;
use crate::commands::Commands;
use crate::context::Context;
use crate::task_outcome::TaskOutcome;
use claim_binding::ClaimPromises;
pub use external::{ExternalNomination, ExternalPlan};
pub use nomination::Nomination;
pub use policy_freshness::PolicyVersions;
pub use provisioning::NodeOrder;

/// Clients and caches that tasks need.
#[derive(Clone)]
pub struct Committer {
    context: Arc<Context>,
    commands: Commands,
    preflight: Arc<Preflight>,
    open_plans: Arc<open_plans::OpenPlans>,
    claim_promises: Arc<ClaimPromises>,
}

impl Committer {
    /// Returns a committer for one leader.
    #[must_use]
    pub fn new(context: Arc<Context>, commands: Commands) -> Self {
        Self {
            context,
            commands,
            preflight: Arc::default(),
            open_plans: Arc::default(),
            claim_promises: Arc::default(),
        }
    }

    /// Returns the same committer, for writes that wait for other gangs, and that are dropped if
    /// `stop` is cancelled before their turn ([`Commands::with_low_priority`]).
    fn with_low_priority(&self, stop: &CancellationToken) -> Self {
        Self {
            commands: self.commands.with_low_priority().with_cancellation(stop),
            ..self.clone()
        }
    }

    /// Returns the objects of the cluster as the watches have shown them.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.context.cache
    }

    /// Returns the context that tasks share.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the client for writes.
    #[must_use]
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Returns the plans that are being carried out.
    #[must_use]
    pub(crate) fn open_plans(&self) -> &open_plans::OpenPlans {
        &self.open_plans
    }

    /// Carries out a new plan. `planned` holds the pods for which the place was found: as admission
    /// leaves them, without the additions of their flavors.
    pub async fn commit(
        &self,
        job: Key,
        run: Arc<AuthorizedAttempt>,
        place: GangPlacement,
        planned: BTreeMap<String, AdmittedPod>,
        stop: CancellationToken,
    ) -> TaskOutcome {
        let _promise = self.claim_promises.guard_for(&job);
        match self.open_plan(&job, &run, &place, planned, &stop).await {
            Ok((plan, counted)) => {
                self.carry_out_plan(&job, &run, &plan, &counted, &stop)
                    .await
            }
            Err(outcome) => outcome,
        }
    }

    /// Describes the first ResourceQuota of the job's namespace that has no room for the gang's
    /// request.
    #[must_use]
    pub(crate) fn exceeded_quota(&self, job: &Key, ask: &QuotaDemand) -> Option<String> {
        self.exceeded_quota_with(job, ask, &self.other_demands(job))
    }

    fn exceeded_quota_with(
        &self,
        job: &Key,
        ask: &QuotaDemand,
        others: &[QuotaDemand],
    ) -> Option<String> {
        let quotas = self.quotas_in(&job.namespace);
        namespace_quota::find_exceeded_quota(quotas.iter().map(AsRef::as_ref), ask, others)
    }

    /// Returns the demands of other gangs that start in the job's namespace, for pods that do not exist
    /// yet.
    pub(crate) fn other_demands(&self, job: &Key) -> Vec<QuotaDemand> {
        self.open_plans
            .other_demands(job, |other, plan| self.remaining_request(other, plan))
    }

    /// Returns the ResourceQuotas of a namespace.
    pub(crate) fn quotas_in(&self, namespace: &str) -> Vec<Arc<ResourceQuota>> {
        let mut quotas = self.context.cache.resource_quotas.all();
        quotas.retain(|quota| quota.metadata.namespace.as_deref() == Some(namespace));
        quotas
    }

    fn remaining_request(&self, job: &Key, plan: &OpenPlan) -> QuotaDemand {
        plan.remaining_demand(&self.context.cache.pods.pods_of_job(job))
    }
}

/// Returns true if the object's controlling owner is the job with this uid.
#[must_use]
pub fn is_owned<K: Resource>(object: &K, uid: &str) -> bool {
    object
        .meta()
        .owner_references
        .iter()
        .flatten()
        .any(|o| o.controller == Some(true) && o.uid == uid)
}

/// Returns true if the child exists, is owned by the job, and is not terminating.
#[must_use]
pub fn is_live_child<K: Resource>(child: Option<&K>, uid: &str) -> bool {
    child.is_some_and(|c| is_owned(c, uid) && c.meta().deletion_timestamp.is_none())
}
