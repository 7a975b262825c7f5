//! Tests of backfill over time: gangs come, run and end, and the engine gets each event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::backfill::{MINUTE, gpu_gang};
use crate::common::*;
use crate::random::{any_node, any_request};
use proptest::prelude::*;
use trellis_scheduler::{
    Decision, Engine, Gang, GangId, PodKey, Queue, QueueOrder, Resources, Time,
};

/// A gang, and its actual runtime in milliseconds.
#[derive(Clone, Debug)]
pub struct SimulatedGang {
    pub gang: Gang,
    pub arrives_at: i64,
    pub runs_for: i64,
}

/// The events of a run.
#[derive(Default)]
pub struct RunHistory {
    pub started: BTreeMap<GangId, i64>,
    /// The first start that the engine reported for each head.
    first_reported_starts: BTreeMap<GangId, i64>,
    /// Heads that started, but not at once.
    delayed_heads: usize,
}

/// An external pod. The engine knows the time when it goes as soon as it exists.
#[derive(Clone, Debug)]
pub struct SimulatedPod {
    pub node: String,
    pub request: Resources,
    pub arrives_at: i64,
    /// When it goes. None: never.
    pub leaves_at: Option<i64>,
}

/// Simulates jobs to the end, or until `until`. A cycle runs whenever a job comes or ends, and at
/// the engine's wakeups.
pub fn run_jobs(engine: &mut Engine, jobs: Vec<SimulatedGang>, until: i64) -> RunHistory {
    run_jobs_with_external_pods(engine, jobs, &[], until)
}

/// Simulates jobs among external pods.
pub fn run_jobs_with_external_pods(
    engine: &mut Engine,
    mut jobs: Vec<SimulatedGang>,
    strangers: &[SimulatedPod],
    until: i64,
) -> RunHistory {
    jobs.sort_by_key(|job| job.arrives_at);
    let mut visits: BTreeSet<(i64, bool, usize)> = BTreeSet::new();
    for (number, stranger) in strangers.iter().enumerate() {
        visits.insert((stranger.arrives_at, true, number));
        visits.extend(stranger.leaves_at.map(|goes| (goes, false, number)));
    }
    let mut runs: BTreeMap<GangId, i64> = BTreeMap::new();
    let mut ends: BTreeMap<(i64, GangId), ()> = BTreeMap::new();
    let mut jobs = jobs.into_iter().peekable();
    let mut story = RunHistory::default();
    let mut now = 0;
    loop {
        let next = [
            jobs.peek().map(|job| job.arrives_at),
            ends.keys().next().map(|(end, _)| *end),
            visits.first().map(|(time, ..)| *time),
            engine
                .next_wakeup()
                .map(Time::as_millis)
                .filter(|t| *t > now),
        ];
        let Some(next) = next.into_iter().flatten().min().filter(|t| *t <= until) else {
            return story;
        };
        now = next;
        while let Some(((end, gang), ())) = ends.first_key_value().map(|(k, ())| (k.clone(), ()))
            && end <= now
        {
            ends.remove(&(end, gang.clone()));
            engine.delete_gang(&gang);
        }
        while let Some((_, comes, number)) = visits.first().copied().filter(|v| v.0 <= now) {
            visits.pop_first();
            let stranger = &strangers[number];
            let key = PodKey::new(format!("x/{number}"));
            if comes {
                apply_pod(
                    engine,
                    key.as_str(),
                    &stranger.node,
                    stranger.request.clone(),
                );
                if let Some(goes) = stranger.leaves_at {
                    engine.mark_pod_leaving(&key, ms(goes));
                }
            } else {
                engine.delete_pod(&key);
            }
        }
        while let Some(job) = jobs.next_if(|job| job.arrives_at <= now) {
            runs.insert(job.gang.id.clone(), job.runs_for);
            engine.apply_gang(job.gang);
        }
        for decision in engine.cycle(ms(now)) {
            match decision {
                Decision::Place { gang, .. } => {
                    story.delayed_heads +=
                        usize::from(story.first_reported_starts.contains_key(&gang));
                    ends.insert((now + runs[&gang], gang.clone()), ());
                    story.started.insert(gang, now);
                }
                Decision::Reserve {
                    gang,
                    start: Some(start),
                    ..
                } => {
                    story
                        .first_reported_starts
                        .entry(gang)
                        .or_insert(start.as_millis());
                }
                _ => {}
            }
        }
    }
}

/// Knuth's generator, MMIX.
struct Random(u64);

impl Random {
    fn next_below(&mut self, n: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.0 >> 33) % u64::try_from(n).unwrap()).unwrap()
    }
}

fn to_duration(runs: i64) -> Duration {
    Duration::from_millis(u64::try_from(runs).unwrap())
}

pub fn any_job(at: usize) -> impl Strategy<Value = SimulatedGang> {
    let groups = prop::collection::vec((1..4_u32, any_request()), 1..3);
    (groups, 0..30_i64, 0..12_i64, 0..3_u64).prop_map(move |(groups, comes, runs, grace)| {
        let groups = groups.into_iter().enumerate();
        let groups = groups.map(|(g, (count, request))| group(&format!("g{g}"), count, request));
        let mut gang = gang(&format!("w{at:02}"), groups.collect());
        gang.submitted = ms(comes);
        gang.runtime = Some(to_duration(runs));
        gang.grace = Duration::from_millis(grace);
        gang.preemptible = at.is_multiple_of(2);
        SimulatedGang {
            gang,
            arrives_at: comes,
            runs_for: runs,
        }
    })
}

proptest! {
    #![proptest_config(cases(500))]

    /// If all gangs and external pods end in time, no head starts later than first reported, and
    /// every gang that can start starts.
    #[test]
    fn head_never_starts_later_than_first_reported(
        nodes in prop::collection::vec(any_node(1), 1..5),
        jobs in (0..14_usize).prop_map(|n| (0..n).map(any_job).collect::<Vec<_>>()).prop_flat_map(|j| j),
        strangers in prop::collection::vec((0..5_usize, any_request(), 1..40_i64), 0..4),
    ) {
        let strangers: Vec<SimulatedPod> = strangers
            .into_iter()
            .map(|(node, request, goes)| SimulatedPod {
                node: crate::random::node_name(node).as_str().to_owned(),
                request,
                arrives_at: 0,
                leaves_at: Some(goes),
            })
            .collect();
        let nodes = nodes.into_iter().enumerate().map(|(i, mut node)| {
            node.name = crate::random::node_name(i);
            node
        });
        let mut engine = engine(nodes);
        let story = run_jobs_with_external_pods(&mut engine, jobs.clone(), &strangers, i64::MAX);
        for (gang, start) in &story.first_reported_starts {
            let started = story.started.get(gang);
            prop_assert!(
                started.is_some_and(|s| s <= start),
                "{} was told {} and started {:?}", gang, start, started
            );
        }
        for job in jobs {
            let could = engine.try_gang(&Gang { id: id("probe"), ..job.gang.clone() }, ms(1_000)).is_ok();
            prop_assert_eq!(story.started.contains_key(&job.gang.id), could, "{}", job.gang.id);
        }
    }
}

#[test]
fn heads_start_by_their_first_reported_start() {
    let mut random = Random(7);
    let mut engine = engine(gpu_nodes(4));
    let jobs = workload(&mut random, 300, 32);
    let story = run_jobs(&mut engine, jobs, i64::MAX);
    assert_eq!(story.started.len(), 300);
    assert!(story.delayed_heads > 20, "{} heads", story.delayed_heads);
    for (gang, start) in &story.first_reported_starts {
        assert!(story.started[gang] <= *start, "{gang}");
    }
}

/// Returns small gangs that come for this many minutes, more than the cluster has room for.
fn small_gang_stream(
    random: &mut Random,
    minutes: i64,
    told: Option<Duration>,
) -> Vec<SimulatedGang> {
    (0..minutes * 9)
        .map(|i| {
            let comes = i * MINUTE / 9;
            let mut gang = gpu_gang(&format!("small-{i:05}"), 1, None);
            gang.submitted = ms(comes);
            gang.runtime = told;
            let runs = MINUTE * (5 + random.next_below(15));
            SimulatedGang {
                gang,
                arrives_at: comes,
                runs_for: runs,
            }
        })
        .collect()
}

fn engine_with_slots(count: usize) -> Engine {
    engine((0..count).map(|i| gpu_node(&format!("n{i:03}"), 1)))
}

/// Returns the starts of two gangs of 64 that come at minutes 30 and 31.
fn wide_gang_starts(told: Option<Duration>) -> [i64; 2] {
    let mut jobs = small_gang_stream(&mut Random(1), 200, told);
    for (i, name) in ["a", "b"].into_iter().enumerate() {
        let comes = MINUTE * (30 + i64::try_from(i).unwrap());
        let mut gang = workers(name, 64, gpu(1, 1));
        gang.submitted = ms(comes);
        gang.runtime = told;
        jobs.push(SimulatedGang {
            gang,
            arrives_at: comes,
            runs_for: 10 * MINUTE,
        });
    }
    let story = run_jobs(&mut engine_with_slots(100), jobs, 200 * MINUTE);
    ["a", "b"].map(|name| {
        story
            .started
            .get(&id(name))
            .map_or(i64::MAX, |at| at / MINUTE)
    })
}

#[test]
fn endless_stream_of_small_gangs_starves_no_large_gang() {
    // 9 gangs a minute, which run for 12 minutes on average, need 108 slots. There are 100.
    let [a, b] = wide_gang_starts(None);
    // After the head's patience of 10 minutes, all running gangs end within 20 minutes.
    assert!((40..=60).contains(&a), "{a}");
    assert!((a..=a + 10 + 20).contains(&b), "{b}");
}

#[test]
fn gangs_that_exceed_their_runtime_starve_no_large_gang() {
    for told in [0, 1, 30] {
        let [a, b] = wide_gang_starts(Some(to_duration(told * MINUTE)));
        assert!(a <= 90 && b <= 150, "told {told}: {a} and {b}");
    }
}

/// Small gangs keep coming, some before the two wide gangs in order and some after. The wide gangs
/// do not block each other, and both start.
#[test]
fn two_wide_gangs_start_while_gangs_keep_passing_them() {
    for told in [None, Some(to_duration(20 * MINUTE))] {
        let mut random = Random(3);
        let mut jobs = small_gang_stream(&mut random, 200, told);
        for i in 0..200 * 2 {
            let comes = i * MINUTE / 2;
            let mut gang = gpu_gang(&format!("before-{i:05}"), 1, None);
            (gang.submitted, gang.runtime, gang.priority) = (ms(comes), told, 1);
            let runs = MINUTE * (5 + random.next_below(15));
            jobs.push(SimulatedGang {
                gang,
                arrives_at: comes,
                runs_for: runs,
            });
        }
        for name in ["a", "b"] {
            let comes = 30 * MINUTE;
            let mut gang = workers(name, 64, gpu(1, 1));
            (gang.submitted, gang.runtime) = (ms(comes), told);
            let runs = 10 * MINUTE;
            jobs.push(SimulatedGang {
                gang,
                arrives_at: comes,
                runs_for: runs,
            });
        }
        let story = run_jobs(&mut engine_with_slots(100), jobs, 200 * MINUTE);
        let started = |name: &str| story.started.get(&id(name)).map(|at| at / MINUTE);
        let [a, b] = ["a", "b"].map(started);
        assert!(a.is_some_and(|a| a <= 100), "told {told:?}: {a:?}");
        assert!(b.is_some_and(|b| b <= 160), "told {told:?}: {b:?}");
    }
}

/// Returns jobs at about the rate that the cluster can handle. Most are small, and some as large as
/// half of the cluster.
fn workload(random: &mut Random, count: usize, gpus: i64) -> Vec<SimulatedGang> {
    let mut comes = 0;
    let mut jobs = Vec::new();
    for i in 0..count {
        let (pods, each) = match random.next_below(20) {
            0..10 => (1, 1 + random.next_below(4)),
            10..16 => (1, 8),
            16..19 => (2 + random.next_below(3), 8),
            _ => (gpus / 16, 8),
        };
        // From a minute to 5 hours, mostly short.
        let runs = MINUTE
            * (1 + random.next_below(30) * (1 + random.next_below(10) * random.next_below(2)));
        let pods = u32::try_from(pods.min(gpus / 8)).unwrap();
        let mut gang = workers(&format!("w{i:04}"), pods, gpu(1, each));
        gang.submitted = ms(comes);
        gang.runtime = Some(to_duration(runs));
        jobs.push(SimulatedGang {
            gang,
            arrives_at: comes,
            runs_for: runs,
        });
        // Jobs come as fast as the cluster can run them.
        comes += MINUTE * i64::from(pods) * each * (1 + random.next_below(100)) / gpus;
    }
    jobs
}

/// Returns the mean wait of all jobs, and of those of at least four nodes, in minutes.
fn mean_waits(story: &RunHistory, jobs: &[SimulatedGang], offset: i64) -> (i64, i64) {
    let mean = |large: bool| {
        let of = jobs
            .iter()
            .filter(|job| !large || job.gang.pod_count() >= 4);
        let waits: Vec<i64> = of
            .map(|job| story.started[&job.gang.id] - job.arrives_at - offset)
            .collect();
        waits.iter().sum::<i64>() / i64::try_from(waits.len().max(1)).unwrap() / MINUTE
    };
    (mean(false), mean(true))
}

#[test]
fn backfill_shortens_waits_without_delaying_large_gangs() {
    let mut sums = [(0, 0); 3];
    for seed in 0..5 {
        let jobs = workload(&mut Random(seed), 400, 128);
        let nodes = || engine(gpu_nodes(16));
        let mut strict = nodes();
        strict.apply_queue(Queue {
            order: QueueOrder::StrictFifo,
            ..queue("default", None)
        });
        // No end is known, and no gang has waited for long.
        let unprotected = jobs.iter().cloned().map(|mut job| {
            job.gang.runtime = None;
            job.gang.submitted = job.gang.submitted.plus_millis(1 << 50);
            job
        });
        let stories = [
            run_jobs(&mut strict, jobs.clone(), i64::MAX),
            run_jobs(&mut nodes(), unprotected.collect(), i64::MAX),
            run_jobs(&mut nodes(), jobs.clone(), i64::MAX),
        ];
        for (sum, story) in sums.iter_mut().zip(&stories) {
            let (all, large) = mean_waits(story, &jobs, 0);
            *sum = (sum.0 + all, sum.1 + large);
        }
    }
    let [strict, unprotected, ours] = sums;
    let text = format!("strict {strict:?}, unprotected {unprotected:?}, ours {ours:?}");
    assert!(ours.0 * 2 < strict.0, "{text}");
    assert!(ours.1 < strict.1 && ours.1 < unprotected.1, "{text}");
    println!("{text}");
}
