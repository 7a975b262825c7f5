//! `cargo seeds` runs the operator in many simulated histories, and reports every broken promise.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use trellis_policies::cedar::PolicyLoader;
use trellis_simulation::{Coverage, Outcome, Script, record_panics, run, shrink};

/// Runs the operator in simulated histories with faults. Each seed is one history.
#[derive(Debug, Parser)]
#[command(name = "seeds")]
struct Options {
    /// Number of seeds.
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// Stops after these minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Runs this seed alone.
    #[arg(long, conflicts_with_all = ["count", "first", "script"])]
    seed: Option<u64>,
    /// Runs the script in this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count", "first"])]
    script: Option<PathBuf>,
    /// Prints all events of the runs.
    #[arg(long)]
    events: bool,
    /// Shortens the script of each broken seed, and prints it.
    #[arg(long)]
    shrink: bool,
    /// Prints the log of the operator of this level, such as `info`.
    #[arg(long, value_name = "LEVEL")]
    log: Option<tracing_subscriber::filter::LevelFilter>,
    /// Runs each script once. By default it runs twice, and must give the same events.
    #[arg(long)]
    once: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if let Some(level) = options.log {
        tracing_subscriber::fmt()
            .with_max_level(level)
            .without_time()
            .with_writer(std::io::stderr)
            .init();
    }
    record_panics();
    let policies = PolicyLoader::new().context("the schema of policies")?;
    let scripts: Box<dyn Iterator<Item = Script>> = match (&options.script, options.seed) {
        (Some(file), _) => {
            let text = std::fs::read(file).with_context(|| format!("{}", file.display()))?;
            Box::new(std::iter::once(serde_json::from_slice(&text)?))
        }
        (None, Some(seed)) => Box::new(std::iter::once(Script::from_seed(seed))),
        (None, None) => {
            let seeds = options.first..options.first + options.count;
            Box::new(seeds.map(Script::from_seed))
        }
    };
    let start = Instant::now();
    let mut coverage = Coverage::default();
    let (mut runs, mut broken, mut events) = (0_u64, 0_u64, 0_u64);
    let limit = options
        .minutes
        .map(|minutes| Duration::from_secs(60 * minutes));
    for script in scripts {
        if limit.is_some_and(|limit| start.elapsed() > limit) {
            break;
        }
        let outcome = run(&script, &policies, options.events);
        runs += 1;
        events += outcome.events;
        for line in &outcome.lines {
            println!("{line}");
        }
        coverage += outcome.coverage.clone();
        let mut is_broken = report(&script, &outcome);
        if !options.once {
            let again = run(&script, &policies, options.events);
            if again.hash != outcome.hash {
                is_broken = true;
                println!(
                    "seed {}: two runs differ{}",
                    script.seed,
                    first_difference(&outcome, &again)
                );
            }
        }
        if is_broken {
            broken += 1;
            if options.shrink {
                let shortest = shrink_broken(&script, &outcome, &policies);
                println!("{}", serde_json::to_string_pretty(&shortest)?);
            }
        }
    }
    println!("faults by the phase of the journals that were there:\n{coverage}");
    let seconds = start.elapsed().as_secs_f64();
    println!("{runs} seeds, {broken} broken, {events} events in {seconds:.1} s");
    Ok(if broken == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints what is wrong in a run. Returns true if anything is.
fn report(script: &Script, outcome: &Outcome) -> bool {
    for problem in &outcome.problems {
        println!("seed {}: {problem}", script.seed);
    }
    !outcome.problems.is_empty()
}

/// Returns a shorter script with a problem of the same kind.
fn shrink_broken(script: &Script, outcome: &Outcome, policies: &PolicyLoader) -> Script {
    let kind = |problem: &String| problem.split(':').next().map(str::to_owned);
    let Some(wanted) = outcome.problems.first().and_then(kind) else {
        return script.clone();
    };
    shrink(script, |shorter| {
        let outcome = run(shorter, policies, false);
        outcome
            .problems
            .iter()
            .filter_map(kind)
            .any(|kind| kind == wanted)
    })
}

fn first_difference(one: &Outcome, other: &Outcome) -> String {
    let mut pairs = one.lines.iter().zip(&other.lines);
    match pairs.find(|(one, other)| one != other) {
        Some((one, other)) => format!(":\n  {one}\n  {other}"),
        None => "; --events shows the first difference".to_owned(),
    }
}
