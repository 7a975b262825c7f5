//! A round: the scripts of some seeds at the same time, until all jobs have ended.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use tokio::time::Instant;
use trellis_simulation::Script;

use crate::Soak;
use crate::probe::Probe;
use crate::site::Site;

/// Number of scripts of a round: with their 2.5 jobs each and the probes, a job every ten seconds.
const SCRIPTS: usize = 6;
/// Number of scripts whose faults are injected. The faults of all six would overlap all the time,
/// and nothing could be judged by a bound of time.
const FAULTY_SCRIPTS: usize = 2;
/// Longest time for which a pod of a round runs, in seconds. Longer jobs belong to the simulation.
const LONGEST_RUN: u64 = 100;

/// Takes the next scripts for a round. `seed`: the next seed, which becomes the one after them.
fn next_scripts(seed: &mut u64) -> Vec<Script> {
    // The control plane has no autoscaler, and its nodes are in no racks.
    let is_suitable = |script: &Script| {
        let mut runs = script.jobs.iter().flat_map(|job| &job.run_seconds);
        let has_neither = script.autoscaler.is_none() && script.rack_nodes == 0;
        has_neither && runs.all(|seconds| *seconds <= LONGEST_RUN)
    };
    let scripts = std::iter::repeat_with(|| {
        let script = Script::from_seed(*seed);
        *seed += 1;
        script
    });
    scripts.filter(is_suitable).take(SCRIPTS).collect()
}

/// Runs the scripts of the next seeds from `seed` on. No user acts after `deadline`. With
/// `spares_leader`, no fault ends a process.
pub(crate) async fn run(
    soak: &Soak<'_>,
    probe: &mut Probe,
    seed: &mut u64,
    deadline: Instant,
    spares_leader: bool,
) -> Result<()> {
    let create = |script| Site::create(soak.control_plane, script);
    let sites = try_join_all(next_scripts(seed).into_iter().map(create)).await?;
    let start = Instant::now();
    let longest = sites.iter().map(|site| site.script.calm_from).max();
    let deadline = deadline.min(start + Duration::from_secs(longest.unwrap_or_default()));
    let report = &soak.report;
    let act = async {
        let acts = sites
            .iter()
            .map(|site| site.act_until(start, deadline, report));
        let faulty = sites.iter().take(FAULTY_SCRIPTS);
        let inject = |site| {
            soak.faults
                .inject_all(site, (start, deadline), spares_leader)
        };
        tokio::try_join!(
            try_join_all(acts),
            try_join_all(faulty.map(inject)),
            probe.measure_until(deadline, soak.faults, report),
        )?;
        try_join_all(sites.iter().map(|site| site.settle(report))).await
    };
    // Nothing instructs the kubelets after the round: no pod is left then.
    tokio::select! {
        result = act => drop(result?),
        result = try_join_all(sites.iter().map(Site::instruct_kubelets)) => drop(result?),
    }
    for site in sites {
        site.end(report).await?;
    }
    Ok(())
}
