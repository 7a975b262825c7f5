//! What people and scripts read.

mod age;
mod amount;
mod clean;
mod format;
mod rounds;
mod screen;
mod style;
mod table;
mod wrap;

pub use age::{age, until};
pub use amount::amount;
pub use clean::{clean, clean_lines};
pub use format::{Format, object};
pub use rounds::Rounds;
pub use screen::{Screen, width};
pub use style::{Tone, of_phase, paint};
pub use table::{Cell, Table};
pub use wrap::wrapped;

use std::io::Write as _;

/// Writes to standard output: colours only where a terminal reads it, and `NO_COLOR` does not
/// say otherwise. False: nobody reads any more, which is no error, and ends what is endless.
///
/// # Errors
/// If it cannot be written.
pub fn print(text: &str) -> anyhow::Result<bool> {
    written(&mut anstream::stdout(), text)
}

/// Writes to standard error what would go to standard output if that were not for a script.
///
/// # Errors
/// If it cannot be written.
pub fn print_aside(text: &str) -> anyhow::Result<bool> {
    written(&mut anstream::stderr(), text)
}

fn written(out: &mut impl std::io::Write, text: &str) -> anyhow::Result<bool> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes a line to standard error: what the text says, and nothing that it commands. A reader
/// that has gone is no error.
pub fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", clean_lines(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_is_told_of_and_no_error() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert!(written(&mut writer, "a\n").unwrap());
        drop(reader);
        assert!(!written(&mut writer, "b\n").unwrap());
    }
}
