//! Policy violations of jobs that run or start in spite of them.

use k8s_openapi::api::core::v1::ObjectReference;
use trellis_api::job::{JobPhase, PolicyDecision, PolicyVerdict, TrainingJobStatus};
use trellis_api::{Enforcement, Reason};
use trellis_gang::key::Key;

use crate::Controller;
use crate::build::PolicyOutcome;
use crate::job_context::JobContext;

impl Controller {
    /// Counts the job as a violation of each policy that denies it. A policy with enforcement Deny
    /// counts only jobs with pods.
    pub(crate) fn record_violations(
        &self,
        key: &Key,
        job_context: &JobContext,
        policy_outcome: Option<&PolicyOutcome>,
    ) {
        let has_pods = job_context.has_pods();
        let forbidden = policy_outcome
            .iter()
            .flat_map(|policy_outcome| &policy_outcome.forbidden);
        let violated = forbidden.filter(|(_, (enforcement, _))| match enforcement {
            Enforcement::Deny => has_pods,
            Enforcement::Warn | Enforcement::Audit => true,
        });
        let denied = violated.map(|(id, (_, demand))| (id.clone(), demand.clone()));
        let violations = &self.context.cache.policies.violations;
        violations.set(key, denied.collect());
    }

    /// Publishes each policy decision that does not stop the job as one event.
    pub(crate) fn publish_policy_events(
        &self,
        job: ObjectReference,
        before: &TrainingJobStatus,
        after: &TrainingJobStatus,
    ) {
        let Some(verdict) = &after.policy else { return };
        let no_verdict = PolicyVerdict::default();
        let previous = before.policy.as_ref().unwrap_or(&no_verdict);
        let phase = after.phase.unwrap_or(JobPhase::Queued);
        let publish = |reason, message: String| {
            let status = TrainingJobStatus {
                message: Some(message),
                ..TrainingJobStatus::default()
            };
            self.events.publish(job.clone(), phase, reason, &status);
        };
        if !verdict.warnings.is_empty() && verdict.warnings != previous.warnings {
            publish(Reason::PolicyWarning, verdict.warnings.join("; "));
        }
        let runs = matches!(phase, JobPhase::Starting | JobPhase::Running);
        let denied = verdict.decision == Some(PolicyDecision::Denied)
            && previous.decision != verdict.decision;
        if runs && denied {
            publish(Reason::PolicyViolation, violation_message(verdict));
        }
    }
}

/// Returns the message for a running job that policies no longer allow.
fn violation_message(policy: &PolicyVerdict) -> String {
    let missing = &policy.missing_permits;
    let cause = match (policy.policies.as_slice(), missing.as_slice()) {
        ([], []) => "a rule denies it".to_owned(),
        ([], missing) => format!(
            "no policy permits it any more: missing {}",
            missing.join(" ")
        ),
        (ids, _) => {
            let ids: Vec<_> = ids.iter().map(|id| format!("{id:?}")).collect();
            format!("forbidden by {}", ids.join(", "))
        }
    };
    format!("policies no longer allow what runs: {cause}")
}
