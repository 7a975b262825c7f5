//! The operator and command line, as a binary that Cargo builds before the
//! tests of this crate run: the same code as `trellis`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    trellis::cli::run(trellis::cli::Cli::parse())
}
