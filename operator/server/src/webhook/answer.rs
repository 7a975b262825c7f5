//! Answers to reviews: a request passes, perhaps with warnings, or is refused with a reason.

use kube::core::Status;
use kube::core::admission::AdmissionResponse;
use trellis_api::Reason;
use trellis_controller::policies::truncate_message;

/// Longest warning in characters: the API server cuts longer ones.
const MAX_WARNING_LENGTH: usize = 256;
/// Most warnings of one answer: the API server shows 4096 characters of all webhooks together.
const MAX_WARNINGS: usize = 12;

/// Decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ReviewDecision {
    /// The object was judged and is allowed.
    Allowed,
    /// The object is refused.
    Refused,
    /// The webhook does not judge such requests.
    Passed,
    /// The webhook cannot decide now; the controller will.
    Undecided,
    /// The webhook corrected the requester stamp of a job.
    Stamped,
}

impl ReviewDecision {
    /// Returns the name of the decision in metrics and logs.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "Allowed",
            Self::Refused => "Refused",
            Self::Passed => "Passed",
            Self::Undecided => "Undecided",
            Self::Stamped => "Stamped",
        }
    }
}

/// Answer to a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReviewAnswer {
    /// Decision on the request.
    pub(super) decision: ReviewDecision,
    /// Reason of the decision, if it has one.
    pub(super) reason: Option<Reason>,
    /// Message of a refusal.
    pub(super) message: String,
    /// Warnings for the client.
    pub(super) warnings: Vec<String>,
}

impl ReviewAnswer {
    pub(super) fn passed() -> Self {
        Self::new(ReviewDecision::Passed, None, Vec::new())
    }

    pub(super) fn allowed(warnings: impl IntoIterator<Item = String>) -> Self {
        Self::new(ReviewDecision::Allowed, None, warnings)
    }

    /// Passes a job that will wait, with the reason as a warning.
    pub(super) fn will_wait(reason: Reason, message: &str, more: Vec<String>) -> Self {
        let first = format!("{}: {message}", reason.as_str());
        let warnings = [first].into_iter().chain(more);
        Self::new(ReviewDecision::Undecided, Some(reason), warnings)
    }

    /// Passes an object that cannot be judged now.
    pub(super) fn undecided(why: &str) -> Self {
        let warning = format!("{why}: Trellis decides once it is stored");
        Self::new(ReviewDecision::Undecided, None, [warning])
    }

    pub(super) fn refused(reason: Reason, message: &str) -> Self {
        Self {
            message: truncate_message(message),
            ..Self::new(ReviewDecision::Refused, Some(reason), Vec::new())
        }
    }

    fn new(
        decision: ReviewDecision,
        reason: Option<Reason>,
        warnings: impl IntoIterator<Item = String>,
    ) -> Self {
        Self {
            decision,
            reason,
            message: String::new(),
            warnings: limit_warnings(warnings),
        }
    }

    /// Returns the response to the request with this uid.
    pub(super) fn into_response(self, uid: String) -> AdmissionResponse {
        let mut response = AdmissionResponse::invalid("");
        response.uid = uid;
        response.allowed = self.decision != ReviewDecision::Refused;
        response.result = Status::default();
        if !response.allowed {
            // The client gets the reason that the job's status would have.
            let reason = self.reason.map_or("Forbidden", Reason::as_str);
            let code = match self.reason {
                Some(Reason::InvalidSpec) => 422,
                _ => 403,
            };
            response.result = Status::failure(&self.message, reason).with_code(code);
        }
        response.warnings = (!self.warnings.is_empty()).then_some(self.warnings);
        response
    }
}

/// Returns the first warnings, each on one line and cut to the longest allowed length. Warnings are
/// HTTP headers: the API server drops a warning with a control character.
fn limit_warnings(warnings: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut warnings: Vec<String> = warnings.into_iter().collect();
    if warnings.len() > MAX_WARNINGS {
        let more = warnings.len().saturating_sub(MAX_WARNINGS - 1);
        warnings.truncate(MAX_WARNINGS - 1);
        warnings.push(format!("and {more} warnings more"));
    }
    warnings
        .into_iter()
        .map(|warning| single_line(&warning))
        .collect()
}

fn single_line(warning: &str) -> String {
    let plain = warning
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    let mut cut: String = plain.clone().take(MAX_WARNING_LENGTH).collect();
    if plain.count() > MAX_WARNING_LENGTH {
        cut = cut.chars().take(MAX_WARNING_LENGTH - 3).collect();
        cut.push_str("...");
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_limited_in_number_and_length() {
        let long = format!("a\nb\t{}", "ä".repeat(300));
        let answer = ReviewAnswer::allowed(std::iter::repeat_n(long, 40));
        assert_eq!(answer.warnings.len(), MAX_WARNINGS);
        let first = &answer.warnings[0];
        assert!(
            first.starts_with("a b ä") && first.ends_with("ä..."),
            "{first}"
        );
        assert_eq!(first.chars().count(), MAX_WARNING_LENGTH);
        assert_eq!(answer.warnings.last().unwrap(), "and 29 warnings more");
        let all: usize = answer.warnings.iter().map(|w| w.chars().count()).sum();
        assert!(all <= 4096, "{all}");
        let warnings = ReviewAnswer::allowed(["x".repeat(MAX_WARNING_LENGTH)]).warnings;
        assert_eq!(warnings, ["x".repeat(MAX_WARNING_LENGTH)]);
    }

    #[test]
    fn refusal_has_the_uid_the_reason_and_a_code() {
        let refused =
            ReviewAnswer::refused(Reason::PolicyDenied, "no").into_response("u".to_owned());
        assert!(!refused.allowed);
        assert_eq!((refused.uid.as_str(), refused.result.code), ("u", 403));
        assert_eq!(refused.result.reason, "PolicyDenied");
        assert_eq!(refused.result.message, "no");
        let invalid = ReviewAnswer::refused(Reason::InvalidSpec, "no").into_response(String::new());
        assert_eq!(invalid.result.code, 422);
        let passed = ReviewAnswer::undecided("busy").into_response("u".to_owned());
        assert!(passed.allowed);
        let warnings = passed.warnings.unwrap();
        assert_eq!(warnings, ["busy: Trellis decides once it is stored"]);
    }

    #[test]
    fn refusal_message_is_cut_to_the_status_limit() {
        let refused = ReviewAnswer::refused(Reason::InvalidSpec, &"x".repeat(1 << 20));
        assert_eq!(refused.message.len(), 8_000);
    }
}
