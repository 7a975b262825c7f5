//! Exit statuses, the same for every command.

use std::process::ExitCode;

/// The result of a command. The greatest of several results is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// The command succeeded.
    Done,
    /// The answer is negative: for example, a job failed or does not exist.
    Negative,
    /// The timeout expired, as in `timeout`(1).
    TimedOut,
    /// The input is invalid, or no cluster can be reached.
    Invalid,
    /// The user interrupted the command: 128 plus the number of SIGINT.
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
