//! What people and scripts read.

mod age;
mod amount;
mod format;
mod style;
mod table;
mod wrap;

pub use age::{age, until};
pub use amount::amount;
pub use format::{Format, object};
pub use style::{Tone, of_phase, paint};
pub use table::{Cell, Table};
pub use wrap::wrapped;

use std::io::Write as _;

/// Writes to standard output: colours only where a terminal reads it, and `NO_COLOR` does not
/// say otherwise. A reader that has gone is no error.
///
/// # Errors
/// If it cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Shows the text in the place of what was shown before, on a terminal; elsewhere after it.
///
/// # Errors
/// If it cannot be written.
pub fn redraw(text: &str) -> anyhow::Result<()> {
    use std::io::IsTerminal as _;
    match std::io::stdout().is_terminal() {
        // To the top left, and what is left of what was there is erased: nothing flickers.
        true => {
            let lines: String = text.lines().map(|line| format!("{line}\x1b[K\n")).collect();
            print(&format!("\x1b[H{lines}\x1b[J"))
        }
        false => print(text),
    }
}

/// Writes a line to standard error. A reader that has gone is no error.
pub fn warn(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Columns of the terminal that reads standard output. None: none does.
#[must_use]
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
