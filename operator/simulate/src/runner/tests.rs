//! Small scripts with their exact events.

use std::time::Duration;

use trellis_api::job::Restart;
use trellis_scheduler::{
    Decision, Gang, GangId, GroupName, Node, NodeName, PodKey, Queue, QueueName, Resources,
    TaskGroup, Time, Victim,
};

use super::expectations::{JobObserver as _, SimulatedJobState};
use super::*;

const GPU: &str = "nvidia.com/gpu";

fn node(name: &str, gpus: i64) -> ScriptChange {
    let offers = Resources::new().with("pods", 110).with(GPU, gpus);
    ScriptChange::Node(Node::new(NodeName::new(name), offers))
}

fn at(seconds: i64) -> Time {
    Time::from_millis(seconds.saturating_mul(1_000))
}

/// A gang of `pods` pods with 8 GPUs each that runs for `runs` seconds.
fn job(name: &str, pods: u32, submitted: i64, runs: Option<u64>) -> ScriptJob {
    let request = Resources::new().with(GPU, 8);
    let group = TaskGroup::new(GroupName::new("w"), pods, request, format!("{name}-w"));
    ScriptJob {
        gang: Gang {
            submitted: at(submitted),
            ..Gang::new(
                GangId::new(format!("team/{name}")),
                QueueName::new("q"),
                vec![group],
            )
        },
        runtime: runs.map(Duration::from_secs),
        limit: None,
        gpu_hour_limits: Vec::new(),
        surplus: Vec::new(),
        restart: Restart::default(),
        prediction_key: name.to_owned(),
    }
}

/// A script with two nodes of 8 GPUs, a queue, and these jobs.
fn script(jobs: Vec<ScriptJob>) -> SimulationScript {
    let mut script = SimulationScript::new();
    script.add(at(0), ScriptChange::Queue(Queue::new(QueueName::new("q"))));
    for name in ["n0", "n1"] {
        script.add(at(0), node(name, 8));
    }
    for job in jobs {
        script.add(job.gang.submitted, ScriptChange::Job(Box::new(job)));
    }
    script
}

fn lines(script: SimulationScript, options: SimulationOptions) -> (Vec<String>, SimulationSummary) {
    let mut lines = Vec::new();
    let summary = run_script(script, options, &mut |record: &SimulationRecord<'_>| {
        lines.push(serde_json::to_string(record).unwrap());
    });
    (lines, summary)
}

fn events(script: SimulationScript) -> Vec<(f64, String, String)> {
    let (lines, _) = lines(script, SimulationOptions::default());
    let read = |line: &String| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let word = |key: &str| line[key].as_str().unwrap().to_owned();
        (line["t"].as_f64().unwrap(), word("event"), word("job"))
    };
    lines.iter().map(read).collect()
}

fn event(t: f64, event: &str, job: &str) -> (f64, String, String) {
    (t, event.to_owned(), format!("team/{job}"))
}

#[test]
fn record_line_has_time_event_job_place_and_reason() {
    let jobs = vec![job("a", 2, 0, Some(12)), job("b", 1, 2, Some(5))];
    let (lines, summary) = lines(script(jobs), SimulationOptions::default());
    assert_eq!(
        lines,
        [
            r#"{"t":0.0,"event":"placed","job":"team/a","pods":{"a-w-0":"n0","a-w-1":"n1"},"reason":""}"#,
            r#"{"t":2.0,"event":"reserved","job":"team/b","pods":{"b-w-0":"n0"},"reason":"no start is known"}"#,
            r#"{"t":2.0,"event":"waiting","job":"team/b","pods":{},"reason":"InsufficientCapacity: needs 8 nvidia.com/gpu, 0 are free on 2 matching nodes: 8 are missing; gangs hold 16, other pods 0"}"#,
            r#"{"t":12.0,"event":"finished","job":"team/a","pods":{},"reason":""}"#,
            r#"{"t":12.0,"event":"placed","job":"team/b","pods":{"b-w-0":"n0"},"reason":""}"#,
            r#"{"t":17.0,"event":"finished","job":"team/b","pods":{},"reason":""}"#,
        ]
    );
    assert_eq!((summary.jobs, summary.placed, summary.finished), (2, 2, 2));
    assert_eq!(summary.mean_wait_seconds, Some(5.0));
    assert_eq!(summary.p50_wait_seconds, Some(0.0));
    assert_eq!(summary.p99_wait_seconds, Some(10.0));
    assert_eq!(summary.mean_completion_seconds, Some(13.5));
    assert_eq!(summary.longest_head_wait_seconds, Some(10.0));
    // 16 of 16 for 12 s, 8 of 16 for 5 s.
    let percent = 100.0 * (16.0 * 12.0 + 8.0 * 5.0) / (16.0 * 17.0);
    assert_eq!(summary.allocated_gpu_percent, percent);
    assert_eq!(summary.end_seconds, Some(17.0));
}

#[test]
fn gang_restarts_from_zero_after_a_lost_node() {
    let mut script = script(vec![job("a", 2, 0, Some(100))]);
    script.add(at(60), ScriptChange::NodeDeleted(NodeName::new("n1")));
    script.add(at(70), node("n2", 8));
    let expected = [
        event(0.0, "placed", "a"),
        event(60.0, "restarted", "a"),
        event(60.0, "waiting", "a"),
        event(70.0, "placed", "a"),
        event(170.0, "finished", "a"),
    ];
    assert_eq!(events(script), expected);
}

#[test]
fn limit_ends_a_longer_job() {
    let limited = |name, runs| ScriptJob {
        limit: Some(Duration::from_secs(50)),
        ..job(name, 1, 0, runs)
    };
    let jobs = vec![limited("long", Some(80)), limited("open", None)];
    let expected = [
        event(0.0, "placed", "long"),
        event(0.0, "placed", "open"),
        event(50.0, "failed", "long"),
        event(50.0, "finished", "open"),
    ];
    assert_eq!(events(script(jobs)), expected);
}

#[test]
fn deleted_and_ended_jobs_do_not_run_again() {
    let mut script = script(vec![job("a", 2, 0, None), job("b", 2, 1, Some(10))]);
    script.add(at(5), ScriptChange::JobDeleted(GangId::new("team/a")));
    script.add(
        at(30),
        ScriptChange::Job(Box::new(job("b", 1, 30, Some(10)))),
    );
    script.add(at(40), ScriptChange::JobDeleted(GangId::new("team/b")));
    script.add(
        at(50),
        ScriptChange::Job(Box::new(job("b", 1, 50, Some(10)))),
    );
    let expected = [
        event(0.0, "placed", "a"),
        event(1.0, "reserved", "b"),
        event(1.0, "waiting", "b"),
        event(5.0, "deleted", "a"),
        event(5.0, "placed", "b"),
        event(15.0, "finished", "b"),
        event(40.0, "deleted", "b"),
        event(50.0, "placed", "b"),
        event(60.0, "finished", "b"),
    ];
    assert_eq!(events(script), expected);
}

#[test]
fn external_pods_use_and_release_capacity() {
    let mut script = script(vec![job("a", 2, 1, Some(10))]);
    let pod = PodKey::new("x/p");
    let request = Resources::new().with(GPU, 4);
    script.add(
        at(0),
        ScriptChange::ExternalPod(pod.clone(), NodeName::new("n0"), request),
    );
    script.add(at(9), ScriptChange::ExternalPodDeleted(pod));
    let expected = [
        event(1.0, "waiting", "a"),
        event(9.0, "placed", "a"),
        event(19.0, "finished", "a"),
    ];
    assert_eq!(events(script), expected);
}

fn expect(placed: &[&str], pending: &[&str], preempted: &[&str]) -> ScriptChange {
    let ids = |names: &[&str]| {
        let ids = names.iter().map(|n| GangId::new(format!("team/{n}")));
        Some(ExpectedJobs::All(ids.collect()))
    };
    ScriptChange::Expect(Expectations {
        placed: ids(placed),
        pending: ids(pending),
        preempted: ids(preempted),
        ..Expectations::default()
    })
}

#[test]
fn expectations_are_checked_after_all_events_of_the_time() {
    let mut script = script(vec![job("a", 2, 0, Some(10)), job("b", 1, 0, Some(10))]);
    // The script has the expectation before the other changes of that time.
    script.add(at(0), expect(&["a"], &["b"], &[]));
    script.add(at(10), expect(&["b"], &[], &[]));
    script.add(at(20), expect(&["b"], &["a"], &["b"]));
    script.add(at(99), expect(&[], &[], &[]));
    let options = SimulationOptions {
        until: Some(at(50)),
        ..SimulationOptions::default()
    };
    let (_, summary) = lines(script, options);
    let results: Vec<_> = summary
        .expects
        .iter()
        .map(|e| (e.t, e.held, e.reason.as_str()))
        .collect();
    assert_eq!(
        results,
        [
            (0.0, true, ""),
            (10.0, true, ""),
            (
                20.0,
                false,
                "team/b has ended, expected placed; team/a has ended, expected pending; team/b was not preempted, expected preempted"
            ),
            (99.0, false, "not reached: the simulation ends at 50 s"),
        ]
    );
    assert_eq!(summary.expects_held, Some(false));
    assert_eq!(summary.end_seconds, Some(50.0));
}

#[test]
fn empty_expectation_list_means_no_job() {
    let mut script = script(vec![job("a", 2, 0, None)]);
    script.add(at(1), expect(&[], &[], &[]));
    let (_, summary) = lines(script, SimulationOptions::default());
    assert_eq!(summary.expects[0].reason, "team/a is placed, expected none");
}

#[test]
fn predictions_come_from_earlier_runs() {
    let mut first = script(vec![job("a", 2, 0, Some(100))]);
    let repeated_job = |name: &str, submitted| ScriptJob {
        prediction_key: "a".to_owned(),
        ..job(name, 2, submitted, Some(250))
    };
    first.add(at(200), ScriptChange::Job(Box::new(repeated_job("b", 200))));
    let options = SimulationOptions {
        runtimes: BackfillRuntimeSource::Predicted,
        ..SimulationOptions::default()
    };
    let mut nothing = |_: &SimulationRecord<'_>| {};
    let mut runner = SimulationRunner::new(options, &mut nothing);
    runner.run(first.into_changes());
    let b = runner.jobs.get(&GangId::new("team/b")).unwrap();
    assert_eq!(b.gang.predicted, Some(Duration::from_secs(100)));
    assert_eq!(
        runner.predictor.predict("a"),
        Some(Duration::from_secs(175))
    );
    assert_eq!(runner.tally.jobs, 2);
}

/// Ten jobs run in the queue and end. One job is pending during that time, and one is submitted
/// afterwards.
#[test]
fn job_without_history_uses_the_prediction_of_its_queue() {
    let mut jobs: Vec<ScriptJob> = (0..10)
        .map(|n| job(&format!("j{n}"), 1, 0, Some(100)))
        .collect();
    jobs.push(job("waits", 1_000, 0, Some(1)));
    let mut script = script(jobs);
    let late_job = job("late", 1_000, 500, Some(1));
    script.add(at(500), ScriptChange::Job(Box::new(late_job)));
    let options = SimulationOptions {
        runtimes: BackfillRuntimeSource::Predicted,
        unknown_percent: 100,
        ..SimulationOptions::default()
    };
    let mut nothing = |_: &SimulationRecord<'_>| {};
    let mut runner = SimulationRunner::new(options, &mut nothing);
    runner.run(script.into_changes());
    for name in ["team/waits", "team/late"] {
        let job = runner.jobs.get(&GangId::new(name)).unwrap();
        assert_eq!(
            job.stage,
            super::simulated_job::SimulatedJobStage::Waiting,
            "{name}"
        );
        // The prediction is 100 s, rounded up.
        assert_eq!(job.gang.predicted, Some(Duration::from_secs(300)), "{name}");
    }
}

#[test]
fn backfill_runtimes_follow_the_options() {
    let runtime_counts = |runtimes, unknown_percent| {
        let jobs = (0..200).map(|n| ScriptJob {
            gang: Gang {
                runtime: Some(Duration::from_secs(999)),
                ..job(&format!("j{n}"), 1, 0, Some(10)).gang
            },
            ..job(&format!("j{n}"), 1, 0, Some(10))
        });
        let options = SimulationOptions {
            runtimes,
            unknown_percent,
            ..SimulationOptions::default()
        };
        let mut nothing = |_: &SimulationRecord<'_>| {};
        let mut runner = SimulationRunner::new(options, &mut nothing);
        runner.run(script(jobs.collect()).into_changes());
        let summary_until = |seconds| {
            let known = Some(Duration::from_secs(seconds));
            runner
                .jobs
                .values()
                .filter(|j| j.gang.runtime == known)
                .count()
        };
        (summary_until(999), summary_until(10))
    };
    assert_eq!(runtime_counts(BackfillRuntimeSource::Declared, 0), (200, 0));
    assert_eq!(runtime_counts(BackfillRuntimeSource::Exact, 0), (0, 200));
    assert_eq!(runtime_counts(BackfillRuntimeSource::Predicted, 0), (0, 0));
    assert_eq!(runtime_counts(BackfillRuntimeSource::Declared, 100), (0, 0));
    let (declared, _) = runtime_counts(BackfillRuntimeSource::Declared, 50);
    assert!((70..130).contains(&declared), "{declared}");
}

/// The tests of the engine cover its decisions. This test covers their effects in the simulation.
#[test]
fn victim_stops_after_its_grace_and_waits_again() {
    let mut victim = job("v", 2, 0, Some(100));
    victim.gang.grace = Duration::from_secs(30);
    let options = SimulationOptions {
        until: Some(at(40)),
        ..SimulationOptions::default()
    };
    let mut records = Vec::new();
    let mut record_sink = |record: &SimulationRecord<'_>| {
        let SimulationRecord::Job(record) = record else {
            return;
        };
        let t = super::to_seconds(record.t);
        records.push((t, record.event.as_str(), record.reason.clone()));
    };
    let mut runner = SimulationRunner::new(options, &mut record_sink);
    runner.run(script(vec![victim]).into_changes());
    runner.options.until = None;
    let id = GangId::new("team/v");
    runner.apply_decision(&Decision::Preempt {
        gang: GangId::new("team/other"),
        placement: Placement::new(),
        victims: vec![Victim {
            gang: id.clone(),
            reason: trellis_scheduler::PreemptionReason::LowerPriority,
            lost_device_seconds: 640,
        }],
    });
    assert_eq!(runner.job_state(&id), SimulatedJobState::Waiting);
    runner.run(Vec::new());
    assert!(runner.was_preempted(&id));
    let summary = runner.into_summary();
    assert_eq!(summary.preemptions, 1);
    let reason = "for team/other: its priority is lower; 640 device-seconds of work are lost";
    let expected = [
        (0.0, "placed", ""),
        (40.0, "nominated", "once 1 victim is gone"),
        (40.0, "preempted", reason),
        (70.0, "placed", ""),
        (170.0, "finished", ""),
    ];
    let records: Vec<_> = records
        .iter()
        .map(|(t, e, r)| (*t, *e, r.as_str()))
        .collect();
    assert_eq!(records, expected);
}
