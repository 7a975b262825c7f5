//! What others have said.

pub use crate::output::clean;

/// The last line that says anything.
#[must_use]
pub fn last_line(text: &str) -> Option<String> {
    let mut lines = text.lines().rev().map(clean);
    lines.find(|line| !line.is_empty())
}
