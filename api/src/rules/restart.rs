//! Rules on the reaction to failures.

use super::rule::Rule;
use crate::job::{Restart, TaskGroup};

/// Exit codes of a failed process on Linux: all except 0.
pub const EXIT_CODES: Rule = Rule::new(
    "self.all(c, c >= 1 && c <= 255)",
    "must be an exit code of a failure, 1 to 255",
);
/// Words that are valid as a reason.
pub const REASON_WORDS: Rule = Rule::new(
    "self.all(w, w.matches('^[A-Za-z][A-Za-z0-9._/-]*$'))",
    "must be a reason, one word such as OOMKilled or NodeLost",
);
/// Groups in restart rules exist in the job.
pub const RULE_GROUPS: Rule = Rule::new(
    "!has(self.restart) || !has(self.restart.rules) || self.restart.rules.all(r, !has(r.groups) || r.groups.all(n, self.taskGroups.exists(g, g.name == n)))",
    "groups of restart.rules must be names of task groups of the job",
);

/// [`EXIT_CODES`], for one code.
pub fn exit_code(code: &i32, _: &()) -> garde::Result {
    EXIT_CODES.check((1..=255).contains(code))
}

/// [`REASON_WORDS`], for one word.
pub fn reason_word(word: &str, _: &()) -> garde::Result {
    let mut chars = word.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
    let goes_on = chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-'));
    REASON_WORDS.check(starts && goes_on)
}

/// [`RULE_GROUPS`].
pub fn rule_groups(groups: &[TaskGroup]) -> impl FnOnce(&Option<Restart>, &()) -> garde::Result {
    move |restart, ()| {
        let group_names = restart.iter().flat_map(|restart| &restart.rules);
        let mut group_names = group_names.flat_map(|rule| &rule.groups);
        RULE_GROUPS.check(group_names.all(|name| groups.iter().any(|group| group.name == *name)))
    }
}
