//! Decides a whole job: all of its requests, and the denial if some are refused.

use std::collections::BTreeMap;

use trellis_api::Reason;
use trellis_compiler::CompiledJob;

use super::evaluation::{RequestDecision, RequestVerdict, UndecidedReason};
use super::job_requests::{self, DescribedRequest, SubmissionFacts};
use super::request::{PolicyRequest, RequestingNamespace};
use super::set::Policies;
use crate::authorize::fixed_refusals;
use crate::denial::join_first;
use crate::{AuthorizedJob, ClusterFacts, Denial, DenialSource, Refusal};

/// The decision about a job: one [`RequestDecision`] for each of its demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDecision {
    /// Hash of the policies that decided. None: they have not been read yet.
    pub set_hash: Option<String>,
    /// Each demand of the job, with the decision about it.
    pub decisions: Vec<(DescribedRequest, RequestDecision)>,
}

impl JobDecision {
    /// Returns the demands without which the job does not run.
    pub(super) fn required(&self) -> impl Iterator<Item = &(DescribedRequest, RequestDecision)> {
        let decisions = self.decisions.iter();
        decisions.filter(|(demanded, _)| !demanded.request.is_optional())
    }

    /// Returns the flavors of which the job gets no new nodes, and why.
    fn denied_node_orders(&self) -> BTreeMap<String, String> {
        let decisions = self.decisions.iter();
        decisions
            .filter(|(_, decision)| !decision.is_allowed())
            .filter_map(|decided| {
                let (demanded, decision) = decided;
                let PolicyRequest::ProvisionNodes(flavor) = &demanded.request else {
                    return None;
                };
                let refusals = refusals_from_decision(decided).into_iter();
                let why = refusals.map(|refusal| refusal.to_string()).next();
                let why = why.or_else(|| decision.undecided_message());
                Some((flavor.clone(), why.unwrap_or_default()))
            })
            .collect()
    }
}

/// A job that may not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAuthorized {
    /// It is refused, until the job or a policy changes.
    Denied(Denial),
    /// The policies cannot decide yet, so the job waits.
    Undecided {
        /// The reason, as a condition bears it.
        reason: Reason,
        /// The reason in words.
        message: String,
    },
}

impl NotAuthorized {
    /// The reason, as a condition bears it.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Denied(_) => Reason::PolicyDenied,
            Self::Undecided { reason, .. } => *reason,
        }
    }
}

impl std::fmt::Display for NotAuthorized {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Denied(denial) => denial.fmt(f),
            Self::Undecided { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for NotAuthorized {}

/// Decides by policies whether a job may run: on each of its demands, and on its final pods.
/// Without `policies`, that is before they have been read, nothing is allowed.
///
/// No policy can permit priorities reserved for the system, or the use of `facts` about another
/// queue or namespace.
///
/// # Errors
/// Lists every denied or undecided demand. The returned decision holds the rest.
pub fn authorize(
    policies: Option<&Policies>,
    job: CompiledJob,
    facts: &ClusterFacts<'_>,
    submission: &SubmissionFacts<'_>,
) -> (JobDecision, Result<AuthorizedJob, NotAuthorized>) {
    let decision = decide_job(policies, &job, facts, submission);
    let outcome = match (
        combine_refusals(&decision, fixed_refusals(&job, facts)),
        policies,
    ) {
        (Err(not), _) => Err(not),
        (Ok(()), Some(policies)) => {
            let denied = decision.denied_node_orders();
            Ok(AuthorizedJob::new(
                job,
                policies,
                submission.attempt,
                denied,
            ))
        }
        (Ok(()), None) => Err(not_synced_error()),
    };
    (decision, outcome)
}

/// Combines the policies' decision with the refusals that no policy can lift.
pub(super) fn combine_refusals(
    decision: &JobDecision,
    mut refusals: Vec<Refusal>,
) -> Result<(), NotAuthorized> {
    refusals.extend(decision.required().flat_map(refusals_from_decision));
    refusals.sort_by(|a, b| (&a.source, &a.demand).cmp(&(&b.source, &b.demand)));
    // A demand that a rule and a policy both refuse is reported once.
    let mut reported = std::collections::BTreeSet::new();
    refusals.retain(|refusal| reported.insert(refusal.demand.clone()));
    match (Denial::new(refusals), undecided_error(decision)) {
        (Some(denial), _) => Err(NotAuthorized::Denied(denial)),
        (None, Some(undecided)) => Err(undecided),
        (None, None) => Ok(()),
    }
}

/// The answer for every job before the policies have been read.
pub(super) fn not_synced_error() -> NotAuthorized {
    NotAuthorized::Undecided {
        reason: UndecidedReason::NotSynced.reason(),
        message: UndecidedReason::NotSynced.to_string(),
    }
}

/// Decides on a job by policies, and authorizes nothing.
#[must_use]
pub fn decide_job(
    policies: Option<&Policies>,
    job: &CompiledJob,
    facts: &ClusterFacts<'_>,
    submission: &SubmissionFacts<'_>,
) -> JobDecision {
    let demanded = job_requests::collect_requests(job, facts);
    let subject = RequestingNamespace {
        namespace: job.job().namespace(),
        labels: facts.namespace_labels,
    };
    let about = job_requests::job_attributes(job, submission);
    let decisions = match policies {
        Some(policies) => policies.decide(&subject, &about, demanded.iter().map(|d| &d.request)),
        None => vec![RequestDecision::from_undecided(UndecidedReason::NotSynced); demanded.len()],
    };
    JobDecision {
        set_hash: policies.map(|policies| policies.hash().to_owned()),
        decisions: demanded.into_iter().zip(decisions).collect(),
    }
}

fn refusals_from_decision(
    (demanded, decision): &(DescribedRequest, RequestDecision),
) -> Vec<Refusal> {
    let remedy = &demanded.remedy;
    let (source, remedy) = match &decision.verdict {
        RequestVerdict::Allowed | RequestVerdict::Undecided(_) => return Vec::new(),
        RequestVerdict::Forbidden => (
            DenialSource::Policies(decision.policies.clone()),
            format!("{remedy}, or ask the owner of the policy"),
        ),
        RequestVerdict::NotPermitted => {
            let hint = decision.missing_permit.as_deref().unwrap_or("a permit");
            (
                DenialSource::NoPermit,
                format!("{remedy}, or ask for {hint}"),
            )
        }
    };
    let one = |demand: &String| Refusal {
        source: source.clone(),
        demand: demand.clone(),
        remedy: remedy.clone(),
    };
    demanded.descriptions.iter().map(one).collect()
}

/// The causes that keep the policies from deciding, each once.
fn undecided_error(decision: &JobDecision) -> Option<NotAuthorized> {
    let mut causes = std::collections::BTreeSet::new();
    let mut reason = None;
    for (_, decision) in decision.required() {
        if let RequestVerdict::Undecided(why) = &decision.verdict {
            reason = reason.or_else(|| Some(why.reason()));
            causes.extend(decision.undecided_message());
        }
    }
    let message = join_first(&causes.into_iter().collect::<Vec<_>>(), "; ");
    reason.map(|reason| NotAuthorized::Undecided { reason, message })
}
