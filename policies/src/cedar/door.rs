//! Decides a whole job: all of its requests, and the denial if some are refused.

use trellis_api::Reason;
use trellis_compiler::CompiledJob;

use super::decision::{Decision, Undecided, Verdict};
use super::demands::{self, Demanded, Submission};
use super::set::Policies;
use super::subject::Subject;
use crate::authorize::always;
use crate::denial::told;
use crate::{AuthorizedJob, By, Denial, Facts, Refusal};

/// The decision about a job: one [`Decision`] for each of its demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDecision {
    /// Hash of the policies that decided. None: they have not been read yet.
    pub set: Option<String>,
    /// Each demand of the job, with the decision about it.
    pub decided: Vec<(Demanded, Decision)>,
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
    facts: &Facts<'_>,
    submission: &Submission<'_>,
) -> (JobDecision, Result<AuthorizedJob, NotAuthorized>) {
    let decision = decide_job(policies, &job, facts, submission);
    let outcome = match (judge(&decision, always(&job, facts)), policies) {
        (Err(not), _) => Err(not),
        (Ok(()), Some(policies)) => Ok(AuthorizedJob::new(job, policies, submission.attempt)),
        (Ok(()), None) => Err(not_synced()),
    };
    (decision, outcome)
}

/// Combines the policies' decision with the refusals that no policy can lift.
pub(super) fn judge(
    decision: &JobDecision,
    mut refusals: Vec<Refusal>,
) -> Result<(), NotAuthorized> {
    refusals.extend(decision.decided.iter().flat_map(refused));
    refusals.sort_by(|a, b| (&a.by, &a.demand).cmp(&(&b.by, &b.demand)));
    // A demand that a rule and a policy both refuse is reported once.
    let mut said = std::collections::BTreeSet::new();
    refusals.retain(|refusal| said.insert(refusal.demand.clone()));
    match (Denial::new(refusals), undecided(decision)) {
        (Some(denial), _) => Err(NotAuthorized::Denied(denial)),
        (None, Some(undecided)) => Err(undecided),
        (None, None) => Ok(()),
    }
}

/// The answer for every job before the policies have been read.
pub(super) fn not_synced() -> NotAuthorized {
    NotAuthorized::Undecided {
        reason: Undecided::NotSynced.reason(),
        message: Undecided::NotSynced.to_string(),
    }
}

/// Decides on a job by policies, and authorizes nothing.
#[must_use]
pub fn decide_job(
    policies: Option<&Policies>,
    job: &CompiledJob,
    facts: &Facts<'_>,
    submission: &Submission<'_>,
) -> JobDecision {
    let demanded = demands::of_job(job, facts);
    let subject = Subject {
        namespace: job.job().namespace(),
        labels: facts.namespace_labels,
    };
    let about = demands::about(job, submission);
    let decisions = match policies {
        Some(policies) => policies.decide(&subject, &about, demanded.iter().map(|d| &d.ask)),
        None => vec![Decision::undecided(Undecided::NotSynced); demanded.len()],
    };
    JobDecision {
        set: policies.map(|policies| policies.hash().to_owned()),
        decided: demanded.into_iter().zip(decisions).collect(),
    }
}

fn refused((demanded, decision): &(Demanded, Decision)) -> Vec<Refusal> {
    let remedy = &demanded.remedy;
    let (by, remedy) = match &decision.verdict {
        Verdict::Allowed | Verdict::Undecided(_) => return Vec::new(),
        Verdict::Forbidden => (
            By::Policies(decision.policies.clone()),
            format!("{remedy}, or ask whoever owns the policy"),
        ),
        Verdict::NotPermitted => {
            let hint = decision.hint.as_deref().unwrap_or("a permit");
            (By::NoPermit, format!("{remedy}, or ask for {hint}"))
        }
    };
    let one = |demand: &String| Refusal {
        by: by.clone(),
        demand: demand.clone(),
        remedy: remedy.clone(),
    };
    demanded.words.iter().map(one).collect()
}

/// The causes that keep the policies from deciding, each once.
fn undecided(decision: &JobDecision) -> Option<NotAuthorized> {
    let mut causes = std::collections::BTreeSet::new();
    let mut reason = None;
    for (_, decision) in &decision.decided {
        if let Verdict::Undecided(why) = &decision.verdict {
            reason = reason.or_else(|| Some(why.reason()));
            causes.extend(decision.why_undecided());
        }
    }
    let message = told(&causes.into_iter().collect::<Vec<_>>(), "; ");
    reason.map(|reason| NotAuthorized::Undecided { reason, message })
}
