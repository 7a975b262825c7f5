//! Turns a placement into pods: preflight, journal (`open`), claims (`bind`), pods (`create`),
//! close. A rollback takes back from the claims what they were bound with (`unbind`). If victims
//! have to leave first, a nomination is written to the journal (`nominate`) once their disruption
//! budgets allow it (`budgets`). Everything else in the operator decides; this module writes.

mod bind;
mod budgets;
mod children;
mod create;
mod delete;
mod elsewhere;
mod evict;
mod external;
mod fill;
mod fresh;
mod nominate;
mod open;
mod tell;
mod unbind;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Resource;
use tokio_util::sync::CancellationToken;
use trellis_api::Reason;
use trellis_api::pod_group::NominatedVictim;
use trellis_cache::Cache;
use trellis_gang::admitted::Admitted;
use trellis_gang::flavors::Place;
use trellis_gang::key::Key;
use trellis_gang::namespace_quota::Ask;
use trellis_gang::open_plans::{OpenPlan, OpenPlans};
use trellis_gang::{Run, namespace_quota};

use super::preflight::Preflight;
use crate::commands::{Commands, WriteError};
use crate::context::Context;
use bind::Promises;
pub use budgets::Kept;
pub use external::{ExternalNomination, ExternalPlan};
pub use fresh::JudgedBy;
pub use nominate::Nomination;

/// Result of a task.
#[derive(Debug)]
pub enum Outcome {
    /// Done: read the journal again.
    Done,
    /// Admission changes the pods' requests, by group: find another place.
    Replan(BTreeMap<String, Admitted>),
    /// The gang cannot start, and nothing is promised yet.
    PutOff(Reason, String),
    /// The gang cannot start while a ResourceQuota of its namespace has no room for its request.
    /// Nothing is promised yet.
    OverQuota(Ask, String),
    /// A PodDisruptionBudget forbids the eviction of a victim. No victim has been asked to leave.
    Kept(Kept),
    /// Roll the plan back.
    Undo(Reason, String),
    /// The inner outcome, which these nodes caused: avoid them.
    Avoid(Vec<String>, Box<Self>),
    /// The victims of a single external pod, which may now be asked to leave.
    Nominated(Vec<NominatedVictim>),
    /// Try again in a while.
    Again(String),
}

impl Outcome {
    /// Adds the node that may have caused the refusal of a pod.
    fn because_of(self, node: Option<String>) -> Self {
        match node {
            Some(node) => Self::Avoid(vec![node], Box::new(self)),
            None => self,
        }
    }
}

impl From<WriteError> for Outcome {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::NotWanted => Self::Done,
            error => Self::Again(error.to_string()),
        }
    }
}

/// Clients and caches that tasks need.
#[derive(Clone)]
pub struct Committer {
    context: Arc<Context>,
    commands: Commands,
    preflight: Arc<Preflight>,
    open_plans: Arc<OpenPlans>,
    promises: Arc<Promises>,
}

impl Committer {
    /// A committer for one leader.
    #[must_use]
    pub fn new(context: Arc<Context>, commands: Commands) -> Self {
        Self {
            context,
            commands,
            preflight: Arc::default(),
            open_plans: Arc::default(),
            promises: Arc::default(),
        }
    }

    /// The same committer, for writes that wait for other gangs, and that are dropped if `stop` is
    /// cancelled before their turn ([`Commands::after_others`]).
    fn after_others(&self, stop: &CancellationToken) -> Self {
        Self {
            commands: self.commands.after_others().unless(stop),
            ..self.clone()
        }
    }

    /// Objects of the cluster as the watches have shown them.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.context.cache
    }

    /// Context that tasks share.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Client for writes.
    #[must_use]
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Plans that are being carried out.
    #[must_use]
    pub fn open_plans(&self) -> &OpenPlans {
        &self.open_plans
    }

    /// Carries out a new plan. `planned` is what the place was found for: the pods as admission
    /// leaves them, without what their flavors add.
    pub async fn commit(
        &self,
        job: Key,
        run: Arc<Run>,
        place: Place,
        planned: BTreeMap<String, Admitted>,
        stop: CancellationToken,
    ) -> Outcome {
        let _promise = self.promises.of(&job);
        match self.open(&job, &run, &place, planned, &stop).await {
            Ok((plan, counted)) => self.create(&job, &run, &plan, &counted, &stop).await,
            Err(outcome) => outcome,
        }
    }

    /// Describes the first ResourceQuota of the job's namespace that has no room for the gang's
    /// request.
    #[must_use]
    pub fn over_quota(&self, job: &Key, ask: &Ask) -> Option<String> {
        let others = self.open_plans.others(job, |o, plan| self.rest(o, plan));
        self.exceeded(job, ask, &others)
    }

    fn exceeded(&self, job: &Key, ask: &Ask, others: &[Ask]) -> Option<String> {
        let all = self.context.cache.resource_quotas.all();
        let here = |q: &&ResourceQuota| q.metadata.namespace.as_deref() == Some(&*job.namespace);
        namespace_quota::exceeded(all.iter().map(AsRef::as_ref).filter(here), ask, others)
    }

    fn rest(&self, job: &Key, plan: &OpenPlan) -> Ask {
        plan.rest(&self.context.cache.pods.of(job))
    }
}

/// True if the object's controlling owner is the job of that uid.
#[must_use]
pub fn is_owned<K: Resource>(object: &K, uid: &str) -> bool {
    object
        .meta()
        .owner_references
        .iter()
        .flatten()
        .any(|o| o.controller == Some(true) && o.uid == uid)
}

/// True if a child exists: it is owned by the job and not terminating.
#[must_use]
pub fn is_there<K: Resource>(child: Option<&K>, uid: &str) -> bool {
    child.is_some_and(|c| is_owned(c, uid) && c.meta().deletion_timestamp.is_none())
}
