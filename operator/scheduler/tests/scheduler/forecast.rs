//! Tests that pending gangs start as forecast if all gangs end in time and no new gang comes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::backfill::{MINUTE, at, cycle_at, part, whole};
use crate::backfill_runs::{any_job, run};
use crate::common::*;
use crate::random::{any_node, node_name};
use proptest::prelude::*;
use trellis_scheduler::{
    Engine, Forecast, Gang, NodeName, PodKey, Preemption, Queue, QueueName, Time, WithinQueue,
};

/// Minutes of the expected starts, by the gang's name.
fn expected(engine: &Engine) -> BTreeMap<String, i64> {
    let forecast = Forecast::of(&engine.snapshot(), |_| true);
    assert!(!forecast.cut_off);
    let starts = forecast.starts.into_iter();
    starts
        .map(|(gang, start)| {
            let name = gang.as_str().trim_start_matches("team/").to_owned();
            (name, start.as_millis() / MINUTE)
        })
        .collect()
}

fn starts<const N: usize>(starts: [(&str, i64); N]) -> BTreeMap<String, i64> {
    starts.map(|(name, at)| (name.to_owned(), at)).into()
}

#[test]
fn one_starts_when_the_one_before_it_ends() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(whole("runs", 2, Some(10)));
    assert_eq!(cycle_at(&mut engine, 0), ["+runs"]);
    // Their pods exist: they go with their gang.
    for (index, node) in [(0, "n00"), (1, "n01")] {
        engine.apply_pod(worker("runs", index), NodeName::new(node), gpu(1, 8));
    }
    engine.apply_gang(at(1, whole("next", 2, Some(5))));
    engine.apply_gang(at(2, whole("after", 1, None)));
    engine.apply_gang(at(3, part("beside", 8, Some(1))));
    engine.apply_gang(at(4, whole("never", 2, Some(1))));
    engine.apply_gang(at(5, whole("too-large", 3, Some(1))));
    cycle_at(&mut engine, 5);
    let expected_now = starts([("next", 10), ("after", 15), ("beside", 15)]);
    assert_eq!(expected(&engine), expected_now);
    // The forecast changes nothing in the engine itself.
    assert_eq!(expected(&engine), expected_now);
    assert_eq!(engine.waiting_gangs(), 5);
}

#[test]
fn what_is_past_its_end_has_none() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_gang(part("runs", 8, Some(10)));
    cycle_at(&mut engine, 0);
    engine.apply_gang(at(1, part("next", 8, Some(10))));
    cycle_at(&mut engine, 9);
    assert_eq!(expected(&engine), starts([("next", 10)]));
    cycle_at(&mut engine, 11);
    assert_eq!(expected(&engine), starts([]));
}

#[test]
fn foreign_pods_stay_and_victims_come_back() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(Queue {
        preemption: Preemption {
            within_queue: WithinQueue::LowerPriority,
            ..Preemption::default()
        },
        ..Queue::new(QueueName::new("default"))
    });
    pod(&mut engine, "foreign/pod", "n01", gpu(1, 8));
    let low = Gang {
        grace: Duration::from_secs(120),
        ..part("low", 8, Some(30))
    };
    engine.apply_gang(low);
    assert_eq!(cycle_at(&mut engine, 0), ["+low"]);
    engine.apply_gang(at(
        1,
        Gang {
            priority: 1,
            ..part("high", 8, Some(20))
        },
    ));
    assert_eq!(cycle_at(&mut engine, 1), ["!high low"]);
    assert_eq!(expected(&engine), starts([("high", 3), ("low", 23)]));
    engine.delete_pod(&PodKey::new("foreign/pod"));
    assert_eq!(expected(&engine)["low"], 3, "as soon as it has stopped");
}

#[test]
fn pods_that_leave_by_themselves_are_gone_when_they_said() {
    let mut engine = engine(gpu_nodes(2));
    for (name, node, minute) in [("foreign/soon", "n00", 5), ("foreign/late", "n01", 0)] {
        pod(&mut engine, name, node, gpu(1, 8));
        engine.pod_leaves(&PodKey::new(name), Time::from_millis(minute * MINUTE));
    }
    engine.apply_gang(at(1, part("next", 8, Some(10))));
    engine.apply_gang(at(1, whole("two", 2, None)));
    cycle_at(&mut engine, 1);
    // The other pod should have gone a minute ago: its end is unknown.
    assert_eq!(expected(&engine), starts([("next", 5)]));
    engine.delete_pod(&PodKey::new("foreign/late"));
    assert_eq!(expected(&engine), starts([("next", 1), ("two", 11)]));
}

/// Minutes of the expected ends, by the gang's name.
fn ends(engine: &Engine) -> BTreeMap<String, i64> {
    let forecast = Forecast::of(&engine.snapshot(), |_| true);
    let ends = forecast.ends.into_iter();
    ends.map(|(gang, end)| {
        let name = gang.as_str().trim_start_matches("team/").to_owned();
        (name, end.as_millis() / MINUTE)
    })
    .collect()
}

/// A victim ends when it has made room, and not when it would have finished its work; this holds
/// without a known end too. Its next run is another one.
#[test]
fn who_makes_room_ends_with_its_grace() {
    for runtime in [Some(30), None] {
        let mut engine = engine(gpu_nodes(1));
        engine.apply_queue(Queue {
            preemption: Preemption {
                within_queue: WithinQueue::LowerPriority,
                ..Preemption::default()
            },
            ..Queue::new(QueueName::new("default"))
        });
        let low = Gang {
            grace: Duration::from_mins(4),
            ..part("low", 8, runtime)
        };
        engine.apply_gang(low);
        assert_eq!(cycle_at(&mut engine, 0), ["+low"]);
        engine.apply_pod(worker("low", 0), NodeName::new("n00"), gpu(1, 8));
        let alone = runtime.map(|_| ("low".to_owned(), 34));
        assert_eq!(ends(&engine), alone.into_iter().collect());
        let high = Gang {
            priority: 1,
            ..part("high", 8, Some(10))
        };
        engine.apply_gang(at(10, high));
        let expected = starts([("low", 4), ("high", 14)]);
        // Before the decision, and while the gang leaves, however long that takes.
        assert_eq!(ends(&engine), expected, "{runtime:?}");
        cycle_at(&mut engine, 0);
        for minute in [0, 1, 3] {
            cycle_at(&mut engine, minute);
            assert_eq!(ends(&engine).get("low"), Some(&4), "{runtime:?} {minute}");
        }
        // The gang should have gone: its end is unknown.
        cycle_at(&mut engine, 6);
        assert_eq!(ends(&engine).get("low"), None, "{runtime:?}");
    }
}

#[test]
fn it_is_cut_off_where_it_would_take_too_long() {
    let mut engine = engine(gpu_nodes(1));
    for n in 0..10 {
        engine.apply_gang(at(n, part(&format!("w{n}"), 8, Some(10))));
    }
    cycle_at(&mut engine, 0);
    let short = Forecast::of(&engine.snapshot(), |moments| moments < 5);
    assert!(short.cut_off);
    assert_eq!(short.starts.len(), 4);
    let whole = Forecast::of(&engine.snapshot(), |_| true);
    assert!(!whole.cut_off);
    assert_eq!(whole.starts.len(), 9);
}

proptest! {
    #![proptest_config(cases(300))]

    /// If all gangs end in time and no new gang comes, all start as forecast.
    #[test]
    fn all_start_as_expected(
        nodes in prop::collection::vec(any_node(1), 1..5),
        jobs in (0..14_usize).prop_map(|n| (0..n).map(any_job).collect::<Vec<_>>()).prop_flat_map(|j| j),
    ) {
        let nodes: Vec<_> = nodes.into_iter().enumerate().map(|(i, mut node)| {
            node.name = node_name(i);
            node
        }).collect();
        let jobs: Vec<_> = jobs.into_iter().map(|mut job| {
            job.gang.grace = Duration::ZERO;
            job
        }).collect();
        let last = jobs.iter().map(|job| job.comes).max().unwrap_or(0);
        let mut now = engine(nodes.clone());
        run(&mut now, jobs.clone(), last);
        let forecast = Forecast::of(&now.snapshot(), |_| true);
        let mut whole = engine(nodes);
        let mut later = run(&mut whole, jobs, i64::MAX).started;
        later.retain(|gang, _| now.waiting().any(|waits| waits == gang));
        let expected: BTreeMap<_, _> =
            forecast.starts.into_iter().map(|(gang, at)| (gang, at.as_millis())).collect();
        prop_assert_eq!(expected, later);
    }
}
