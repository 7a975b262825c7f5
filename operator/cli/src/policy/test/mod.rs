//! `trellis policy test`: what policies say, held against what is expected of them.

mod junit;
mod report;
mod run;
mod test_file;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use super::PolicyOutputFormat;
use super::input_files::ParsedFiles;
use crate::output;

pub(super) use test_file::KIND;

/// What to test.
#[derive(clap::Args, Debug)]
pub(super) struct TestOptions {
    /// Files, or folders with all below: policies with their tests, files of tests, and
    /// what jobs of tests need, such as queues and Namespaces. - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Fail if fewer policies in a hundred decide something in any test.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    min_coverage: Option<u8>,
    /// How it is printed. Without it, as people read it.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<PolicyOutputFormat>,
    /// Write the results into a file in `JUnit`'s format, too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Tests, and says by the exit status whether all is as expected.
pub(super) fn run(options: &TestOptions) -> anyhow::Result<ExitCode> {
    let (report, notes) = match run::run(ParsedFiles::read(&options.paths)) {
        Ok(report) => report,
        Err(problems) => return Ok(output::print_problems(&problems)),
    };
    for note in notes {
        output::warn(&note);
    }
    let report = report.with_min_coverage(options.min_coverage);
    match options.output {
        None => output::print(&report.render())?,
        Some(PolicyOutputFormat::Json) => super::print_json(&report)?,
    }
    if let Some(file) = &options.junit {
        std::fs::write(file, junit::render_junit(&report))
            .with_context(|| format!("cannot write {file:?}"))?;
    }
    Ok(super::to_exit_code(report.has_passed()))
}
