//! Rules on job policies, in addition to the compilation of their text.

use std::collections::BTreeSet;

use super::rule::Rule;
use crate::job_policy::PolicyTest;

/// Longest policy text of one object, in characters.
pub const MAX_POLICY_TEXT: usize = 65_536;

/// Name of a policy object, which is a part of the ids of its policies.
pub const POLICY_OBJECT_NAME: Rule = Rule::new(
    "size(self.metadata.name) <= 63",
    "must have at most 63 characters: shorten it",
)
.for_field(".metadata.name");
/// Text of policies.
pub const POLICY_TEXT: Rule = Rule::new(
    "size(self) >= 1 && size(self) <= 65536",
    "must have 1 to 65536 characters: write a policy, or split them into several objects",
);
/// Number in the context of a test.
pub const TEST_COUNT: Rule = Rule::new(
    "self >= 0 && self <= 1000000000000",
    "must be a number from 0 to 1000000000000",
);
/// Tests have different names. In the CRD the list is a map, so the API server checks this.
pub const UNIQUE_TESTS: Rule = Rule::new("true", "tests must have different names");

/// [`POLICY_TEXT`].
pub fn policy_text(text: &str, _: &()) -> garde::Result {
    // A text has at most as many characters as bytes, so only longer texts are counted.
    let fits = text.len() <= MAX_POLICY_TEXT || text.chars().count() <= MAX_POLICY_TEXT;
    POLICY_TEXT.check(!text.is_empty() && fits)
}

/// [`TEST_COUNT`].
pub fn test_count(count: &i64, _: &()) -> garde::Result {
    TEST_COUNT.check((0..=1_000_000_000_000).contains(count))
}

/// [`UNIQUE_TESTS`].
pub fn unique_tests(tests: &[PolicyTest], _: &()) -> garde::Result {
    let names: BTreeSet<_> = tests.iter().map(|test| &test.name).collect();
    UNIQUE_TESTS.check(names.len() == tests.len())
}
