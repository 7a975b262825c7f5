//! Small scripts, to the line.

use std::time::Duration;

use trellis_api::job::Restart;
use trellis_scheduler::{
    Gang, GangId, GroupName, Node, NodeName, PodKey, Queue, QueueName, Resources, TaskGroup, Time,
};

use super::expect::{Look as _, Standing};
use super::*;

const GPU: &str = "nvidia.com/gpu";

fn node(name: &str, gpus: i64) -> Change {
    let offers = Resources::new().with("pods", 110).with(GPU, gpus);
    Change::Node(Node::new(NodeName::new(name), offers))
}

fn at(seconds: i64) -> Time {
    Time::from_millis(seconds.saturating_mul(1_000))
}

/// A gang of so many pods of 8 GPUs that runs for so many seconds.
fn job(name: &str, pods: u32, submitted: i64, runs: Option<u64>) -> Job {
    let request = Resources::new().with(GPU, 8);
    let group = TaskGroup::new(GroupName::new("w"), pods, request, format!("{name}-w"));
    Job {
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
        hours: Vec::new(),
        surplus: Vec::new(),
        restart: Restart::default(),
        runs_as: name.to_owned(),
    }
}

/// Two nodes of 8 GPUs, a queue, and these jobs.
fn script(jobs: Vec<Job>) -> Script {
    let mut script = Script::new();
    script.at(at(0), Change::Queue(Queue::new(QueueName::new("q"))));
    for name in ["n0", "n1"] {
        script.at(at(0), node(name, 8));
    }
    for job in jobs {
        script.at(job.gang.submitted, Change::Job(Box::new(job)));
    }
    script
}

fn lines(script: Script, options: Options) -> (Vec<String>, Summary) {
    let mut lines = Vec::new();
    let summary = run(script, options, &mut |record: &Record<'_>| {
        lines.push(serde_json::to_string(record).unwrap());
    });
    (lines, summary)
}

fn events(script: Script) -> Vec<(f64, String, String)> {
    let (lines, _) = lines(script, Options::default());
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
fn a_line_says_when_what_who_where_and_why() {
    let jobs = vec![job("a", 2, 0, Some(12)), job("b", 1, 2, Some(5))];
    let (lines, summary) = lines(script(jobs), Options::default());
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
fn a_lost_node_costs_the_gang_its_work_and_it_runs_whole_again() {
    let mut script = script(vec![job("a", 2, 0, Some(100))]);
    script.at(at(60), Change::NodeGone(NodeName::new("n1")));
    script.at(at(70), node("n2", 8));
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
fn a_limit_ends_what_runs_longer() {
    let limited = |name, runs| Job {
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
fn what_is_deleted_is_gone_and_what_has_ended_does_not_run_again() {
    let mut script = script(vec![job("a", 2, 0, None), job("b", 2, 1, Some(10))]);
    script.at(at(5), Change::JobGone(GangId::new("team/a")));
    script.at(at(30), Change::Job(Box::new(job("b", 1, 30, Some(10)))));
    script.at(at(40), Change::JobGone(GangId::new("team/b")));
    script.at(at(50), Change::Job(Box::new(job("b", 1, 50, Some(10)))));
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
fn others_pods_count_and_are_given_back() {
    let mut script = script(vec![job("a", 2, 1, Some(10))]);
    let pod = PodKey::new("x/p");
    let request = Resources::new().with(GPU, 4);
    script.at(
        at(0),
        Change::Pod(pod.clone(), NodeName::new("n0"), request),
    );
    script.at(at(9), Change::PodGone(pod));
    let expected = [
        event(1.0, "waiting", "a"),
        event(9.0, "placed", "a"),
        event(19.0, "finished", "a"),
    ];
    assert_eq!(events(script), expected);
}

fn expect(placed: &[&str], pending: &[&str], preempted: &[&str]) -> Change {
    let ids = |names: &[&str]| {
        let ids = names.iter().map(|n| GangId::new(format!("team/{n}")));
        Some(ExpectedJobs::All(ids.collect()))
    };
    Change::Expect(Expect {
        placed: ids(placed),
        pending: ids(pending),
        preempted: ids(preempted),
        ..Expect::default()
    })
}

#[test]
fn expectations_are_of_what_is_so_when_all_has_happened() {
    let mut script = script(vec![job("a", 2, 0, Some(10)), job("b", 1, 0, Some(10))]);
    // Before what happens at that time, as it is written.
    script.at(at(0), expect(&["a"], &["b"], &[]));
    script.at(at(10), expect(&["b"], &[], &[]));
    script.at(at(20), expect(&["b"], &["a"], &["b"]));
    script.at(at(99), expect(&[], &[], &[]));
    let options = Options {
        until: Some(at(50)),
        ..Options::default()
    };
    let (_, summary) = lines(script, options);
    let told: Vec<_> = summary
        .expects
        .iter()
        .map(|e| (e.t, e.held, e.reason.as_str()))
        .collect();
    assert_eq!(
        told,
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
fn an_empty_list_says_that_there_is_none() {
    let mut script = script(vec![job("a", 2, 0, None)]);
    script.at(at(1), expect(&[], &[], &[]));
    let (_, summary) = lines(script, Options::default());
    assert_eq!(
        summary.expects[0].reason,
        "team/a is placed, and none is expected to be"
    );
}

#[test]
fn predictions_come_from_earlier_runs() {
    let mut first = script(vec![job("a", 2, 0, Some(100))]);
    let again = |name: &str, submitted| Job {
        runs_as: "a".to_owned(),
        ..job(name, 2, submitted, Some(250))
    };
    first.at(at(200), Change::Job(Box::new(again("b", 200))));
    let options = Options {
        runtimes: Runtimes::Predicted,
        ..Options::default()
    };
    let mut nothing = |_: &Record<'_>| {};
    let mut runner = Runner::new(options, &mut nothing);
    runner.run(first.into_order());
    let b = runner.jobs.get(&GangId::new("team/b")).unwrap();
    assert_eq!(b.gang.predicted, Some(Duration::from_secs(100)));
    assert_eq!(
        runner.predictor.predict("a"),
        Some(Duration::from_secs(175))
    );
    assert_eq!(runner.tally.jobs, 2);
}

/// Ten run in the queue and end; one waits all the while, one comes after.
#[test]
fn of_whom_nothing_is_known_its_queue_tells_even_while_it_waits() {
    let mut jobs: Vec<Job> = (0..10)
        .map(|n| job(&format!("j{n}"), 1, 0, Some(100)))
        .collect();
    jobs.push(job("waits", 1_000, 0, Some(1)));
    let mut script = script(jobs);
    let late = job("late", 1_000, 500, Some(1));
    script.at(at(500), Change::Job(Box::new(late)));
    let options = Options {
        runtimes: Runtimes::Predicted,
        unknown_percent: 100,
        ..Options::default()
    };
    let mut nothing = |_: &Record<'_>| {};
    let mut runner = Runner::new(options, &mut nothing);
    runner.run(script.into_order());
    for name in ["team/waits", "team/late"] {
        let job = runner.jobs.get(&GangId::new(name)).unwrap();
        assert_eq!(job.stage, super::job::Stage::Waiting, "{name}");
        // 100 s, rounded up.
        assert_eq!(job.gang.predicted, Some(Duration::from_secs(300)), "{name}");
    }
}

#[test]
fn runtimes_are_told_as_asked_and_some_are_not() {
    let told = |runtimes, unknown_percent| {
        let jobs = (0..200).map(|n| Job {
            gang: Gang {
                runtime: Some(Duration::from_secs(999)),
                ..job(&format!("j{n}"), 1, 0, Some(10)).gang
            },
            ..job(&format!("j{n}"), 1, 0, Some(10))
        });
        let options = Options {
            runtimes,
            unknown_percent,
            ..Options::default()
        };
        let mut nothing = |_: &Record<'_>| {};
        let mut runner = Runner::new(options, &mut nothing);
        runner.run(script(jobs.collect()).into_order());
        let of = |seconds| {
            let known = Some(Duration::from_secs(seconds));
            runner
                .jobs
                .values()
                .filter(|j| j.gang.runtime == known)
                .count()
        };
        (of(999), of(10))
    };
    assert_eq!(told(Runtimes::Declared, 0), (200, 0));
    assert_eq!(told(Runtimes::Exact, 0), (0, 200));
    assert_eq!(told(Runtimes::Predicted, 0), (0, 0));
    assert_eq!(told(Runtimes::Declared, 100), (0, 0));
    let (declared, _) = told(Runtimes::Declared, 50);
    assert!((70..130).contains(&declared), "{declared}");
}

/// The engine's part is tested with the engine: this is what the simulation
/// makes of what it decides.
#[test]
fn a_victim_stops_after_its_grace_loses_its_work_and_waits_again() {
    let mut victim = job("v", 2, 0, Some(100));
    victim.gang.grace = Duration::from_secs(30);
    let options = Options {
        until: Some(at(40)),
        ..Options::default()
    };
    let mut told = Vec::new();
    let mut tell = |record: &Record<'_>| {
        let t = super::seconds(record.t);
        told.push((t, record.event.as_str(), record.reason.clone()));
    };
    let mut runner = Runner::new(options, &mut tell);
    runner.run(script(vec![victim]).into_order());
    runner.options.until = None;
    let id = GangId::new("team/v");
    runner.carry_out(&Decision::Preempt {
        gang: GangId::new("team/other"),
        placement: Placement::new(),
        victims: vec![Victim {
            gang: id.clone(),
            because: trellis_scheduler::Because::LowerPriority,
            lost_device_seconds: 640,
        }],
    });
    assert_eq!(runner.standing(&id), Standing::Waiting);
    runner.run(Vec::new());
    assert!(runner.was_preempted(&id));
    let summary = runner.sum_up();
    assert_eq!(summary.preemptions, 1);
    let why = "for team/other: its priority is lower; 640 device-seconds of work are lost";
    let expected = [
        (0.0, "placed", ""),
        (40.0, "nominated", "once 1 victims are gone"),
        (40.0, "preempted", why),
        (70.0, "placed", ""),
        (170.0, "finished", ""),
    ];
    let told: Vec<_> = told.iter().map(|(t, e, r)| (*t, *e, r.as_str())).collect();
    assert_eq!(told, expected);
}
