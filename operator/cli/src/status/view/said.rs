//! Lines of `Label: text`, the text wrapped under itself.

use crate::output::{Tone, wrapped};

/// Columns of the labels.
const LABELS: usize = 14;
/// Columns where no terminal says how many there are.
const COLUMNS: usize = 100;

/// What is said of a job.
#[derive(Debug, Default)]
pub struct Said {
    lines: Vec<(&'static str, String, Tone)>,
}

impl Said {
    /// Says something; nothing where there is nothing to say.
    pub fn say(&mut self, label: &'static str, text: impl Into<String>) {
        self.tell(label, text, Tone::Plain);
    }

    /// Says it in a tone.
    pub fn tell(&mut self, label: &'static str, text: impl Into<String>, tone: Tone) {
        let text = text.into();
        if !text.is_empty() {
            self.lines.push((label, text, tone));
        }
    }

    /// The text. A label that was just said is not said again.
    pub fn text(&self, width: Option<usize>) -> String {
        let width = width.unwrap_or(COLUMNS);
        let mut out = String::new();
        let mut before = "";
        for (label, text, tone) in &self.lines {
            let lines = wrapped(text, LABELS, width, *tone);
            let shown = match *label == before {
                true => String::new(),
                false => format!("{label}:"),
            };
            before = label;
            // In the place of the indent of its first line.
            out.push_str(&format!("{shown:<LABELS$}"));
            out.push_str(lines.get(LABELS..).unwrap_or_default());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_stands_once() {
        let mut said = Said::default();
        said.say("Phase", "Running");
        said.say("Phase", "all is well");
        said.say("Queue", "");
        assert_eq!(
            said.text(None),
            "Phase:        Running\n              all is well\n"
        );
    }
}
