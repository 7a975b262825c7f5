//! Output of commands, for people and for scripts.

mod format;
mod refresh_loop;
mod screen;
mod style;
mod table;
mod wrap;

pub use format::{OutputFormat, serialize_object};
pub use refresh_loop::RefreshLoop;
pub use screen::{Screen, width};
pub use style::{Tone, paint, phase_tone, render_heading};
pub use table::{Cell, Table};
pub use trellis_reads::text::{format_age, format_amount, format_until, sanitize, sanitize_lines};
pub use wrap::wrap_text;

use std::io::Write as _;
use std::process::ExitCode;

use trellis_api::document::Problem;

use crate::exit::Exit;

/// Writes to standard output, in colours only on a terminal without `NO_COLOR`.
/// A closed pipe is no error.
///
/// # Errors
/// If standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_if_read(text).map(drop)
}

/// Like `print`, for a command that follows a stream.
/// Returns false if the reader has closed the pipe; the command then ends.
///
/// # Errors
/// If standard output cannot be written.
pub fn print_if_read(text: &str) -> anyhow::Result<bool> {
    write_text(&mut anstream::stdout(), text)
}

/// Writes text for people to standard error, while standard output is for a script.
///
/// # Errors
/// If standard error cannot be written.
pub fn print_to_stderr(text: &str) -> anyhow::Result<bool> {
    write_text(&mut anstream::stderr(), text)
}

fn write_text(out: &mut impl std::io::Write, text: &str) -> anyhow::Result<bool> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes a line to standard error, without control sequences.
/// A closed pipe is no error.
pub fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", sanitize_lines(text));
}

/// Writes all problems of the input files to standard error.
/// Returns the exit status of invalid input.
pub fn print_problems(problems: &[Problem]) -> ExitCode {
    for problem in problems {
        warn(&format!("error: {problem}"));
    }
    Exit::Invalid.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_pipe_is_reported_and_is_no_error() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert!(write_text(&mut writer, "a\n").unwrap());
        drop(reader);
        assert!(!write_text(&mut writer, "b\n").unwrap());
    }
}
