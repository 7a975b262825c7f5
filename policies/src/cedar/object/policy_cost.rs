//! Bounds on the cost of the policies of one namespace. The JobPolicies of a namespace decide
//! how much work each of its requests is, and all namespaces share the operator's cores. So the
//! number of objects, of policies and of steps is bounded before anything is parsed.

use super::bounds;
use super::policy_object::PolicyObject;
use crate::cedar::problem::PolicyProblem;
use crate::cedar::request::MAX_TEXT;

/// Most JobPolicies of a namespace. Each is parsed and validated again when it changes, and has up
/// to 64 tests.
pub const MAX_NAMESPACE_OBJECTS: usize = 16;
/// Policies of a namespace at most, of all its objects together: twice those of one object.
pub const MAX_NAMESPACE_POLICIES: usize = 256;
/// Steps that one request of a namespace may take at most, of all its policies together. A step
/// is about a nanosecond, so a request takes about 10 ms: `cargo policy-bench` measures the worst
/// set.
pub const MAX_NAMESPACE_STEPS: usize = 8 << 20;

/// Steps of one token of Cedar: of an operator, a name, a value.
const STEPS_PER_TOKEN: usize = 128;

/// Cost of policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PolicyCost {
    policies: usize,
    steps: usize,
}

/// The bound that the objects of one namespace exceed, with its value and the fix.
pub(crate) fn exceeded_bound(objects: &[&PolicyObject]) -> Option<PolicyProblem> {
    let count = objects.len();
    if count > MAX_NAMESPACE_OBJECTS {
        return Some(PolicyProblem::new(
            "metadata.namespace",
            format!(
                "the namespace has {count} JobPolicies, and at most \
                 {MAX_NAMESPACE_OBJECTS} are evaluated"
            ),
            "merge or delete some; until then none of them takes effect, and no job of the \
             namespace starts",
        ));
    }
    let weight = objects.iter().fold(PolicyCost::default(), |all, object| {
        all.plus(PolicyCost::from_text(&object.cedar))
    });
    let PolicyCost { policies, steps } = weight;
    if policies > MAX_NAMESPACE_POLICIES {
        return Some(PolicyProblem::new(
            "spec.cedar",
            format!(
                "the JobPolicies of the namespace have {policies} policies together, and \
                 at most {MAX_NAMESPACE_POLICIES} are evaluated"
            ),
            "merge policies by sets, as in [\"a\", \"b\"].contains(...), or delete some; until \
             then none of them takes effect, and no job of the namespace starts",
        ));
    }
    (steps > MAX_NAMESPACE_STEPS).then(|| {
        PolicyProblem::new(
            "spec.cedar",
            format!(
                "the JobPolicies of the namespace may take {steps} steps a request \
                 together, and at most {MAX_NAMESPACE_STEPS} are evaluated: {STEPS_PER_TOKEN} for each word, and \
                 for each pattern of `like` {MAX_TEXT} times the characters after its first *"
            ),
            "write patterns that end with their only *, use == or sets in place of like, or \
             delete policies; until then none of them takes effect, and no job of the namespace \
             starts",
        )
    })
}

impl PolicyCost {
    /// The cost of a text's policies. A text that fails the first checks costs nothing.
    fn from_text(text: &str) -> Self {
        if bounds::check_text(text).is_err() {
            return Self::default();
        }
        let mut weight = Self::default();
        let mut follows_like = false;
        for (_, word) in bounds::tokens(text) {
            if word.trim().is_empty() || word.starts_with("//") {
                continue;
            }
            let steps = match follows_like {
                true => pattern_steps(word),
                // A text is compared whole.
                false => word.len() / 8,
            };
            if word == ";" {
                weight.policies = weight.policies.saturating_add(1);
            }
            follows_like = word == "like";
            weight.steps = weight
                .steps
                .saturating_add(STEPS_PER_TOKEN)
                .saturating_add(steps);
        }
        weight
    }

    fn plus(self, other: Self) -> Self {
        Self {
            policies: self.policies.saturating_add(other.policies),
            steps: self.steps.saturating_add(other.steps),
        }
    }
}

/// Steps of a pattern on the longest text. Cedar returns to the last `*` at each character that
/// does not match, so the text after a `*` is compared at each character. A pattern that ends with
/// its only `*` is compared once.
fn pattern_steps(quoted: &str) -> usize {
    let written = quoted.trim_matches('"');
    // An escaped \* is a character, and counted as a *: never less than it costs.
    let after = written.split('*').skip(1);
    let longest = after
        .map(|part| part.chars().count())
        .max()
        .unwrap_or_default();
    let again = longest.min(MAX_TEXT).saturating_mul(MAX_TEXT);
    again.saturating_add(written.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_cost_grows_with_tokens_and_with_text_after_a_wildcard() {
        let steps = |text: &str| PolicyCost::from_text(text).steps;
        let like = |pattern: &str| {
            steps(&format!(
                "forbid(principal, action, resource) when {{ resource.name like \"{pattern}\" }};"
            ))
        };
        assert!(like("registry/team/*") < 20 * STEPS_PER_TOKEN + 100);
        assert!(like("*abcd") >= 4 * MAX_TEXT);
        assert!(like("*ab*abcd") >= 4 * MAX_TEXT && like("*ab*abcd") < 7 * MAX_TEXT);
        // A longer pattern than the text cannot cost more than one as long.
        let long = like(&format!("*{}", "a".repeat(9 * MAX_TEXT)));
        assert!(
            (MAX_TEXT * MAX_TEXT..2 * MAX_TEXT * MAX_TEXT).contains(&long),
            "{long}"
        );
        // Comments cost nothing, and the text after them does.
        let commented = format!("// {}\n", "like \"*aaaa\" ; ".repeat(99));
        assert_eq!(PolicyCost::from_text(&commented), PolicyCost::default());
        let between = steps("like // c\n \"*abcd\"");
        assert!(between >= 4 * MAX_TEXT, "{between}");
        let two = "permit(principal, action, resource); forbid(principal, action, resource);";
        assert_eq!(PolicyCost::from_text(two).policies, 2);
        // Text that is not taken is invalid by itself.
        assert_eq!(
            PolicyCost::from_text(&"(".repeat(99)),
            PolicyCost::default()
        );
    }
}
