//! The two programs of Trellis in one binary, so that tests, demo and benchmarks link their code
//! once: `operator` as the first argument starts `trellis-operator` with the arguments behind it,
//! any other command line is for `trellis`.

use std::process::ExitCode;

use clap::Parser as _;

/// First argument that starts the operator.
pub const OPERATOR_COMMAND: &str = "operator";

/// Returns true if this process was started as one of the programs: its first argument is
/// `operator` or one of these commands of `trellis`.
#[must_use]
pub fn is_started_as(commands: &[&str]) -> bool {
    let first = std::env::args().nth(1);
    first.is_some_and(|first| first == OPERATOR_COMMAND || commands.contains(&first.as_str()))
}

/// Runs the program that the command line names.
#[must_use]
pub fn run() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next();
    if arguments
        .next()
        .is_some_and(|first| first == OPERATOR_COMMAND)
    {
        let options = program.into_iter().chain(arguments);
        return trellis_operator::run(trellis_operator::OperatorOptions::parse_from(options));
    }
    trellis::run(trellis::Cli::parse())
}
