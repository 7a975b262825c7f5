//! `trellis policy test`: compares the decisions of policies with expected ones.

mod case_result;
mod junit;
mod report;
mod run;
mod test_file;
mod unknown_names;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use super::PolicyOutputFormat;
use super::input_files::ParsedFiles;
use crate::output;

pub(super) use test_file::KIND;

/// Options of `trellis policy test`.
#[derive(clap::Args, Debug)]
pub(super) struct TestOptions {
    /// Files, or folders with all their subfolders.
    /// They contain policies with their tests, files of tests, and other objects for the tests,
    /// such as queues and Namespaces. - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Fail if fewer than this percentage of the policies decide something in any test.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    min_coverage: Option<u8>,
    /// Output format. Default: text for a terminal.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<PolicyOutputFormat>,
    /// Also write the results into a file in `JUnit`'s format.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Runs the tests. The exit status shows whether all results are as expected.
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
