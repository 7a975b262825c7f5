//! What policies decide about a job, on what is known of its surroundings: one
//! way for plans and for the tools of those who write policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_api::{TrainingJob, ValidatedJob};
use trellis_compiler::CompiledJob;
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::{JobDecision, NotAuthorized, Policies, Submission};
use trellis_policies::quota::Verdict;

use super::snapshot::Snapshot;
use super::standing::Held;
use crate::controller::build::{Around, later};
use crate::controller::{Standing, lookup};

/// A job, and what is decided about it.
pub(in crate::cli) struct Judged {
    /// What it is compiled into.
    pub(in crate::cli) compiled: CompiledJob,
    /// One decision for each thing that it demands.
    pub(in crate::cli) decision: JobDecision,
    /// What quota policies say of it.
    pub(in crate::cli) verdict: Verdict,
    /// Why nothing starts, whatever they say: a quota policy that takes no effect.
    pub(in crate::cli) unusable: Option<String>,
    /// Why a stage after this one could not run.
    pub(in crate::cli) later: Option<Standing>,
    /// What comes of them.
    pub(in crate::cli) outcome: Result<AuthorizedJob, NotAuthorized>,
}

/// Compiles a job at a stage, from 1, and has the policies decide. `labels` are those of its
/// namespace.
///
/// # Errors
/// If something that it names is not there, so that nobody can say what it becomes.
pub(in crate::cli) fn judge(
    job: ValidatedJob,
    stage: u32,
    submission: &Submission<'_>,
    policies: Option<&Policies>,
    labels: &BTreeMap<String, String>,
    snapshot: &Snapshot,
) -> Result<Judged, Held> {
    let none = BTreeMap::new();
    let queues = snapshot.queues.as_ref().unwrap_or(&none);
    let queue = lookup::queue(
        job.spec().queue.as_deref(),
        labels,
        |name| queues.get(name),
        || queues.values().collect(),
    )?;
    let classes = &snapshot.priority_classes;
    let (class, priority) = lookup::priority(
        job.spec(),
        |name| classes.get(name),
        || classes.values().collect(),
    )?;
    let services = snapshot.services_of(job.namespace());
    let profile = lookup::profile(job.spec(), &snapshot.profiles)?;
    let quotas = snapshot.quotas();
    let around = Around {
        queue,
        class: class.as_deref(),
        priority,
        namespace_labels: labels,
        services: &services,
        profile: profile.as_ref(),
        stage,
        policies,
        quotas: (0, &quotas),
        was_of: None,
        submission: *submission,
    };
    let later = later(&job, &around, &Arc::default()).map(|later| later.standing);
    let compiled = around.compile(job, &Arc::default())?;
    let verdict = around.limit(&compiled);
    let (decision, outcome) = around.authorize(compiled.clone());
    let unusable = quotas
        .unusable()
        .first()
        .map(|(name, why)| format!("quota policy {name:?} does not take effect: {why}"));
    Ok(Judged {
        later,
        unusable,
        compiled,
        decision,
        verdict,
        outcome,
    })
}

/// The attempt that a job is about to make, from 1: `there` is the job in the cluster.
pub(in crate::cli) fn attempt_of(there: Option<&TrainingJob>) -> i64 {
    there.and_then(|j| j.status.as_ref()?.attempt).unwrap_or(1)
}

/// The stage that a job is at, from 1: `there` is the job in the cluster.
pub(in crate::cli) fn stage_of(there: Option<&TrainingJob>) -> u32 {
    let stage = there.and_then(|j| Some(j.status.as_ref()?.stage.as_ref()?.number));
    stage.map_or(1, |stage| u32::try_from(stage).unwrap_or(1))
}
