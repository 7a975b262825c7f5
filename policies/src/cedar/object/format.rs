//! Formats the text of policies in one style.

use std::collections::BTreeMap;

use cedar_policy_formatter::{Config, policies_str_to_pretty};

use super::bounds::{self, check_text};
use super::compile::parse_policies;
use crate::cedar::problem::PolicyProblem;

/// Characters of a line, and of one step to the right: Cedar's own.
const STYLE: Config = Config {
    line_width: 80,
    indent_width: 2,
};
/// Times that a text is formatted until nothing changes any more.
const MAX_PASSES: usize = 4;

/// Formats the text of policies in Cedar's own style, with a line end at the end. Policies and
/// comments stay the same, and formatted text does not change.
///
/// # Errors
/// If the text is no policies, or cannot be formatted without loss.
pub fn format(text: &str) -> Result<String, Vec<PolicyProblem>> {
    check_text(text)?;
    bounds::with_max_stack(|| {
        parse_policies(text)?;
        let formatted = format_until_stable(text).map_err(|problem| vec![*problem])?;
        // The formatted text must be within the same bounds as the original.
        check_text(&formatted)?;
        Ok(formatted)
    })
}

/// Formats until nothing changes any more: the formatter moves some comments twice.
fn format_until_stable(text: &str) -> Result<String, Box<PolicyProblem>> {
    let mut current = text.to_owned();
    for _ in 0..MAX_PASSES {
        // Cedar checks that the policies stay the same, but not the comments.
        let next = policies_str_to_pretty(&current, &STYLE)
            .map_err(|error| format_problem(text, None, &error.to_string()))?;
        let (before, after) = (count_comments(text), count_comments(&next));
        if before != after {
            let lost = before
                .iter()
                .find(|(word, count)| after.get(*word) != Some(count));
            let lost = lost.map(|(word, _)| *word);
            return Err(format_problem(text, lost, "a comment would be lost"));
        }
        if next == current {
            return Ok(next);
        }
        current = next;
    }
    Err(format_problem(text, None, "it does not come to rest"))
}

/// The problem that keeps a text from being formatted, at the word `at`.
fn format_problem(text: &str, at: Option<&str>, why: &str) -> Box<PolicyProblem> {
    let message = format!("cannot be formatted: {why}");
    let fix = "put comments before whole conditions, or format it by hand";
    let mut words = bounds::tokens(text);
    let place = at.and_then(|at| words.find(|(_, word)| word.trim_end() == at));
    Box::new(match place {
        Some((at, word)) => {
            PolicyProblem::from_span(text, (at, word.trim_end().len()), &message, fix)
        }
        None => PolicyProblem::new("spec.cedar", message, fix),
    })
}

/// Each comment, with its number of occurrences.
fn count_comments(text: &str) -> BTreeMap<&str, usize> {
    let mut all = BTreeMap::new();
    let comments = bounds::tokens(text).filter(|(_, word)| word.starts_with("//"));
    for (_, comment) in comments {
        let count: &mut usize = all.entry(comment.trim_end()).or_default();
        *count = count.saturating_add(1);
    }
    all
}
