//! Evaluates policies for a job with the known facts of the cluster.
//! `trellis plan` and the tools for policy authors share this code.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_api::{ResolvedJob, ValidatedJob};
use trellis_compiler::CompiledJob;
use trellis_gang::build::{BuildContext, find_blocked_stage};
use trellis_gang::key::Key;
use trellis_gang::{JobHold, lookup};
use trellis_plan::current_plan;
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::{JobDecision, NotAuthorized, Policies, SubmissionFacts};
use trellis_policies::quota::QuotaVerdict;

use super::snapshot::ClusterSnapshot;

/// The result for one stage of a job.
pub(crate) struct JobJudgement {
    /// The compiled job.
    pub(crate) compiled: CompiledJob,
    /// The verdict of the quota policies.
    pub(crate) verdict: QuotaVerdict,
    /// The job, if this stage and all later stages may run.
    pub(crate) result: Result<AuthorizedJob, JobHold>,
}

/// The decisions of the policies about one stage of a job.
pub(crate) struct StageDecision {
    /// One decision for each request of the job.
    pub(crate) decision: JobDecision,
    /// The combined result of the decisions.
    pub(crate) outcome: Result<AuthorizedJob, NotAuthorized>,
}

/// The facts that decide about a job. `labels` are the labels of its namespace.
#[derive(Clone, Copy)]
pub(crate) struct JudgementContext<'a> {
    pub(crate) submission: SubmissionFacts<'a>,
    pub(crate) policies: Option<&'a Policies>,
    pub(crate) labels: &'a BTreeMap<String, String>,
    pub(crate) snapshot: &'a ClusterSnapshot,
}

impl JudgementContext<'_> {
    /// Compiles a job at a stage, counted from 1.
    /// Returns the result for this stage and the stages after it.
    ///
    /// # Errors
    /// If an object that the job refers to does not exist, so that the job cannot be compiled.
    pub(crate) fn judge(&self, job: &ValidatedJob, stage: u32) -> Result<JobJudgement, JobHold> {
        self.with_stage(job, stage, |job, context| {
            let compiled = context.compile(job.clone(), &Arc::default())?;
            let verdict = context.limit(&compiled);
            let (_, outcome) = context.authorize(compiled.clone());
            let result = context
                .combine_decisions(outcome, &verdict)
                .and_then(|authorized| {
                    let later = find_blocked_stage(job, context, &Arc::default());
                    later.map_or(Ok(authorized), |later| Err(later.hold))
                });
            Ok(JobJudgement {
                compiled,
                verdict,
                result,
            })
        })
    }

    /// Evaluates the policies for a stage of a job and for every later stage.
    /// Stages count from 1.
    ///
    /// # Errors
    /// If an object that the job refers to does not exist, so that the job cannot be compiled.
    pub(crate) fn decide(
        &self,
        job: &ValidatedJob,
        stage: u32,
    ) -> Result<Vec<StageDecision>, JobHold> {
        self.with_stage(job, stage, |job, now| {
            let decide = |stage| {
                let context = now.at_stage(stage);
                let compiled = context.compile(job.clone(), &Arc::default())?;
                let (decision, outcome) = context.authorize(compiled);
                Ok(StageDecision { decision, outcome })
            };
            (stage..=job.job().spec().stage_count())
                .map(decide)
                .collect()
        })
    }

    fn with_stage<T>(
        &self,
        job: &ValidatedJob,
        stage: u32,
        ask: impl FnOnce(&ResolvedJob, &BuildContext<'_>) -> Result<T, JobHold>,
    ) -> Result<T, JobHold> {
        let snapshot = self.snapshot;
        let none = BTreeMap::new();
        let queues = snapshot.queues.as_ref().unwrap_or(&none);
        let queue = lookup::resolve_queue(
            job.spec().queue_name.as_deref(),
            self.labels,
            |name| queues.get(name),
            || queues.values().collect(),
        )?;
        let classes = &snapshot.priority_classes;
        let (class, priority) = lookup::find_priority(
            job.spec(),
            |name| classes.get(name),
            || classes.values().collect(),
        )?;
        let services = snapshot.services_in(job.namespace());
        let profile = snapshot.profiles.find_for_job(job.spec())?;
        let key = Key::new(job.namespace(), job.name());
        let place = snapshot.pod_groups.get(&key).and_then(current_plan);
        let placed = place.filter(|plan| plan.attempt == self.submission.attempt);
        let queue_resources = match placed {
            Some(plan) => lookup::placed_resources(plan),
            None => lookup::find_queue_resources(queue, |name| queues.get(name)),
        };
        let quotas = snapshot.to_quota_policies();
        let context = BuildContext {
            queue,
            queue_resources: &queue_resources,
            class: class.as_deref(),
            priority,
            namespace_labels: self.labels,
            services: &services,
            profile: profile.as_ref(),
            stage,
            policies: self.policies,
            quotas: (0, &quotas),
            plan_requester: None,
            submission: self.submission,
        };
        ask(&context.resolve(job.clone())?, &context)
    }
}
