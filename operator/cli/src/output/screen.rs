//! Shows a view repeatedly.
//! On a terminal it replaces the previous view; elsewhere it follows it.

use std::io::IsTerminal as _;

use anstream::{AutoStream, ColorChoice};

use super::{OutputFormat, print_if_read, write_text};

/// The output of a repeated view.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    format: Option<OutputFormat>,
    is_first: bool,
    can_move: bool,
}

impl Screen {
    /// Creates a screen for this output format.
    #[must_use]
    pub fn new(format: Option<OutputFormat>) -> Self {
        let terminal = std::env::var("TERM").unwrap_or_default();
        Self {
            format,
            is_first: true,
            can_move: std::io::stdout().is_terminal() && can_move_cursor(&terminal),
        }
    }

    /// Returns true on a terminal for people: each view replaces the previous one.
    #[must_use]
    pub fn is_interactive(&self) -> bool {
        self.is_for_people() && self.can_move
    }

    /// Returns true if the format is for people, not for scripts.
    #[must_use]
    pub const fn is_for_people(&self) -> bool {
        matches!(self.format, None | Some(OutputFormat::Wide))
    }

    /// Shows the view. Returns false if the reader has closed the output.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn show(&mut self, text: &str) -> anyhow::Result<bool> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        if self.is_interactive() {
            return redraw(text);
        }
        print_if_read(&separate_from_last(text, self.format, is_first))
    }
}

/// Returns true for a terminal that can move its cursor.
/// `NO_COLOR` affects only colours.
fn can_move_cursor(terminal: &str) -> bool {
    !matches!(terminal, "" | "dumb")
}

/// Adds the separator from the previous view.
fn separate_from_last(text: &str, format: Option<OutputFormat>, is_first: bool) -> String {
    let before = match format {
        // Scripts read one object after another.
        _ if is_first => "",
        Some(OutputFormat::Json) => "",
        Some(OutputFormat::Yaml) => "---\n",
        None | Some(OutputFormat::Wide) => "\n",
    };
    format!("{before}{text}")
}

/// Writes directly to stdout.
/// The crate anstream would strip the sequences that move the cursor.
fn redraw(text: &str) -> anyhow::Result<bool> {
    let out = std::io::stdout();
    let has_colours = AutoStream::choice(&out) != ColorChoice::Never;
    write_text(&mut out.lock(), &build_frame(text, rows(), has_colours))
}

/// Draws from the top left and then erases the rest of the old view.
/// The screen does not flicker then.
fn build_frame(text: &str, rows: Option<usize>, has_colours: bool) -> String {
    let text = match rows {
        Some(rows) => fit_to_rows(text, rows),
        None => text.to_owned(),
    };
    let text = match has_colours {
        true => text,
        false => anstream::adapter::strip_str(&text).to_string(),
    };
    let lines: String = text.lines().map(|line| format!("{line}\x1b[K\n")).collect();
    format!("\x1b[H{lines}\x1b[J")
}

/// Width of the terminal on standard output, in columns. None: no terminal.
#[must_use]
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn rows() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

/// Cuts the text to the rows of the screen, so that its head stays visible.
fn fit_to_rows(text: &str, rows: usize) -> String {
    let room = rows.saturating_sub(2);
    let lines = text.lines().count();
    if lines <= room {
        return text.to_owned();
    }
    let lines_shown = text.lines().take(room);
    let mut page: String = lines_shown.map(|line| format!("{line}\n")).collect();
    let hidden = lines.saturating_sub(room);
    page.push_str(&format!("… {hidden} more lines\n"));
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Tone, paint};

    #[test]
    fn the_head_stays_on_the_screen() {
        let text = "a\nb\nc\nd\n";
        assert_eq!(fit_to_rows(text, 6), text);
        assert_eq!(fit_to_rows(text, 5), "a\nb\nc\n… 1 more lines\n");
    }

    #[test]
    fn cursor_moves_without_colours() {
        let text = format!("{}\n", paint("a", Tone::Bad));
        assert_eq!(build_frame(&text, None, false), "\x1b[Ha\x1b[K\n\x1b[J");
        assert!(build_frame(&text, None, true).contains("\x1b[31ma"));
        assert!(can_move_cursor("xterm") && !can_move_cursor("dumb") && !can_move_cursor(""));
    }

    #[test]
    fn rounds_are_separated_without_a_movable_cursor() {
        let second = |format| separate_from_last("b\n", format, false);
        assert_eq!(separate_from_last("a\n", None, true), "a\n");
        assert_eq!(second(None), "\nb\n");
        assert_eq!(second(Some(OutputFormat::Yaml)), "---\nb\n");
        assert_eq!(second(Some(OutputFormat::Json)), "b\n");
    }
}
