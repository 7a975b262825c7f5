//! Tests of the generated workload.

use super::*;
use crate::pools::parse_pools;

fn workload(seed: u64) -> GangWorkload {
    GangWorkload {
        pool: parse_pools("gpu=128x8").unwrap().remove(0),
        jobs: 2_000,
        load: 0.8,
        seed,
        order: QueueOrder::Priority,
        close_percent: 40,
        cpu_percent: 0,
        spread: false,
        growth: None,
    }
}

fn jobs(script: SimulationScript) -> Vec<ScriptJob> {
    let changes = script.into_changes().into_iter();
    changes
        .filter_map(|(_, change)| match change {
            ScriptChange::Job(job) => Some(*job),
            _ => None,
        })
        .collect()
}

#[test]
fn equal_seeds_draw_equal_jobs() {
    let ids = |seed| -> Vec<_> {
        let jobs = jobs(workload(seed).to_script());
        jobs.into_iter()
            .map(|j| (j.gang.id.clone(), j.runtime, j.gang.submitted))
            .collect()
    };
    assert_eq!(ids(1), ids(1));
    assert_ne!(ids(1), ids(2));
}

#[test]
fn share_of_gangs_asks_for_the_finest_domain_that_can_hold_them() {
    let jobs_with = |close_percent| {
        let workload = GangWorkload {
            close_percent,
            ..workload(7)
        };
        jobs(workload.to_script())
    };
    let with_topology =
        |jobs: &[ScriptJob]| jobs.iter().filter(|j| j.gang.topology.is_some()).count();
    assert_eq!(with_topology(&jobs_with(0)), 0);
    assert!((700..900).contains(&with_topology(&jobs_with(40))));
    let all = jobs_with(100);
    for job in &all {
        let topology = job.gang.topology.as_ref().unwrap();
        let expected = match job.gang.groups[0].count {
            0..=8 => TopologyRequest::required(RACK),
            9..=32 => TopologyRequest::required(BLOCK),
            _ => TopologyRequest::preferred(BLOCK),
        };
        assert_eq!(*topology, expected);
    }
    let when = |jobs: Vec<ScriptJob>| -> Vec<_> {
        let jobs = jobs.into_iter();
        jobs.map(|j| (j.gang.id.clone(), j.runtime, j.gang.submitted))
            .collect()
    };
    assert_eq!(when(jobs_with(0)), when(all), "the other draws differ");
}

#[test]
fn share_of_the_other_gangs_uses_cores_instead_of_gpus() {
    let with_cores = GangWorkload {
        cpu_percent: 30,
        spread: true,
        ..workload(7)
    };
    let (plain, mixed) = (jobs(workload(7).to_script()), jobs(with_cores.to_script()));
    let mut cpu_jobs = 0;
    for (plain, mixed) in plain.iter().zip(&mixed) {
        let (before, after) = (&plain.gang.groups[0], &mixed.gang.groups[0]);
        let gpus = before.request.get(&ResourceName::new(GPU));
        let cores = after.request.get(&ResourceName::new("cpu"));
        assert_eq!(cores, gpus * MILLICORES_PER_GPU);
        assert_eq!(plain.gang.submitted, mixed.gang.submitted);
        let is_close = plain.gang.topology.is_some();
        assert_eq!(mixed.gang.strategy == PlacementStrategy::Spread, !is_close);
        if after.request.get(&ResourceName::new(GPU)) == 0 {
            assert!(!is_close);
            cpu_jobs += 1;
        }
    }
    // 30 % of the 60 % without a topology request.
    assert!((300..420).contains(&cpu_jobs), "{cpu_jobs}");
}

#[test]
fn workload_has_all_sizes_and_the_requested_load() {
    let jobs = jobs(workload(7).to_script());
    assert_eq!(jobs.len(), 2_000);
    for pods in [1, 2, 4, 8, 16, 32, 64] {
        assert!(
            jobs.iter().any(|j| j.gang.groups[0].count == pods),
            "{pods}"
        );
    }
    let work: f64 = jobs
        .iter()
        .map(|j| group_gpus(&j.gang.groups[0]) * j.runtime.unwrap().as_secs_f64())
        .sum();
    let last = jobs.last().unwrap().gang.submitted.as_millis() as f64 / 1000.0;
    let load = work / (1024.0 * last);
    assert!((0.75..0.85).contains(&load), "{load}");
    // A few jobs cause most of the work.
    let mut runtimes: Vec<f64> = jobs
        .iter()
        .map(|j| j.runtime.unwrap().as_secs_f64())
        .collect();
    runtimes.sort_by(f64::total_cmp);
    let all: f64 = runtimes.iter().sum();
    let longest: f64 = runtimes[1_800..].iter().sum();
    assert!(longest > all / 2.0, "{longest} of {all}");
}
