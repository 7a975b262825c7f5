//! What people and scripts read.

mod age;
mod amount;
mod format;
mod screen;
mod style;
mod table;
mod wrap;

pub use age::{age, until};
pub use amount::amount;
pub use format::{Format, object};
pub use screen::{Screen, width};
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

/// Writes a line to standard error. A reader that has gone is no error.
pub fn warn(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}
