//! Wraps text into lines.

use trellis_reads::text::sanitize;
use unicode_width::UnicodeWidthStr as _;

use super::style::{Tone, paint};

/// Wraps the text into lines of at most `width` columns.
/// `indent` spaces start each line. A longer word gets a line of its own.
#[must_use]
pub fn wrap_text(text: &str, indent: usize, width: usize, tone: Tone) -> String {
    const LEAST: usize = 20;
    let room = width.saturating_sub(indent).max(LEAST);
    let mut lines: Vec<String> = Vec::new();
    for word in sanitize(text).split_whitespace() {
        let length = word.width();
        match lines.last_mut() {
            Some(line) if line.width().saturating_add(length) < room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let indent = " ".repeat(indent);
    let lines = lines
        .into_iter()
        .map(|line| format!("{indent}{}\n", paint(&line, tone)));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_the_width_except_long_words() {
        let text = "needs 8 nvidia.com/gpu, of which none are free on a node that matches";
        let lines = wrap_text(text, 2, 30, Tone::Plain);
        assert!(
            lines.lines().all(|line| line.chars().count() <= 30),
            "{lines}"
        );
        assert_eq!(lines.split_whitespace().collect::<Vec<_>>().join(" "), text);
        let long = "x".repeat(50);
        assert_eq!(
            wrap_text(&format!("a {long} b"), 0, 30, Tone::Plain),
            format!("a\n{long}\nb\n")
        );
        assert_eq!(wrap_text("", 2, 30, Tone::Plain), "");
        assert_eq!(
            wrap_text("a\x1b[2J \u{202e}b\x07", 0, 30, Tone::Plain),
            "a b\n"
        );
    }
}
