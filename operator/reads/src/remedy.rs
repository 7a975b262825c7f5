//! Advice for the state of a job. Pure.

use trellis_api::Reason;
use trellis_api::job::{JobPhase, PolicyDecision, TrainingJobStatus};

/// Returns the advice for a reason. Empty: there is nothing to do, and nothing to say about it.
///
/// If changed policies deny a running job, it contains advice about them too, because the reason
/// does not mention them.
#[must_use]
pub fn remedy(status: Option<&TrainingJobStatus>, reason: Option<Reason>) -> String {
    let violates = status.is_some_and(|status| {
        let runs = matches!(status.phase, Some(JobPhase::Starting | JobPhase::Running));
        let policy = status.policy.as_ref();
        runs && policy.is_some_and(|policy| policy.decision == Some(PolicyDecision::Denied))
    });
    let fix = reason.map(Reason::remedy).filter(|fix| *fix != "Nothing.");
    let fix = fix.unwrap_or_default();
    let denied = Reason::PolicyViolation.remedy();
    if !violates {
        return fix.to_owned();
    }
    // The policies need action, so the text must not begin with "Nothing".
    let rest = fix.strip_prefix("Nothing").unwrap_or(fix);
    match rest.trim_start_matches(['.', ';', ':', ' ']) {
        "" => denied.to_owned(),
        rest => format!("{denied} Besides: {rest}"),
    }
}
