//! Problems of policies, with their place in the text and a caret below it.

use std::fmt;

use miette::Diagnostic;

/// Characters of a line that are shown around the place.
const MAX_LINE_LENGTH: usize = 100;
/// Longest message that is passed on.
const MAX_MESSAGE_LENGTH: usize = 1000;

/// A problem of a policy object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The field: `spec.cedar`, `spec.tests[2]`.
    pub path: String,
    /// Where in the text of the field, if it is a text.
    pub position: Option<TextPosition>,
    /// The rule that does not hold.
    pub message: String,
    /// The fix.
    pub fix: String,
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPosition {
    /// The line, from 1.
    pub line: usize,
    /// The character of that line, from 1.
    pub column: usize,
    /// The line, cut where it is long, and on a second one a caret below each
    /// character of the span.
    pub marked_line: String,
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(place) = &self.position {
            write!(f, ":{}:{}", place.line, place.column)?;
        }
        write!(f, ": {}: {}", self.message, self.fix)?;
        if let Some(place) = &self.position {
            write!(f, "\n{}", place.snippet(place.line))?;
        }
        Ok(())
    }
}

impl PolicyProblem {
    pub(super) fn new(
        path: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            position: None,
            message: sanitize(&message.into()),
            fix: fix.into(),
        }
    }

    /// Line and column, if known.
    pub(super) fn line_and_column(&self) -> Option<(usize, usize)> {
        self.position
            .as_ref()
            .map(|place| (place.line, place.column))
    }

    /// A problem at a span of the policies' text: an offset and a length in bytes.
    pub(super) fn from_span(text: &str, span: (usize, usize), message: &str, fix: &str) -> Self {
        Self {
            position: Some(TextPosition::from_text_span(text, span)),
            ..Self::new("spec.cedar", message, fix)
        }
    }

    /// Turns a diagnostic of Cedar into a problem.
    pub(super) fn from_diagnostic(text: &str, diagnostic: &dyn Diagnostic) -> Self {
        let label = diagnostic.labels().and_then(|mut labels| labels.next());
        // Cedar numbers policies; the numbers mean nothing to their authors.
        let message = diagnostic.to_string();
        let mut message = match message.split_once("`, ") {
            Some((start, rest)) if start.starts_with("for policy `") => rest.to_owned(),
            _ => message,
        };
        let on_span = label.as_ref().and_then(|l| l.label());
        if let Some(on_span) = on_span.filter(|words| !message.contains(*words)) {
            message = format!("{message}: {on_span}");
        }
        let help = diagnostic.help().map(|help| sanitize(&help.to_string()));
        let fix = help.unwrap_or_else(|| "compare it with the schema in docs/policies".to_owned());
        let problem = Self::new("spec.cedar", message, fix);
        Self {
            position: label
                .map(|label| TextPosition::from_text_span(text, (label.offset(), label.len()))),
            ..problem
        }
    }
}

/// Replaces characters of users' text that are unsafe to show: line breaks, cursor movements and
/// changes of the writing direction.
fn sanitize(text: &str) -> String {
    let printable = text
        .chars()
        .map(|c| if is_printable(c) { c } else { '\u{fffd}' });
    let cut: String = printable.take(MAX_MESSAGE_LENGTH).collect();
    cut.replace('\t', " ")
}

fn is_printable(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c == '\t' || !(c.is_control() || turns)
}

impl TextPosition {
    fn from_text_span(text: &str, (offset, length): (usize, usize)) -> Self {
        let floor = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at = at.saturating_sub(1);
            }
            at
        };
        let start = floor(offset);
        let end = floor(offset.saturating_add(length)).max(start);
        let (before, after) = text.split_at_checked(start).unwrap_or((text, ""));
        let line = before.matches('\n').count().saturating_add(1);
        let lead = before.rsplit('\n').next().unwrap_or_default();
        let tail = after.split(['\n', '\r']).next().unwrap_or_default();
        let span = text.get(start..end).unwrap_or_default();
        let marked = span.split(['\n', '\r']).next().unwrap_or_default();
        Self {
            line,
            column: lead.chars().count().saturating_add(1),
            marked_line: mark_with_carets(lead, tail, marked.chars().count()),
        }
    }

    /// The line with its number, and carets below it. The number counts from the start of the text,
    /// or of the file that contains it.
    #[must_use]
    pub fn snippet(&self, number: usize) -> String {
        let number = number.to_string();
        let margin = " ".repeat(number.len());
        let marked = self.marked_line.replace('\n', &format!("\n{margin} | "));
        format!("{number} | {marked}")
    }
}

/// The line, cut where it is long, and the carets.
fn mark_with_carets(lead: &str, tail: &str, marked: usize) -> String {
    let half = MAX_LINE_LENGTH / 2;
    let skipped = lead.chars().count().saturating_sub(half);
    let printable = |text: &str| {
        let one = |c| {
            if c == '\t' || !is_printable(c) {
                ' '
            } else {
                c
            }
        };
        text.chars().map(one).collect::<String>()
    };
    let lead: String = printable(&lead.chars().skip(skipped).collect::<String>());
    let tail: String = printable(&tail.chars().take(half).collect::<String>());
    let indent = " ".repeat(lead.chars().count());
    let carets = "^".repeat(marked.clamp(1, tail.chars().count().max(1)));
    format!("{lead}{tail}\n{indent}{carets}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render_problem(text: &str, span: (usize, usize)) -> String {
        PolicyProblem::from_span(text, span, "wrong", "mend it").to_string()
    }

    #[test]
    fn problem_has_carets_below_its_span() {
        assert_eq!(
            render_problem("permit(\n  a,\n\tbé c);\n", (14, 3)),
            "spec.cedar:3:2: wrong: mend it\n3 |  bé c);\n  |  ^^"
        );
    }

    #[test]
    fn problem_has_a_caret_when_its_span_is_out_of_bounds() {
        for span in [(0, 0), (1, 1), (2, 90), (99, 1), (usize::MAX, usize::MAX)] {
            let rendered = render_problem("é\nb", span);
            assert!(rendered.contains('^'), "{rendered}");
        }
    }

    #[test]
    fn problem_cuts_long_lines_and_drops_direction_marks() {
        let text = format!("{}\u{202e}X{}", "a".repeat(500), "b".repeat(500));
        let rendered = render_problem(&text, (503, 1));
        assert!(rendered.contains("spec.cedar:1:502"), "{rendered}");
        assert!(rendered.chars().count() < 300, "{rendered}");
        assert!(!rendered.contains('\u{202e}'), "{rendered}");
    }
}
