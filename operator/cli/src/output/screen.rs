//! The same again, as it is now: on a terminal in the place of what was there, elsewhere after it.

use std::io::IsTerminal as _;

use anstream::{AutoStream, ColorChoice};

use super::{Format, print_if_read, written};

/// Where something is shown again and again.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    format: Option<Format>,
    is_first: bool,
    can_move: bool,
}

impl Screen {
    /// One that shows what is written in this form.
    #[must_use]
    pub fn new(format: Option<Format>) -> Self {
        let terminal = std::env::var("TERM").unwrap_or_default();
        Self {
            format,
            is_first: true,
            can_move: std::io::stdout().is_terminal() && moves(&terminal),
        }
    }

    /// True if somebody looks at it: what is shown takes the place of what was.
    #[must_use]
    pub fn is_looked_at(&self) -> bool {
        self.is_for_people() && self.can_move
    }

    /// True if no script reads it.
    #[must_use]
    pub const fn is_for_people(&self) -> bool {
        matches!(self.format, None | Some(Format::Wide))
    }

    /// Shows it. False: nobody reads any more.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn show(&mut self, text: &str) -> anyhow::Result<bool> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        if self.is_looked_at() {
            return redraw(text);
        }
        print_if_read(&after(text, self.format, is_first))
    }
}

/// True of a terminal whose cursor can be moved. `NO_COLOR` is about colours alone.
fn moves(terminal: &str) -> bool {
    !matches!(terminal, "" | "dumb")
}

/// It, after what was shown before.
fn after(text: &str, format: Option<Format>, is_first: bool) -> String {
    let before = match format {
        // Scripts read one object after the other.
        _ if is_first => "",
        Some(Format::Json) => "",
        Some(Format::Yaml) => "---\n",
        None | Some(Format::Wide) => "\n",
    };
    format!("{before}{text}")
}

/// Past anstream, which takes the cursor's commands for colours.
fn redraw(text: &str) -> anyhow::Result<bool> {
    let out = std::io::stdout();
    let has_colours = AutoStream::choice(&out) != ColorChoice::Never;
    written(&mut out.lock(), &frame(text, rows(), has_colours))
}

/// From the top left on, and what is left of what was there is erased: nothing flickers.
fn frame(text: &str, rows: Option<usize>, has_colours: bool) -> String {
    let text = match rows {
        Some(rows) => fitting(text, rows),
        None => text.to_owned(),
    };
    let text = match has_colours {
        true => text,
        false => anstream::adapter::strip_str(&text).to_string(),
    };
    let lines: String = text.lines().map(|line| format!("{line}\x1b[K\n")).collect();
    format!("\x1b[H{lines}\x1b[J")
}

/// Columns of the terminal that reads standard output. None: none does.
#[must_use]
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn rows() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

/// What of the text fits, so that its head does not run off the screen.
fn fitting(text: &str, rows: usize) -> String {
    let room = rows.saturating_sub(2);
    let lines = text.lines().count();
    if lines <= room {
        return text.to_owned();
    }
    let lines_shown = text.lines().take(room);
    let mut shown: String = lines_shown.map(|line| format!("{line}\n")).collect();
    let left = lines.saturating_sub(room);
    shown.push_str(&format!("… {left} more lines\n"));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Tone, paint};

    #[test]
    fn the_head_stays_on_the_screen() {
        let text = "a\nb\nc\nd\n";
        assert_eq!(fitting(text, 6), text);
        assert_eq!(fitting(text, 5), "a\nb\nc\n… 1 more lines\n");
    }

    #[test]
    fn without_colours_the_cursor_moves_all_the_same() {
        let text = format!("{}\n", paint("a", Tone::Bad));
        assert_eq!(frame(&text, None, false), "\x1b[Ha\x1b[K\n\x1b[J");
        assert!(frame(&text, None, true).contains("\x1b[31ma"));
        assert!(moves("xterm") && !moves("dumb") && !moves(""));
    }

    #[test]
    fn where_nothing_moves_rounds_stand_apart() {
        let second = |format| after("b\n", format, false);
        assert_eq!(after("a\n", None, true), "a\n");
        assert_eq!(second(None), "\nb\n");
        assert_eq!(second(Some(Format::Yaml)), "---\nb\n");
        assert_eq!(second(Some(Format::Json)), "b\n");
    }
}
