//! `cargo replay FOLDER`: sends the operator's writes of all tests to the simulated API server, and
//! compares its answers with those of the real API servers. The tests must run with
//! `TRELLIS_AUDIT=FOLDER`.
//!
//! Exit status: 0 all answers are alike, 1 an answer differs, 2 no requests were recorded.

mod replay;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use trellis_api_server::Kind;
use trellis_e2e::audit_log;

use crate::replay::{Replay, Totals};

/// Send the recorded writes of the operator to the simulated API server.
#[derive(Parser)]
struct ReplayArguments {
    /// The folder of the records, as in TRELLIS_AUDIT.
    folder: PathBuf,
    /// Number of differences that are printed of each kind of request.
    #[arg(long, default_value_t = 3)]
    show: usize,
}

fn main() -> ExitCode {
    match run(&ReplayArguments::parse()) {
        Ok(totals) if totals.differences.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            print_line(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &ReplayArguments) -> Result<Totals> {
    let mut totals = Totals::default();
    let kinds = Kind::with_crds(trellis_api::crds::all())?;
    for file in audit_log::files(&arguments.folder)? {
        let mut events = audit_log::read(&file)?;
        // Concurrent requests end in another order than they are logged.
        events.sort_by_key(|event| event.stage_timestamp);
        let mut replay = Replay::new(&kinds, &events);
        for event in events {
            replay.take_in(event, &mut totals);
        }
    }
    anyhow::ensure!(totals.compared > 0, "no write of the operator was recorded");
    print_totals(&totals, arguments.show);
    Ok(totals)
}

fn print_totals(totals: &Totals, show: usize) {
    let mut by_request: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for difference in &totals.differences {
        let of_request = by_request.entry(&difference.request).or_default();
        of_request.push(&difference.lines);
    }
    for (request, lines) in by_request {
        print_line(&format!("{request}: {} answers differ", lines.len()));
        for lines in lines.iter().take(show) {
            print_line(lines);
        }
    }
    print_line(&format!(
        "{} writes of the operator, {} answers differ; not compared: {} that met a concurrent write, \
         {} refused by rules in CEL or by rights, {} under other CRDs",
        totals.compared,
        totals.differences.len(),
        totals.concurrent,
        totals.refused,
        totals.other_crds,
    ));
}

#[expect(clippy::print_stdout, reason = "it is what the program is for")]
fn print_line(line: &str) {
    println!("{line}");
}
