//! Violations of jobs that run or start in spite of them.

use k8s_openapi::api::core::v1::ObjectReference;
use trellis_api::job::{JobPhase, PolicyDecision, PolicyVerdict, TrainingJobStatus};
use trellis_api::{Enforcement, Reason};
use trellis_gang::key::Key;

use super::Controller;
use super::build::PolicyOutcome;
use super::job_context::JobContext;

impl Controller {
    /// Counts the job at the policies that deny it: at enforced ones if it has pods in spite of
    /// them, and at all others.
    pub(super) fn record_violations(
        &self,
        key: &Key,
        seen: &JobContext,
        decided: Option<&PolicyOutcome>,
    ) {
        let has_pods = seen.has_pods();
        let forbidden = decided.iter().flat_map(|decided| &decided.forbidden);
        let counted = forbidden.filter(|(_, (enforcement, _))| match enforcement {
            Enforcement::Deny => has_pods,
            Enforcement::Warn | Enforcement::Audit => true,
        });
        let denied = counted.map(|(id, (_, words))| (id.clone(), words.clone()));
        let violations = &self.context.cache.policies.violations;
        violations.set(key, denied.collect());
    }

    /// Writes events about policy decisions that do not stop the job, each once.
    pub(super) fn publish_policy_events(
        &self,
        about: ObjectReference,
        before: &TrainingJobStatus,
        after: &TrainingJobStatus,
    ) {
        let Some(now) = &after.policy else { return };
        let none = PolicyVerdict::default();
        let was = before.policy.as_ref().unwrap_or(&none);
        let phase = after.phase.unwrap_or(JobPhase::Queued);
        let tell = |reason, message: String| {
            let chapter = TrainingJobStatus {
                message: Some(message),
                ..TrainingJobStatus::default()
            };
            self.events.publish(about.clone(), phase, reason, &chapter);
        };
        if !now.warnings.is_empty() && now.warnings != was.warnings {
            tell(Reason::PolicyWarning, now.warnings.join("; "));
        }
        let runs = matches!(phase, JobPhase::Starting | JobPhase::Running);
        let denied = now.decision == Some(PolicyDecision::Denied) && was.decision != now.decision;
        if runs && denied {
            tell(Reason::PolicyViolation, violation_message(now));
        }
    }
}

/// Message for a running job that policies no longer allow.
fn violation_message(policy: &PolicyVerdict) -> String {
    let missing = &policy.missing_permits;
    let by = match (policy.policies.as_slice(), missing.as_slice()) {
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
    format!("policies no longer allow what runs: {by}")
}
