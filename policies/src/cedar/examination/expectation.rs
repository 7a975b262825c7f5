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
    (expected, expected_ids): (ExpectedDecision, Option<&[String]>),
    (actual, actual_ids): (ExpectedDecision, &[String]),
) -> Result<(), String> {
    if actual != expected {
        return Err(format!(
            "expected {expected:?}, came {actual:?} by {actual_ids:?}"
        ));
    }
    let Some(expected_ids) = expected_ids else {
        return Ok(());
    };
    let expected_ids: BTreeSet<_> = expected_ids.iter().collect();
    if expected_ids == actual_ids.iter().collect() {
        return Ok(());
    }
    Err(format!(
        "expected {actual:?} by {expected_ids:?}, came by {actual_ids:?}"
    ))
}

/// The message for a test whose request the policies cannot decide.
#[must_use]
pub fn undecided_failure(why: &str) -> String {
    format!("it is not decided: {why}")
}
