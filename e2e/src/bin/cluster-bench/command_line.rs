//! Measures `trellis queue` with many pending jobs.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::process::{Child, Command};
use trellis_e2e::operator::process_cpu_seconds;

use crate::bench::Bench;
use crate::row::{BenchRow, median};

/// Longer than the operator caches an answer.
const CACHE_EXPIRY: Duration = Duration::from_secs(5);
const RUNS: usize = 7;
/// Time for which the benchmark measures `--watch` after its start.
const WATCH_DURATION: Duration = Duration::from_secs(60);

/// Measures the whole command from start to end, and the cost of `--watch` while it runs.
pub(crate) async fn measure(bench: &Bench, waiting: usize) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        tokio::time::sleep(CACHE_EXPIRY).await;
        let began = Instant::now();
        let output = start_queue_command(bench, &[])?.wait_with_output().await?;
        times.push(began.elapsed());
        let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
        ensure!(
            output.status.success() && lines > waiting,
            "{lines} lines: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let name = format!("{waiting} wait, trellis queue");
    bench.print_row(&BenchRow::new(name, ms(median(&times)), "ms"));
    let worst = times.iter().max().copied().unwrap_or_default();
    let name = format!("{waiting} wait, trellis queue, the longest of {RUNS}");
    bench.print_row(&BenchRow::new(name, ms(worst), "ms"));

    let mut watch = start_queue_command(bench, &["--watch"])?;
    let mut out = watch.stdout.take().context("no output")?;
    // Reads the output like a terminal, because a full pipe would block the command.
    let read = tokio::spawn(async move { tokio::io::copy(&mut out, &mut tokio::io::sink()).await });
    tokio::time::sleep(CACHE_EXPIRY).await;
    let process = watch.id().context("the command has ended")?;
    let before = process_cpu_seconds(process)?;
    tokio::time::sleep(WATCH_DURATION).await;
    let used = process_cpu_seconds(process)? - before;
    watch.kill().await?;
    let watched = read.await??;
    ensure!(watched > 0, "the command printed no refresh");
    let share = used / WATCH_DURATION.as_secs_f64() * 100.0;
    let name = format!("{waiting} wait, trellis queue --watch: of a core");
    bench.print_row(&BenchRow::new(name, share, "%"));
    Ok(())
}

fn start_queue_command(bench: &Bench, options: &[&str]) -> Result<Child> {
    Command::new(&bench.program)
        .arg("queue")
        .args(options)
        .env("KUBECONFIG", bench.control_plane.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("start trellis queue")
}
