//! One problem of a file, in the form that users see.

use std::fmt;
use std::sync::Arc;

use super::yaml_tree::YamlPosition;

/// Widest snippet, in characters.
const SNIPPET_WIDTH: usize = 100;
/// Largest column of the problem within the snippet of a long line, in characters.
const SNIPPET_LEAD: usize = 40;

/// One problem: its place, the rule and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the file, once [`Problem::with_file`] has set it.
    pub file: Option<String>,
    /// Line, from 1. 0: the problem concerns the whole file.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Path of the field, as in YAML. Empty: the problem concerns the whole object.
    pub field: String,
    /// The rule and the fix.
    pub message: String,
    /// The line with its number, and a mark below the column.
    pub snippet: String,
}

impl Problem {
    /// Returns a problem of a whole file.
    #[must_use]
    pub fn for_file(message: impl Into<String>) -> Self {
        Self {
            file: None,
            line: 0,
            column: 0,
            field: String::new(),
            message: message.into(),
            snippet: String::new(),
        }
    }

    /// Adds the name of the file.
    #[must_use]
    pub fn with_file(self, file: impl Into<String>) -> Self {
        Self {
            file: Some(file.into()),
            ..self
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
        }
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        if self.file.is_some() || self.line > 0 {
            f.write_str(" ")?;
        }
        // Some messages start with the name of their field.
        if !self.field.is_empty() && !self.message.starts_with(&self.field) {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        if !self.snippet.is_empty() {
            write!(f, "\n{}", self.snippet)?;
        }
        Ok(())
    }
}

/// All problems. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Wraps a list of problems, which must not be empty.
    pub(super) fn from_vec(problems: Vec<Problem>) -> Self {
        Self(problems)
    }

    /// Returns the problems, in the order of the file.
    #[must_use]
    pub fn as_slice(&self) -> &[Problem] {
        &self.0
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The text of one document, and its position in its file.
#[derive(Clone, Debug)]
pub(super) struct DocumentText {
    text: Arc<str>,
    /// Number of lines before the document in its file.
    lines_before: usize,
}

impl DocumentText {
    pub(super) fn new(text: &str, before: usize) -> Self {
        Self {
            text: text.into(),
            lines_before: before,
        }
    }

    /// Returns a problem at a position of the document.
    pub(super) fn problem(&self, at: YamlPosition, field: String, message: String) -> Problem {
        let line = at
            .line
            .checked_sub(1)
            .map_or(0, |l| l.saturating_add(self.lines_before).saturating_add(1));
        Problem {
            file: None,
            line,
            column: at.column,
            field,
            message,
            snippet: self.snippet(at, line).unwrap_or_default(),
        }
    }

    fn snippet(&self, at: YamlPosition, number: usize) -> Option<String> {
        let line = self.text.lines().nth(at.line.checked_sub(1)?)?;
        let column = at.column.checked_sub(1)?;
        // Control characters are replaced, so that a file cannot control the terminal.
        let plain = |c: char| match c {
            '\t' => ' ',
            c if c.is_control() || is_bidi(c) => '\u{fffd}',
            c => c,
        };
        let length = line.chars().count();
        let skip = if length > SNIPPET_WIDTH {
            column
                .saturating_sub(SNIPPET_LEAD)
                .min(length.saturating_sub(SNIPPET_WIDTH))
        } else {
            0
        };
        let cut: String = line
            .chars()
            .map(plain)
            .skip(skip)
            .take(SNIPPET_WIDTH)
            .collect();
        let head = if skip > 0 { "..." } else { "" };
        let tail = if skip.saturating_add(SNIPPET_WIDTH) < length {
            "..."
        } else {
            ""
        };
        let margin = number.to_string().len();
        let indent = column.saturating_sub(skip).saturating_add(head.len());
        Some(format!(
            "{:margin$} |\n{number} | {head}{cut}{tail}\n{:margin$} | {:indent$}^",
            "", "", ""
        ))
    }
}

/// True for characters that change the direction of text (Trojan Source, CVE-2021-42574).
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
