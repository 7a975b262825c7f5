//! Lines of `Label: text`, the text wrapped under itself.

use crate::output::{Tone, wrap_text};

/// Columns of the labels.
const LABEL_WIDTH: usize = 14;
/// Columns where no terminal says how many there are.
const DEFAULT_COLUMNS: usize = 100;

/// What is said of a job.
#[derive(Debug, Default)]
pub struct LabelledLines {
    lines: Vec<(&'static str, String, Tone)>,
}

impl LabelledLines {
    /// Says something; nothing where there is nothing to say.
    pub fn push(&mut self, label: &'static str, text: impl Into<String>) {
        self.push_with_tone(label, text, Tone::Plain);
    }

    /// Says it in a tone.
    pub fn push_with_tone(&mut self, label: &'static str, text: impl Into<String>, tone: Tone) {
        let text = text.into();
        if !text.is_empty() {
            self.lines.push((label, text, tone));
        }
    }

    /// The text. A label that was just said is not said again.
    pub fn render(&self, width: Option<usize>) -> String {
        let width = width.unwrap_or(DEFAULT_COLUMNS);
        let mut out = String::new();
        let mut before = "";
        for (label, text, tone) in &self.lines {
            let lines = wrap_text(text, LABEL_WIDTH, width, *tone);
            let shown = match *label == before {
                true => String::new(),
                false => format!("{label}:"),
            };
            before = label;
            // In the place of the indent of its first line.
            out.push_str(&format!("{shown:<LABEL_WIDTH$}"));
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
        let mut said = LabelledLines::default();
        said.push("Phase", "Running");
        said.push("Phase", "all is well");
        said.push("Queue", "");
        assert_eq!(
            said.render(None),
            "Phase:        Running\n              all is well\n"
        );
    }
}
