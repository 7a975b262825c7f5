//! The program `trellis-operator`, which the container image starts.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    trellis_operator::run(trellis_operator::OperatorOptions::parse())
}
