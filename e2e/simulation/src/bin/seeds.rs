//! `cargo seeds` runs the operator in many simulated histories, and reports every broken promise.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use parking_lot::Mutex;
use trellis_policies::cedar::PolicyLoader;
use trellis_simulation::{
    Coverage, ElasticCounts, OrderCounts, Outcome, Script, record_panics, run, search, shrink,
};

/// Runs the operator in simulated histories with faults. Each seed is one history.
#[derive(Debug, Parser)]
#[command(name = "seeds")]
struct Options {
    /// Number of seeds.
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// Number of seeds that run at the same time. Default: the number of cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Stops after these minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Stops at the first broken seed.
    #[arg(long)]
    stop: bool,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Runs this seed alone.
    #[arg(long, conflicts_with_all = ["count", "first", "script"])]
    seed: Option<u64>,
    /// Runs the script in this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count", "first"])]
    script: Option<PathBuf>,
    /// Runs small scripts with each combination of at most this many faults of single writes, instead
    /// of seeds: 1 takes a minute, 2 some hours.
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["count", "first", "seed", "script"])]
    search: Option<usize>,
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

/// A run that takes longer never ends: the operator repeats something without a pause. A usual run takes
/// a tenth of a second.
const LONGEST_RUN: Duration = Duration::from_secs(120);

/// Runs scripts on several threads.
struct Runner {
    policies: PolicyLoader,
    /// The run of each thread: its seed and its begin.
    open: Mutex<HashMap<ThreadId, (u64, Instant)>>,
}

impl Runner {
    fn run(&self, script: &Script, keeps_lines: bool) -> Outcome {
        let id = thread::current().id();
        self.open.lock().insert(id, (script.seed, Instant::now()));
        let outcome = run(script, &self.policies, keeps_lines);
        self.open.lock().remove(&id);
        outcome
    }

    /// Ends the process once a run takes too long. A thread that never waits cannot be stopped.
    fn watch(&self) -> ! {
        loop {
            thread::sleep(Duration::from_secs(1));
            let open = self.open.lock();
            let mut runs = open.values();
            if let Some((seed, _)) = runs.find(|(_, begin)| begin.elapsed() > LONGEST_RUN) {
                println!("seed {seed}: endless: the run takes longer than {LONGEST_RUN:?}");
                std::process::exit(1);
            }
        }
    }
}

/// Sums over all runs.
#[derive(Debug, Default)]
struct Totals {
    seeds: u64,
    broken: u64,
    events: u64,
    coverage: Coverage,
    orders: OrderCounts,
    elastic: ElasticCounts,
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
    let scripts = Mutex::new(scripts(&options, &policies)?);
    let totals = Mutex::new(Totals::default());
    let start = Instant::now();
    let limit = options
        .minutes
        .map(|minutes| Duration::from_secs(60 * minutes));
    let next = || {
        let is_over = limit.is_some_and(|limit| start.elapsed() > limit)
            || (options.stop && totals.lock().broken > 0);
        (!is_over).then(|| scripts.lock().next()).flatten()
    };
    let threads = match options.threads {
        Some(threads) => threads,
        None => thread::available_parallelism()?.get(),
    };
    let runner = Arc::new(Runner {
        policies,
        open: Mutex::default(),
    });
    let watched = Arc::clone(&runner);
    thread::spawn(move || watched.watch());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(script) = next() {
                    check(&script, &runner, &options, &totals);
                }
            });
        }
    });
    let totals = totals.into_inner();
    println!(
        "faults by the phase of the journals that were there:\n{}",
        totals.coverage
    );
    println!("{}", totals.orders);
    println!("{}", totals.elastic);
    println!(
        "{} seeds, {} broken, {} events in {:.1} s",
        totals.seeds,
        totals.broken,
        totals.events,
        start.elapsed().as_secs_f64()
    );
    Ok(match totals.broken {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn scripts(
    options: &Options,
    policies: &PolicyLoader,
) -> anyhow::Result<Box<dyn Iterator<Item = Script> + Send>> {
    if let Some(faults) = options.search {
        let policies = policies.clone();
        let scripts = search::small_scripts().into_iter().flat_map(move |script| {
            let writes = run(&script, &policies, false).writes;
            search::with_faults(&script, writes, faults)
        });
        return Ok(Box::new(scripts));
    }
    if let Some(file) = &options.script {
        let text = std::fs::read(file).with_context(|| format!("{}", file.display()))?;
        let script = serde_json::from_slice(&text);
        let script = script.with_context(|| format!("{}", file.display()))?;
        return Ok(Box::new(std::iter::once(script)));
    }
    let seeds = match options.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => options.first..options.first.saturating_add(options.count),
    };
    Ok(Box::new(seeds.map(Script::from_seed)))
}

/// Runs a script, twice unless the options say once, and reports what is wrong.
fn check(script: &Script, runner: &Runner, options: &Options, totals: &Mutex<Totals>) {
    let outcome = runner.run(script, options.events);
    for line in &outcome.lines {
        println!("{line}");
    }
    let mut is_broken = report(script, &outcome);
    if !options.once {
        let again = runner.run(script, options.events);
        if again.hash != outcome.hash {
            is_broken = true;
            let difference = first_difference(&outcome, &again);
            println!("seed {}: two runs differ{difference}", script.seed);
        }
    }
    if is_broken && options.shrink {
        let shortest = shrink_broken(script, &outcome, runner);
        println!(
            "{}",
            serde_json::to_string_pretty(&shortest).unwrap_or_default()
        );
    }
    let mut totals = totals.lock();
    totals.seeds += 1;
    totals.broken += u64::from(is_broken);
    totals.events += outcome.events;
    totals.coverage += outcome.coverage;
    totals.orders += outcome.orders;
    totals.elastic += outcome.elastic;
}

/// Prints what is wrong in a run. Returns true if anything is.
fn report(script: &Script, outcome: &Outcome) -> bool {
    for problem in &outcome.problems {
        println!("seed {}: {problem}", script.seed);
    }
    !outcome.problems.is_empty()
}

/// Returns a shorter script with a problem of the same kind.
fn shrink_broken(script: &Script, outcome: &Outcome, runner: &Runner) -> Script {
    let kind = |problem: &String| problem.split(':').next().map(str::to_owned);
    let Some(wanted) = outcome.problems.first().and_then(kind) else {
        return script.clone();
    };
    shrink(script, |shorter| {
        let outcome = runner.run(shorter, false);
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
