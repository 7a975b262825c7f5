//! What a test expects, and what came: one comparison and one wording for the
//! tests of an object and for those of a file of their own.

use std::collections::BTreeSet;

use trellis_api::job_policy::ExpectedDecision;

/// Compares what a test expects with what came: the decision, and the ids of the
/// policies that decide. Expected of the latter may be nothing.
///
/// # Errors
/// With what came instead, in words.
pub fn compare(
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

/// What is said where nobody can decide.
#[must_use]
pub fn undecided(why: &str) -> String {
    format!("it is not decided: {why}")
}
