//! `cargo soak`: the users and faults of the simulation on a real control plane, for hours.
//!
//! Two replicas of the operator run behind proxies. Each round takes the scripts of some seeds, as
//! `cargo seeds` does, injects their faults, and waits until all jobs have ended. Then it measures
//! the operator at rest. The rules of `trellis verify` judge the whole time. In the second half, no
//! fault ends a process, so that the memory of one leader is measured for a long time.

mod faults;
mod logs;
mod pods;
mod probe;
mod replica;
mod report;
mod request_faults;
mod rest;
mod round;
mod site;
mod statistics;
mod users;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use futures::future::try_join_all;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::folder::copy_folder;
use trellis_e2e::{operator, programs};

use crate::faults::Faults;
use crate::probe::Probe;
use crate::replica::Replica;
use crate::report::Report;

/// Longest time until a job has ended after the last act of a user.
const END_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest time until nothing is left of deleted jobs.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(180);
const REPLICAS: usize = 2;
const MINUTE: Duration = Duration::from_secs(60);

/// Runs two replicas of the operator on a real control plane with users and faults. Exit status 0:
/// no rule is broken, all jobs have ended, no log has an ERROR line, and memory and open files do
/// not grow.
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Options {
    /// Hours in which users act and faults happen. The last round ends up to ten minutes later.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=20))]
    hours: u64,
    /// Minutes in addition to the hours. Default: 60 without `--hours`.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=240))]
    minutes: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the report and the logs into this folder.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Options {
    fn duration(&self) -> Duration {
        let default = if self.hours == 0 { 60 } else { 0 };
        let minutes = 60 * self.hours + self.minutes.unwrap_or(default);
        Duration::from_secs(60 * minutes)
    }
}

/// This program is also the operator, selected by its first argument, so that one build is enough.
fn main() -> Result<ExitCode> {
    if programs::is_started_as(&[]) {
        return Ok(programs::run());
    }
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // In both cases, dropping the values ends all processes.
        tokio::select! {
            result = run(&options) => result,
            signal = tokio::signal::ctrl_c() => {
                signal?;
                anyhow::bail!("interrupted")
            }
        }
    })
}

async fn run(options: &Options) -> Result<ExitCode> {
    let control_plane = operator::start_control_plane().await?;
    site::create_shared_objects(&control_plane).await?;
    let replicas =
        try_join_all((0..REPLICAS).map(|index| Replica::create(&control_plane, index))).await?;
    let faults = Faults::new(&control_plane, &replicas, options.seed);
    let soak = Soak {
        options,
        control_plane: &control_plane,
        replicas: &replicas,
        faults: &faults,
        start: Instant::now(),
        report: Mutex::default(),
    };
    let supervise = replicas
        .iter()
        .map(|replica| replica.supervise(&control_plane));
    let result = tokio::select! {
        result = soak.run_rounds() => result,
        result = soak.print_each_minute() => result,
        result = try_join_all(supervise) => result.map(drop),
    };
    // The report and the logs matter most if the soak could not go on.
    let exit = soak.finish();
    result?;
    exit
}

struct Soak<'a> {
    options: &'a Options,
    control_plane: &'a ControlPlane,
    replicas: &'a [Arc<Replica>],
    faults: &'a Faults<'a>,
    start: Instant,
    report: Mutex<Report>,
}

impl Soak<'_> {
    async fn run_rounds(&self) -> Result<()> {
        let duration = self.options.duration();
        let deadline = self.start + duration;
        let half = self.start + duration / 2;
        let mut probe = Probe::create(self.control_plane).await;
        let mut seed = self.options.seed;
        while Instant::now() < deadline {
            let spares_leader = Instant::now() > half;
            round::run(self, &mut probe, &mut seed, deadline, spares_leader).await?;
            let rest = rest::measure(self.control_plane, self.replicas, self.start).await?;
            println!(
                "at rest: {}, {} writes a minute",
                rest.leader, rest.writes_per_minute
            );
            let mut report = self.report.lock();
            report.rounds += 1;
            report.rests.push(rest);
        }
        let broken = tokio::task::block_in_place(|| probe.site.end_judgement());
        self.report.lock().broken_rules.extend(broken);
        Ok(())
    }

    async fn print_each_minute(&self) -> Result<()> {
        loop {
            sleep(MINUTE).await;
            self.refresh()?;
            let leader = rest::read_leader(self.control_plane, self.replicas).await?;
            let leader = leader.map_or("no leader".to_owned(), |leader| leader.to_string());
            println!("{}; {leader}", self.report.lock().line());
        }
    }

    /// Brings the report up to date.
    fn refresh(&self) -> Result<()> {
        let logs = self.control_plane.logs_folder();
        let read = |replica: &Arc<Replica>| logs::read_errors(&logs, &replica.name);
        let errors: Vec<_> = self.replicas.iter().map(read).collect::<Result<_>>()?;
        let mut report = self.report.lock();
        report.minutes = self.start.elapsed().as_secs_f64() / MINUTE.as_secs_f64();
        report.seed = self.options.seed;
        report.faults = self.faults.counts();
        report.processes = self.replicas.iter().map(|replica| replica.starts()).sum();
        report.errors = errors.concat();
        Ok(())
    }

    /// Prints the report, and stores it with the logs.
    fn finish(&self) -> Result<ExitCode> {
        self.refresh()?;
        let report = self.report.lock();
        let (table, problems) = (report.table(), report.problems());
        println!("\n{table}");
        for problem in &problems {
            println!("problem: {problem}");
        }
        if let Some(folder) = &self.options.folder {
            copy_folder(&self.control_plane.logs_folder(), &folder.join("logs"))?;
            let path = folder.join("report.md");
            let text = format!("{table}\n{}\n", problems.join("\n"));
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(match problems.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}
