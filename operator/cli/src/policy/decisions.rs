//! The decisions about a job, one row for each request.

use std::collections::BTreeMap;

use serde::Serialize;
use trellis_api::{Enforcement, Reason, TrainingJob, ValidatedJob};
use trellis_gang::JobHold;
use trellis_gang::build::NO_LABELS;
use trellis_policies::DenialSource;
use trellis_policies::cedar::{
    DescribedRequest, NotAuthorized, Policies, RequestDecision, RequestVerdict, Requester,
    SubmissionFacts,
};

use crate::plan::existing_job::{current_stage, next_attempt};
use crate::plan::job_judgement::{JudgementContext, StageDecision};
use crate::plan::snapshot::ClusterSnapshot;

/// The outcome for a job or a request.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DecisionOutcome {
    /// Permitted.
    Allowed,
    /// A policy forbids it.
    Forbidden,
    /// No policy permits it.
    NotPermitted,
    /// One of its requests is not allowed, or a fixed rule denies it.
    /// No policy can change a fixed rule.
    Denied,
    /// The decision cannot be made.
    Undecided,
}

impl DecisionOutcome {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Forbidden => "forbidden",
            Self::NotPermitted => "not permitted",
            Self::Denied => "denied",
            Self::Undecided => "undecided",
        }
    }
}

/// One request of a job, and the decision about it.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) struct DemandRow {
    pub(super) action: &'static str,
    /// The resource of the request. Absent: the job itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<String>,
    pub(super) decision: DecisionOutcome,
    /// The policies that decide the request.
    pub(super) policies: Vec<String>,
    /// Reasons for the denial with the fix, or reasons why the decision cannot be made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) because: Vec<String>,
    /// A permit that would allow the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) missing_permit: Option<String>,
    /// Errors in the evaluation of policies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) errors: Vec<String>,
    /// Warn policies that would forbid the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warn: Vec<String>,
    /// Audit policies that would forbid the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) audit: Vec<String>,
}

impl DemandRow {
    fn from_demand(
        demanded: &DescribedRequest,
        decision: &RequestDecision,
        outcome: &StageDecision,
    ) -> Self {
        let because = match &outcome.outcome {
            _ if matches!(decision.verdict, RequestVerdict::Undecided(_)) => {
                decision.undecided_message().into_iter().collect()
            }
            Err(NotAuthorized::Denied(denial)) => {
                let refusals = denial.refusals().iter();
                let about = refusals.filter(|r| demanded.descriptions.contains(&r.demand));
                about.map(ToString::to_string).collect()
            }
            _ => Vec::new(),
        };
        let unenforced_by = |enforcement| {
            let unenforced = decision.unenforced.iter();
            let unenforced = unenforced.filter(move |b| b.enforcement == enforcement);
            unenforced
                .flat_map(|b| b.policies.iter().chain(&b.errors).cloned())
                .collect()
        };
        Self {
            action: demanded.request.action().as_str(),
            resource: demanded.request.describe_resource(),
            decision: match decision.verdict {
                RequestVerdict::Allowed => DecisionOutcome::Allowed,
                RequestVerdict::Forbidden => DecisionOutcome::Forbidden,
                RequestVerdict::NotPermitted => DecisionOutcome::NotPermitted,
                RequestVerdict::Undecided(_) => DecisionOutcome::Undecided,
            },
            policies: decision.policies.clone(),
            because,
            missing_permit: decision.missing_permit.clone(),
            errors: decision.errors.clone(),
            warn: unenforced_by(Enforcement::Warn),
            audit: unenforced_by(Enforcement::Audit),
        }
    }

    /// Describes the request.
    pub(super) fn describe_demand(&self) -> String {
        match &self.resource {
            None => self.action.to_owned(),
            Some(resource) => format!("{} {resource}", self.action),
        }
    }
}

/// A job, and the decision about it.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct DecidedJob {
    /// `<namespace>/<name>`.
    pub(super) job: String,
    pub(super) decision: DecisionOutcome,
    /// Reason why no decision can be made, if the job cannot be compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) because: Option<String>,
    /// Denials by fixed rules, which no policy can change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<String>,
    pub(super) demands: Vec<DemandRow>,
}

/// A job to decide about, with its requester.
pub(super) struct JobToDecide<'a> {
    pub(super) job: &'a TrainingJob,
    /// The same job in the cluster.
    pub(super) in_cluster: Option<&'a TrainingJob>,
    pub(super) requester: Option<&'a Requester>,
}

impl JobToDecide<'_> {
    /// Evaluates the policies for the current stage and all later stages.
    /// The namespace has the labels of `facts`, and those of `extra_labels`.
    ///
    /// # Errors
    /// If the job is invalid, or an object that it refers to does not exist.
    pub(super) fn judge(
        &self,
        policies: &Policies,
        facts: &ClusterSnapshot,
        extra_labels: &BTreeMap<String, String>,
    ) -> Result<Vec<StageDecision>, JobHold> {
        let job = ValidatedJob::try_from(self.job.clone())
            .map_err(|violations| JobHold::refused(Reason::InvalidSpec, violations.to_string()))?;
        let submission = SubmissionFacts {
            labels: self.job.metadata.labels.as_ref().unwrap_or(&NO_LABELS),
            requester: self.requester,
            attempt: next_attempt(self.in_cluster),
        };
        let mut labels = facts.namespace_labels(job.namespace());
        labels.extend(extra_labels.clone());
        let context = JudgementContext {
            submission,
            policies: Some(policies),
            labels: &labels,
            snapshot: facts,
        };
        let now = current_stage(self.in_cluster).min(job.spec().stage_count());
        context.decide(&job, now)
    }

    /// Like `judge`, with the result as rows for the output.
    pub(super) fn decide(&self, policies: &Policies, facts: &ClusterSnapshot) -> DecidedJob {
        let meta = &self.job.metadata;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let job = format!("{}/{}", part(&meta.namespace), part(&meta.name));
        match self.judge(policies, facts, &NO_LABELS) {
            Ok(stages) => DecidedJob::from_stages(job, &stages),
            Err(held) => DecidedJob {
                job,
                decision: DecisionOutcome::Undecided,
                because: Some(format!("{}: {}", held.reason, held.message)),
                rules: Vec::new(),
                demands: Vec::new(),
            },
        }
    }
}

impl DecidedJob {
    /// Adds a row.
    /// A request of several stages has one row, at its first position, with the worst decision.
    fn add_row(&mut self, row: DemandRow) {
        let key = |row: &DemandRow| (row.action, row.resource.clone());
        let mut demands = self.demands.iter_mut();
        match demands.find(|other| key(other) == key(&row)) {
            Some(before) if before.decision < row.decision => *before = row,
            Some(_) => {}
            None => self.demands.push(row),
        }
    }

    fn from_stages(job: String, stages: &[StageDecision]) -> Self {
        let mut decided = Self {
            job,
            decision: DecisionOutcome::Allowed,
            because: None,
            rules: Vec::new(),
            demands: Vec::new(),
        };
        for judged in stages {
            let demands = judged.decision.decisions.iter();
            for (demanded, decision) in demands {
                decided.add_row(DemandRow::from_demand(demanded, decision, judged));
            }
            let decision = match &judged.outcome {
                Ok(_) => DecisionOutcome::Allowed,
                Err(NotAuthorized::Undecided { .. }) => DecisionOutcome::Undecided,
                Err(NotAuthorized::Denied(denial)) => {
                    let refusals = denial.refusals().iter();
                    let of_rules = refusals.filter(|r| matches!(r.source, DenialSource::Rule(_)));
                    decided.rules.extend(of_rules.map(ToString::to_string));
                    DecisionOutcome::Denied
                }
            };
            decided.decision = decided.decision.max(decision);
        }
        decided
    }
}
