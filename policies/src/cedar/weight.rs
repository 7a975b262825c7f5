//! Bounds on the cost of the policies of one namespace. The JobPolicies of a namespace decide
//! how much work each of its requests is, and all namespaces share the operator's cores. So the
//! number of objects, of policies and of steps is bounded before anything is parsed.

use super::bounds;
use super::compile::look_at;
use super::object::PolicyObject;
use super::problem::Problem;

/// Most JobPolicies of a namespace. Each is parsed and validated again when it changes, and has up
/// to 64 tests.
pub const NAMESPACE_OBJECTS: usize = 16;
/// Policies of a namespace at most, of all its objects together: twice those of one object.
pub const NAMESPACE_POLICIES: usize = 256;
/// Steps that one request of a namespace may take at most, of all its policies together. A step
/// is about a nanosecond, so a request takes about 10 ms: `cargo policy-bench` measures the worst
/// set.
pub const NAMESPACE_STEPS: usize = 8 << 20;
/// Longest text of a request, in characters, that policies look at: an image may be as long
/// (`trellis_api::rules::MAX_IMAGE`), and all other names are shorter.
pub const MAX_TEXT: usize = trellis_api::rules::MAX_IMAGE;

/// Steps of one token of Cedar: of an operator, a name, a value.
const TOKEN: usize = 128;

/// Cost of policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weight {
    policies: usize,
    steps: usize,
}

/// The bound that the objects of one namespace exceed, with its value and the fix.
pub(super) fn excess(objects: &[&PolicyObject]) -> Option<Problem> {
    let count = objects.len();
    if count > NAMESPACE_OBJECTS {
        return Some(Problem::new(
            "metadata.namespace",
            format!(
                "the namespace has {count} JobPolicies, and at most \
                 {NAMESPACE_OBJECTS} are evaluated"
            ),
            "merge or delete some; until then none of them takes effect, and no job of the \
             namespace starts",
        ));
    }
    let weight = objects.iter().fold(Weight::default(), |all, object| {
        all.and(Weight::of(&object.cedar))
    });
    let Weight { policies, steps } = weight;
    if policies > NAMESPACE_POLICIES {
        return Some(Problem::new(
            "spec.cedar",
            format!(
                "the JobPolicies of the namespace have {policies} policies together, and \
                 at most {NAMESPACE_POLICIES} are evaluated"
            ),
            "merge policies by sets, as in [\"a\", \"b\"].contains(...), or delete some; until \
             then none of them takes effect, and no job of the namespace starts",
        ));
    }
    (steps > NAMESPACE_STEPS).then(|| {
        Problem::new(
            "spec.cedar",
            format!(
                "the JobPolicies of the namespace may take {steps} steps a request \
                 together, and at most {NAMESPACE_STEPS} are evaluated: {TOKEN} for each word, and \
                 for each pattern of `like` {MAX_TEXT} times the characters after its first *"
            ),
            "write patterns that end with their only *, use == or sets in place of like, or \
             delete policies; until then none of them takes effect, and no job of the namespace \
             starts",
        )
    })
}

impl Weight {
    /// The cost of a text's policies. A text that fails the first checks costs nothing.
    fn of(text: &str) -> Self {
        if look_at(text).is_err() {
            return Self::default();
        }
        let mut weight = Self::default();
        let mut follows_like = false;
        for (_, word) in bounds::tokens(text) {
            if word.trim().is_empty() || word.starts_with("//") {
                continue;
            }
            let steps = match follows_like {
                true => pattern(word),
                // A text is compared whole.
                false => word.len() / 8,
            };
            if word == ";" {
                weight.policies = weight.policies.saturating_add(1);
            }
            follows_like = word == "like";
            weight.steps = weight.steps.saturating_add(TOKEN).saturating_add(steps);
        }
        weight
    }

    fn and(self, other: Self) -> Self {
        Self {
            policies: self.policies.saturating_add(other.policies),
            steps: self.steps.saturating_add(other.steps),
        }
    }
}

/// Steps of a pattern on the longest text. Cedar returns to the last `*` at each character that
/// does not match, so the text after a `*` is compared at each character. A pattern that ends with
/// its only `*` is compared once.
fn pattern(quoted: &str) -> usize {
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
    fn weight_grows_with_words_and_with_what_follows_a_star() {
        let steps = |text: &str| Weight::of(text).steps;
        let like = |pattern: &str| {
            steps(&format!(
                "forbid(principal, action, resource) when {{ resource.name like \"{pattern}\" }};"
            ))
        };
        assert!(like("registry/team/*") < 20 * TOKEN + 100);
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
        assert_eq!(Weight::of(&commented), Weight::default());
        let between = steps("like // c\n \"*abcd\"");
        assert!(between >= 4 * MAX_TEXT, "{between}");
        let two = "permit(principal, action, resource); forbid(principal, action, resource);";
        assert_eq!(Weight::of(two).policies, 2);
        // Text that is not taken is invalid by itself.
        assert_eq!(Weight::of(&"(".repeat(99)), Weight::default());
    }
}
