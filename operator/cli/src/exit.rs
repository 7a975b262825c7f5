//! Exit statuses: the same of every command.

use std::process::ExitCode;

/// What a command came to. Of several, the greatest is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// All is as asked for.
    Done,
    /// What was asked about is not so: a job failed, or is not there.
    Negative,
    /// It took longer than it was given, as of `timeout`(1).
    TimedOut,
    /// The input is wrong, or no cluster can be asked.
    Invalid,
    /// Whoever waited does not wait any more: 128 and SIGINT.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Negative => 1,
            Exit::Invalid => 2,
            Exit::TimedOut => 124,
            Exit::Interrupted => 130,
        })
    }
}
