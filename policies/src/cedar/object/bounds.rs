//! Bounds on the depth of a policy, checked before it is parsed: Cedar's parser and evaluator
//! recurse once per level, and a stack overflow kills the process.

use trellis_api::rules::MAX_POLICY_TEXT;

use crate::cedar::problem::PolicyProblem;

/// Brackets and conditionals within each other.
pub(crate) const MAX_NESTING: usize = 16;
/// Operators, accesses, conditions and annotations of one policy: a chain of them
/// is a tree that deep.
pub(crate) const MAX_OPERATORS: usize = 512;

/// Stack for the deepest that is taken, in bytes.
const MAX_STACK: usize = 32 << 20;
/// Stack that every policy needs, and stack that each operator and each nesting adds, in bytes.
/// Measured without optimization: Cedar's evaluator takes 47 KiB for an operator, its validator
/// less than 16 KiB, its parser 50 KiB for a nesting.
const BASE_STACK: usize = 256 << 10;
const STACK_PER_OPERATOR: usize = if cfg!(debug_assertions) {
    56 << 10
} else {
    16 << 10
};
const STACK_PER_NESTING: usize = 64 << 10;

/// How much stack policies need, in bytes. By default that of any policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StackSize(usize);

impl Default for StackSize {
    fn default() -> Self {
        Self(BASE_STACK)
    }
}

impl StackSize {
    /// Adds the stack for a policy that is this many operators deeper than its text.
    pub(crate) const fn with_operators(self, operators: usize) -> Self {
        let more = operators.saturating_mul(STACK_PER_OPERATOR);
        Self(self.0.saturating_add(more))
    }
}

/// Runs `work` on a stack that is large enough, however little the caller has left.
///
/// Without enough stack, Cedar's validator silently passes a policy and its evaluator fails;
/// neither may depend on the caller. A new stack costs a millisecond, so only deep policies get
/// one.
pub(crate) fn with_stack<T>(StackSize(need): StackSize, work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(need, MAX_STACK, work)
}

/// Runs `work` with enough stack for the deepest policy that is accepted, for walks over its text.
pub(crate) fn with_max_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::grow(MAX_STACK, work)
}

/// Text that is nested too deep or not supported, with its offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoundsError {
    pub(crate) offset: usize,
    pub(crate) message: &'static str,
    pub(crate) fix: &'static str,
}

/// Checks the text before it is parsed.
pub(crate) fn check_text(text: &str) -> Result<StackSize, Vec<PolicyProblem>> {
    if text.len() > MAX_POLICY_TEXT && text.chars().count() > MAX_POLICY_TEXT {
        let rule = trellis_api::rules::POLICY_TEXT.message();
        let (rule, fix) = rule.split_once(": ").unwrap_or((rule, ""));
        return Err(vec![PolicyProblem::new("spec.cedar", rule, fix)]);
    }
    check_bounds(text).map_err(|e| {
        vec![PolicyProblem::from_span(
            text,
            (e.offset, 1),
            e.message,
            e.fix,
        )]
    })
}

/// Walks over the tokens as Cedar's lexer sees them. Returns what the deepest
/// policy needs.
pub(crate) fn check_bounds(text: &str) -> Result<StackSize, BoundsError> {
    let mut walk = TokenCounter::default();
    for (at, word) in tokens(text) {
        walk.count_token(word, at)?;
    }
    Ok(walk.stack)
}

/// Every token, white space and comments among them, and where it begins.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let at = text.len().saturating_sub(rest.len());
        let (word, after) = rest.split_at_checked(token_length(rest, first))?;
        rest = after;
        Some((at, word))
    })
}

/// Length of the token that the text begins with, in bytes. At least 1.
fn token_length(text: &str, first: char) -> usize {
    let until = |end: fn(char) -> bool| text.find(end).unwrap_or(text.len());
    if text.starts_with("//") {
        return until(|c| matches!(c, '\n' | '\r'));
    }
    if ["&&", "||", "==", "!=", "<=", ">=", "::"]
        .iter()
        .any(|o| text.starts_with(o))
    {
        return 2;
    }
    match first {
        '"' => string_length(text),
        c if is_word_char(c) => until(|c| !is_word_char(c)),
        c => c.len_utf8(),
    }
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Length of a string with its quotes. One without an end goes to the end of
/// the text: Cedar's lexer takes no token from there on.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at.saturating_add(1),
            _ => {}
        }
    }
    text.len()
}

#[derive(Default)]
struct TokenCounter {
    brackets: usize,
    /// `if`s of this policy: each may be in the branch of the one before.
    conditionals: usize,
    operators: usize,
    /// Most stack that one of the policies read so far needs.
    stack: StackSize,
}

impl TokenCounter {
    fn count_token(&mut self, word: &str, at: usize) -> Result<(), BoundsError> {
        match word {
            // An access or a call is a bracket behind something: a chain too.
            "(" | "[" | "{" => {
                self.brackets = self.brackets.saturating_add(1);
                self.operators = self.operators.saturating_add(1);
            }
            ")" | "]" | "}" => self.brackets = self.brackets.saturating_sub(1),
            ";" => {
                *self = Self {
                    stack: self.stack,
                    ..Self::default()
                };
            }
            "if" => self.conditionals = self.conditionals.saturating_add(1),
            "." | "&&" | "||" | "==" | "!=" | "<=" | ">=" | "<" | ">" | "=" | "+" | "-" | "*"
            | "/" | "%" | "!" | "in" | "has" | "like" | "is" | "when" | "unless" | "@" => {
                self.operators = self.operators.saturating_add(1);
            }
            "?" => {
                return Err(BoundsError {
                    offset: at,
                    message: "templates are not taken: a policy has no slots such as ?principal",
                    fix: "name the principal or resource, or leave it open",
                });
            }
            _ => {}
        }
        let nesting = self.brackets.saturating_add(self.conditionals);
        let of_operators = self.operators.saturating_mul(STACK_PER_OPERATOR);
        let of_nesting = nesting.saturating_mul(STACK_PER_NESTING);
        let need = BASE_STACK
            .saturating_add(of_operators)
            .saturating_add(of_nesting);
        self.stack = self.stack.max(StackSize(need));
        if nesting > MAX_NESTING {
            return Err(BoundsError {
                offset: at,
                message: "nested deeper than 16 brackets and ifs",
                fix: "write it flatter, or as several policies",
            });
        }
        if self.operators > MAX_OPERATORS {
            return Err(BoundsError {
                offset: at,
                message: "one policy with more than 512 operators and brackets",
                fix: "use a set, as in [\"a\", \"b\"].contains(...), or write several policies",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_depth_counts_only_the_tokens_that_cedar_parses() {
        let nested = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
        for (text, fits) in [
            (nested(16), true),
            (nested(17), false),
            (format!("\"{}\"", "(".repeat(99)), true),
            (format!("\"\\\"{}\"", "(".repeat(99)), true),
            (format!("\"\\\\\"{}", "(".repeat(99)), false),
            (format!("// {}\n", "(".repeat(99)), true),
            (format!("// x\r{}", "(".repeat(99)), false),
            (format!("// \"\n{}", "[".repeat(99)), false),
            ("if a then b else ".repeat(16), true),
            ("if a then b else ".repeat(17), false),
            // The bounds apply to each policy, not to the whole text.
            ("a if b;".repeat(99), true),
            ("a && ".repeat(512), true),
            ("a && ".repeat(513), false),
            (".a".repeat(513), false),
            ("[a]".repeat(513), false),
            ("! ".repeat(513), false),
            ("-".repeat(513), false),
            ("when { a }".repeat(257), false),
            ("@a".repeat(513), false),
            (format!("[{}]", "\"a\", ".repeat(2000)), true),
            ("A::".repeat(500), true),
            (
                "permit(principal == ?principal, action, resource);".to_owned(),
                false,
            ),
            ("ünï \"\\".to_owned(), true),
            (String::new(), true),
        ] {
            assert_eq!(check_bounds(&text).is_ok(), fits, "{text:.60}");
        }
    }

    /// The stack that is allocated is never smaller than the stack that is needed.
    #[test]
    fn deepest_policy_fits_on_the_largest_stack() {
        let most = format!(
            "{}{}",
            "(".repeat(MAX_NESTING),
            "a && ".repeat(MAX_OPERATORS - MAX_NESTING)
        );
        let need = check_bounds(&most).unwrap();
        assert!(need.0 <= MAX_STACK, "{need:?}");
        assert!(need > check_bounds("permit(principal, action, resource);").unwrap());
        assert_eq!(check_bounds(&format!("{most}; permit(")).unwrap(), need);
    }

    #[test]
    fn bounds_error_has_the_offset_of_its_token() {
        let text = format!("é {}", "(".repeat(17));
        assert_eq!(check_bounds(&text).map_err(|e| e.offset), Err(3 + 16));
    }
}
