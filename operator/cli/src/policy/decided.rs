//! What is decided about a job, thing by thing, as it is shown.

use std::collections::BTreeMap;

use serde::Serialize;
use trellis_api::{Enforcement, Reason, TrainingJob, ValidatedJob};
use trellis_gang::Held;
use trellis_gang::build::NO_LABELS;
use trellis_policies::By;
use trellis_policies::cedar::{
    Decision, Demanded, NotAuthorized, Policies, Requester, Submission, Verdict,
};

use crate::plan::judge::{Court, StageDecision, attempt_of, stage_of};
use crate::plan::snapshot::Snapshot;

/// What comes of a job or a demand.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// It may.
    Allowed,
    /// A policy forbids it.
    Forbidden,
    /// No policy permits it.
    NotPermitted,
    /// It may not, for one of its demands or by a rule that no policy can change.
    Denied,
    /// Nobody can say.
    Undecided,
}

impl Outcome {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Forbidden => "forbidden",
            Self::NotPermitted => "not permitted",
            Self::Denied => "denied",
            Self::Undecided => "undecided",
        }
    }
}

/// One thing that a job asks for, and what is decided about it.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) action: &'static str,
    /// On what. Absent: on the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<String>,
    pub(super) decision: Outcome,
    /// The policies that decide it.
    pub(super) policies: Vec<String>,
    /// Why it may not and the way out, or why nobody can say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) because: Vec<String>,
    /// The permit that would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) missing_permit: Option<String>,
    /// What could not be evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) errors: Vec<String>,
    /// Warn policies that would forbid it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warn: Vec<String>,
    /// Audit policies that would forbid it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) audit: Vec<String>,
}

impl Row {
    fn of(demanded: &Demanded, decision: &Decision, outcome: &StageDecision) -> Self {
        let because = match &outcome.outcome {
            _ if matches!(decision.verdict, Verdict::Undecided(_)) => {
                decision.why_undecided().into_iter().collect()
            }
            Err(NotAuthorized::Denied(denial)) => {
                let refusals = denial.refusals().iter();
                let about = refusals.filter(|r| demanded.words.contains(&r.demand));
                about.map(ToString::to_string).collect()
            }
            _ => Vec::new(),
        };
        let beside = |enforcement| {
            let of = decision.beside.iter();
            let of = of.filter(move |b| b.enforcement == enforcement);
            of.flat_map(|b| b.policies.iter().chain(&b.errors).cloned())
                .collect()
        };
        Self {
            action: demanded.ask.action().as_str(),
            resource: demanded.ask.resource(),
            decision: match decision.verdict {
                Verdict::Allowed => Outcome::Allowed,
                Verdict::Forbidden => Outcome::Forbidden,
                Verdict::NotPermitted => Outcome::NotPermitted,
                Verdict::Undecided(_) => Outcome::Undecided,
            },
            policies: decision.policies.clone(),
            because,
            missing_permit: decision.hint.clone(),
            errors: decision.errors.clone(),
            warn: beside(Enforcement::Warn),
            audit: beside(Enforcement::Audit),
        }
    }

    /// What is asked, in words.
    pub(super) fn asked(&self) -> String {
        match &self.resource {
            None => self.action.to_owned(),
            Some(resource) => format!("{} {resource}", self.action),
        }
    }
}

/// A job, and what is decided about it.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Decided {
    /// `<namespace>/<name>`.
    pub(super) job: String,
    pub(super) decision: Outcome,
    /// Why nobody can say, where the job cannot even be put together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) because: Option<String>,
    /// What rules deny that no policy can change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<String>,
    pub(super) demands: Vec<Row>,
}

/// Who asks for a job, and on what ground.
pub(super) struct Asked<'a> {
    pub(super) job: &'a TrainingJob,
    /// The same in the cluster.
    pub(super) there: Option<&'a TrainingJob>,
    pub(super) requester: Option<&'a Requester>,
}

impl Asked<'_> {
    /// Has policies decide about the stage that it is at, and all that come. The namespace has
    /// the labels that the facts know of, and `more`.
    ///
    /// # Errors
    /// If the job is none, or something that it names is not there.
    pub(super) fn judge(
        &self,
        policies: &Policies,
        facts: &Snapshot,
        more: &BTreeMap<String, String>,
    ) -> Result<Vec<StageDecision>, Held> {
        let job = ValidatedJob::try_from(self.job.clone())
            .map_err(|violations| Held::refused(Reason::InvalidSpec, violations.to_string()))?;
        let submission = Submission {
            labels: self.job.metadata.labels.as_ref().unwrap_or(&NO_LABELS),
            requester: self.requester,
            attempt: attempt_of(self.there),
        };
        let mut labels = facts.namespace_labels(job.namespace());
        labels.extend(more.clone());
        let court = Court {
            submission,
            policies: Some(policies),
            labels: &labels,
            snapshot: facts,
        };
        let now = stage_of(self.there).min(job.spec().stages());
        court.decide(&job, now)
    }

    /// The same as it is shown.
    pub(super) fn decide(&self, policies: &Policies, facts: &Snapshot) -> Decided {
        let meta = &self.job.metadata;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let job = format!("{}/{}", part(&meta.namespace), part(&meta.name));
        match self.judge(policies, facts, &NO_LABELS) {
            Ok(stages) => Decided::of(job, &stages),
            Err(held) => Decided {
                job,
                decision: Outcome::Undecided,
                because: Some(format!("{}: {}", held.reason, held.message)),
                rules: Vec::new(),
                demands: Vec::new(),
            },
        }
    }
}

impl Decided {
    /// What several stages ask for stands once, where the first does: with the worse decision.
    fn add(&mut self, row: Row) {
        let of = |row: &Row| (row.action, row.resource.clone());
        let mut demands = self.demands.iter_mut();
        match demands.find(|other| of(other) == of(&row)) {
            Some(before) if before.decision < row.decision => *before = row,
            Some(_) => {}
            None => self.demands.push(row),
        }
    }

    fn of(job: String, stages: &[StageDecision]) -> Self {
        let mut decided = Self {
            job,
            decision: Outcome::Allowed,
            because: None,
            rules: Vec::new(),
            demands: Vec::new(),
        };
        for judged in stages {
            let demands = judged.decision.decided.iter();
            for (demanded, decision) in demands {
                decided.add(Row::of(demanded, decision, judged));
            }
            let decision = match &judged.outcome {
                Ok(_) => Outcome::Allowed,
                Err(NotAuthorized::Undecided { .. }) => Outcome::Undecided,
                Err(NotAuthorized::Denied(denial)) => {
                    let refusals = denial.refusals().iter();
                    let of_rules = refusals.filter(|r| matches!(r.by, By::Rule(_)));
                    decided.rules.extend(of_rules.map(ToString::to_string));
                    Outcome::Denied
                }
            };
            decided.decision = decided.decision.max(decision);
        }
        decided
    }
}
