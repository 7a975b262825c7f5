//! Compares the result of a test with its expectation. Tests in an object and tests in a separate
//! file share the comparison and its wording.

use std::collections::BTreeSet;

use trellis_api::job_policy::ExpectedDecision;

/// Compares the expected decision and the ids of the deciding policies with the result. A test need
/// not list ids.
///
/// # Errors
/// Describes the result if it differs.
pub fn check_expectation(
    (expected, by): (ExpectedDecision, Option<&[String]>),
    (came, policies): (ExpectedDecision, &[String]),
) -> Result<(), String> {
    if came != expected {
        return Err(format!(
            "expected {expected:?}, came {came:?} by {policies:?}"
        ));
    }
    let Some(by) = by else { return Ok(()) };
    let by: BTreeSet<_> = by.iter().collect();
    if by == policies.iter().collect() {
        return Ok(());
    }
    Err(format!("expected {came:?} by {by:?}, came by {policies:?}"))
}

/// The message for a test whose request the policies cannot decide.
#[must_use]
pub fn undecided_failure(why: &str) -> String {
    format!("it is not decided: {why}")
}
