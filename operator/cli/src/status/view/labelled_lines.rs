//! Lines of the form `Label: text`, with an indented and wrapped text.

use crate::output::{Tone, wrap_text};

/// Width of the labels, in columns.
const LABEL_WIDTH: usize = 14;
/// Number of columns if no terminal reports a width.
const DEFAULT_COLUMNS: usize = 100;

/// The lines about a job.
#[derive(Debug, Default)]
pub struct LabelledLines {
    lines: Vec<(&'static str, String, Tone)>,
}

impl LabelledLines {
    /// Adds a line. An empty text adds none.
    pub fn push(&mut self, label: &'static str, text: impl Into<String>) {
        self.push_with_tone(label, text, Tone::Plain);
    }

    /// Adds a line in a tone.
    pub fn push_with_tone(&mut self, label: &'static str, text: impl Into<String>, tone: Tone) {
        let text = text.into();
        if !text.is_empty() {
            self.lines.push((label, text, tone));
        }
    }

    /// Renders the lines.
    /// A label is omitted if the line before has the same one.
    pub fn render(&self, width: Option<usize>) -> String {
        let width = width.unwrap_or(DEFAULT_COLUMNS);
        let mut out = String::new();
        let mut before = "";
        for (label, text, tone) in &self.lines {
            let lines = wrap_text(text, LABEL_WIDTH, width, *tone);
            let shown_label = match *label == before {
                true => String::new(),
                false => format!("{label}:"),
            };
            before = label;
            // The label replaces the indentation of the first line.
            out.push_str(&format!("{shown_label:<LABEL_WIDTH$}"));
            out.push_str(lines.get(LABEL_WIDTH..).unwrap_or_default());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_is_printed_once() {
        let mut lines = LabelledLines::default();
        lines.push("Phase", "Running");
        lines.push("Phase", "all is well");
        lines.push("Queue", "");
        assert_eq!(
            lines.render(None),
            "Phase:        Running\n              all is well\n"
        );
    }
}
