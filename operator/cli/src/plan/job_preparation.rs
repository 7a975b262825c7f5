//! Prepares a job for placement with the operator's own steps.
//! Nothing is written.

use std::collections::BTreeMap;

use trellis_api::{Reason, TrainingJob, ValidatedJob};
use trellis_compiler::CompiledJob;
use trellis_gang::JobHold;
use trellis_gang::build::NO_LABELS;
use trellis_gang::quota::JobLimits;
use trellis_gang::requirements::claims;
use trellis_gang::requirements::volumes::VolumeRequirements;
use trellis_plan::{check_root, hold_without_policies};
use trellis_policies::{AuthorizedJob, cedar};

use super::existing_job::{current_stage, next_attempt};
use super::job_judgement::JudgementContext;
use super::snapshot::ClusterSnapshot;

/// Inputs for the placement of a job that may run.
#[derive(Clone, Default)]
pub(crate) struct PlacementInputs {
    /// Node requirements of its volumes.
    pub(crate) volumes: VolumeRequirements,
    /// Limits that it counts against.
    pub(crate) limits: JobLimits,
    /// The words of policies that deny it new nodes, by flavor.
    pub(crate) denied_node_orders: BTreeMap<String, String>,
}

/// Compiles the job as far as possible, and decides whether it may be placed.
/// `requester` submits the job; None: the requester is unknown.
pub(crate) fn prepare_job(
    mut job: TrainingJob,
    existing: Option<&TrainingJob>,
    requester: Option<&cedar::Requester>,
    snapshot: &ClusterSnapshot,
) -> (Option<CompiledJob>, Result<PlacementInputs, JobHold>) {
    // Only the cluster knows the uid and generation. The values in a file are ignored.
    job.metadata.uid = existing.and_then(|j| j.metadata.uid.clone());
    job.metadata.generation = existing.and_then(|j| j.metadata.generation);
    let labels = job.metadata.labels.clone();
    let labels = labels.as_ref().unwrap_or(&NO_LABELS);
    let submission = cedar::SubmissionFacts {
        labels,
        requester,
        attempt: next_attempt(existing),
    };
    let job = match ValidatedJob::try_from(job) {
        Ok(job) => job,
        Err(violations) => {
            let hold = JobHold::refused(Reason::InvalidSpec, violations.to_string());
            return (None, Err(hold));
        }
    };
    let hold = hold_without_policies(job.spec(), existing);
    let (compiled, inputs) = authorize(job, current_stage(existing), submission, snapshot);
    let hold = hold.map_or(inputs, Err);
    (compiled, hold)
}

fn authorize(
    job: ValidatedJob,
    stage: u32,
    submission: cedar::SubmissionFacts<'_>,
    snapshot: &ClusterSnapshot,
) -> (Option<CompiledJob>, Result<PlacementInputs, JobHold>) {
    let namespace = job.namespace().to_owned();
    let labels = snapshot.namespace_labels(&namespace);
    let context = JudgementContext {
        submission,
        policies: snapshot.policies.loaded(),
        labels: &labels,
        snapshot,
    };
    let judged = match context.judge(&job, stage) {
        Ok(judged) => judged,
        Err(held) => return (None, Err(held)),
    };
    let (compiled, verdict) = (judged.compiled, judged.verdict);
    let inputs = judged
        .result
        .and_then(|job| Ok((find_volumes(&job, snapshot)?, job)))
        .and_then(|(volumes, job)| {
            check_root(&compiled, &labels)?;
            let limits = JobLimits {
                draws: verdict.draws,
                ..JobLimits::default()
            };
            Ok(PlacementInputs {
                volumes,
                limits,
                denied_node_orders: job.denied_node_orders().clone(),
            })
        });
    (Some(compiled), inputs)
}

/// Finds the nodes that reach the volumes of the job's claims.
/// Without any claims in the input, every node can reach them.
fn find_volumes(
    job: &AuthorizedJob,
    snapshot: &ClusterSnapshot,
) -> Result<VolumeRequirements, JobHold> {
    if snapshot.claims.is_none() {
        return Ok(VolumeRequirements::default());
    }
    let profile = job.compiled().profile().map(|profile| profile.spec());
    let job = job.compiled().job();
    // The spec contains only one stage.
    let storage = snapshot.storage(job.namespace());
    claims::find_volumes(job.spec(), 1, profile, &storage, false)
}
