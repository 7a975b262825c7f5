//! The same again, as it is now: on a terminal in the place of what was there, elsewhere after it.

use std::io::IsTerminal as _;

use super::{Format, print};

/// Where something is shown again and again.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    format: Option<Format>,
    is_first: bool,
}

impl Screen {
    /// One that shows what is written in this form.
    #[must_use]
    pub const fn new(format: Option<Format>) -> Self {
        Self {
            format,
            is_first: true,
        }
    }

    /// True if somebody looks at it: what is shown takes the place of what was.
    #[must_use]
    pub fn is_looked_at(&self) -> bool {
        matches!(self.format, None | Some(Format::Wide)) && std::io::stdout().is_terminal()
    }

    /// Shows it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn show(&mut self, text: &str) -> anyhow::Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        if self.is_looked_at() {
            return redraw(text);
        }
        let before = match self.format {
            // Scripts read one object after the other.
            Some(Format::Json) => "",
            Some(Format::Yaml) => "---\n",
            None | Some(Format::Wide) => "\n",
        };
        match is_first {
            true => print(text),
            false => print(&format!("{before}{text}")),
        }
    }
}

/// From the top left on, and what is left of what was there is erased: nothing flickers.
fn redraw(text: &str) -> anyhow::Result<()> {
    let text = match rows() {
        Some(rows) => fitting(text, rows),
        None => text.to_owned(),
    };
    let lines: String = text.lines().map(|line| format!("{line}\x1b[K\n")).collect();
    print(&format!("\x1b[H{lines}\x1b[J"))
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

    #[test]
    fn the_head_stays_on_the_screen() {
        let text = "a\nb\nc\nd\n";
        assert_eq!(fitting(text, 6), text);
        assert_eq!(fitting(text, 5), "a\nb\nc\n… 1 more lines\n");
    }
}
