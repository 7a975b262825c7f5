//! One thing that is wrong with a file, as people see it.

use std::fmt;
use std::sync::Arc;

use super::yaml_tree::YamlPosition;

/// Widest snippet, in characters.
const SNIPPET_WIDTH: usize = 100;
/// How far into a long line's snippet the place stands, in characters.
const SNIPPET_LEAD: usize = 40;

/// One thing that is wrong: where, what, and how to put it right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, once [`Problem::with_file`] has said which.
    pub file: Option<String>,
    /// Line, from 1. 0: of the file as a whole.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The field, as it is written in YAML. Empty: of the object as a whole.
    pub field: String,
    /// The rule and the fix.
    pub message: String,
    /// The line with its number, and below it a mark.
    pub snippet: String,
}

impl Problem {
    /// Something that is wrong with a file as a whole.
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

    /// The same, with the name of the file.
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
        // Some rules name their field themselves.
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

/// Everything that is wrong. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// All of these. There is at least one.
    pub(super) fn from_vec(problems: Vec<Problem>) -> Self {
        Self(problems)
    }

    /// The problems, in order of the file.
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

/// The text of one document, and where in its file it begins.
#[derive(Clone, Debug)]
pub(super) struct DocumentText {
    text: Arc<str>,
    /// Lines of the file before the document's first.
    lines_before: usize,
}

impl DocumentText {
    pub(super) fn new(text: &str, before: usize) -> Self {
        Self {
            text: text.into(),
            lines_before: before,
        }
    }

    /// A problem at a place of the document.
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
        // A file must not be able to steer the terminal.
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

/// Marks that turn the direction of text around (Trojan Source, CVE-2021-42574).
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
