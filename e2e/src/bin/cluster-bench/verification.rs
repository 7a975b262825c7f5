//! Measures one look of `trellis verify` at a full cluster.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use tokio::process::Command;

use crate::bench::Bench;
use crate::refusal::FullCluster;
use crate::row::{BenchRow, median};

const RUNS: usize = 5;
/// Objects in one page of a list, as in the watches of `trellis verify`.
const PAGE_SIZE: u32 = 500;
const MEMORY_INTERVAL: Duration = Duration::from_millis(20);

/// Compares the command with the ceiling: a client that lists the pods and does nothing else.
pub(crate) async fn measure(bench: &Bench, full: &FullCluster) -> Result<()> {
    let mut lists = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        list_pods(bench).await?;
        lists.push(began.elapsed());
    }
    let ceiling = median(&lists).as_secs_f64();
    let name = format!("{} pods, listed by a bare client", full.pods);
    bench.print_row(&BenchRow::new(name, ceiling, "s"));

    let mut looks = Vec::new();
    let mut memory = 0;
    for _ in 0..RUNS {
        let (time, peak) = run_verify(bench).await?;
        looks.push(time);
        memory = memory.max(peak);
    }
    let look = median(&looks).as_secs_f64();
    let name = format!("{} pods, trellis verify", full.pods);
    bench.print_row(&BenchRow::new(name, look, "s").with_ceiling(ceiling));
    let name = format!("{} pods, trellis verify: peak memory", full.pods);
    bench.print_row(&BenchRow::new(name, memory as f64 / 1024.0, "MiB"));
    Ok(())
}

async fn list_pods(bench: &Bench) -> Result<()> {
    let pods: Api<Pod> = Api::all(bench.control_plane.client());
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = pods.list(&params).await?;
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// Returns the time of the whole command, and its peak memory in KiB.
async fn run_verify(bench: &Bench) -> Result<(Duration, u64)> {
    let began = Instant::now();
    let mut command = Command::new(&bench.program)
        .arg("verify")
        .env("KUBECONFIG", bench.control_plane.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("start trellis verify")?;
    let process = command.id().context("the command has ended")?;
    let mut peak = 0;
    let status = loop {
        match tokio::time::timeout(MEMORY_INTERVAL, command.wait()).await {
            Ok(status) => break status?,
            Err(_) => peak = peak_memory(process).unwrap_or(peak),
        }
    };
    ensure!(status.success(), "trellis verify: {status}");
    Ok((began.elapsed(), peak))
}

/// Returns the greatest resident memory of a process so far, in KiB. None: the process has ended.
fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
