//! A placement becomes pods: preflight, journal (`open`), claims (`bind`), create (`create`),
//! close. What is undone gives back what its claims were bound with (`unbind`). Where others have
//! to leave first, that is written down (`nominate`) once their budgets allow it (`budgets`).
//! Everything else in the operator decides; this writes.

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

use super::preflight::Preflight;
use crate::dispatch::commands::{Commands, WriteError};
use crate::dispatch::context::Context;
use crate::gang::Run;
use crate::gang::admitted::Admitted;
use crate::gang::flavors::Place;
use crate::gang::key::Key;
use crate::gang::namespace_quota;
use crate::gang::namespace_quota::Ask;
use crate::gang::open_plans::{OpenPlan, OpenPlans};

use bind::Promises;
pub use budgets::Kept;
pub use external::{ExternalNomination, ExternalPlan};
pub use fresh::JudgedBy;
pub use nominate::Nomination;

/// What came of a task.
#[derive(Debug)]
pub enum Outcome {
    /// Done: look at the journal again.
    Done,
    /// Admission makes the pods ask for something else, by group: find a place anew.
    Replan(BTreeMap<String, Admitted>),
    /// The gang cannot start, and nothing was promised yet.
    PutOff(Reason, String),
    /// The gang cannot start while a quota of its namespace has no room for
    /// what it asks for. Nothing was promised yet.
    OverQuota(Ask, String),
    /// A budget does not let go who would have to make room for the gang. Nobody
    /// has been told to leave.
    Kept(Kept),
    /// The plan is to be undone.
    Undo(Reason, String),
    /// The same as the other, which is the doing of these nodes: they are kept away from.
    Avoid(Vec<String>, Box<Self>),
    /// Of a pod that others have made and that is alone: these may be told to leave.
    Nominated(Vec<NominatedVictim>),
    /// Try the same again in a while.
    Again(String),
}

impl Outcome {
    /// That a pod was refused, which may be the doing of one node.
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

/// What a task needs.
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

    /// The same, for what lets others go first, and is not written at all if
    /// `stop` comes before its turn ([`Commands::after_others`]).
    fn after_others(&self, stop: &CancellationToken) -> Self {
        Self {
            commands: self.commands.after_others().unless(stop),
            ..self.clone()
        }
    }

    /// What the tasks share: the cache has the newest objects.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The door for writes.
    #[must_use]
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Plans that are being carried out.
    #[must_use]
    pub fn open_plans(&self) -> &OpenPlans {
        &self.open_plans
    }

    /// Carries out a new plan: a place that was found for pods that are as
    /// `planned` says, beside what their flavors bring.
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

    /// The first quota of the job's namespace that has no room for what the
    /// gang asks for, in words.
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

/// True if a child is there: the job's own, and not going.
#[must_use]
pub fn is_there<K: Resource>(child: Option<&K>, uid: &str) -> bool {
    child.is_some_and(|c| is_owned(c, uid) && c.meta().deletion_timestamp.is_none())
}
