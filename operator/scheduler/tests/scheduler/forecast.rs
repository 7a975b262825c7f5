//! Tests that pending gangs start as forecast if all gangs end in time and no new gang comes.

mod backlog;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::backfill::runs::{any_job, run_jobs};
use crate::backfill::{MINUTE, cycle_at, gpu_gang, submitted_at, whole_node_gang};
use crate::common::*;
use crate::random::{any_node, node_name};
use proptest::prelude::*;
use trellis_scheduler::{
    Engine, Forecast, Gang, NodeName, PodKey, PreemptionPolicy, Queue, QueueName, Time,
    WithinQueuePolicy,
};

/// Returns the minutes of the expected starts, by the gang's name.
fn expected_starts(engine: &Engine) -> BTreeMap<String, i64> {
    let forecast = Forecast::from_snapshot(&engine.snapshot(), |_| true);
    assert_eq!(forecast.cut_off, None);
    let starts = forecast.starts.into_iter();
    starts
        .map(|(gang, start)| {
            let name = gang.as_str().trim_start_matches("team/").to_owned();
            (name, start.as_millis() / MINUTE)
        })
        .collect()
}

fn start_map<const N: usize>(starts: [(&str, i64); N]) -> BTreeMap<String, i64> {
    starts.map(|(name, at)| (name.to_owned(), at)).into()
}

#[test]
fn gang_starts_when_the_gang_before_it_ends() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(whole_node_gang("runs", 2, Some(10)));
    assert_eq!(cycle_at(&mut engine, 0), ["+runs"]);
    // The pods of the gang exist, and go with their gang.
    for (index, node) in [(0, "n00"), (1, "n01")] {
        engine.apply_pod(worker_key("runs", index), NodeName::new(node), gpu(1, 8));
    }
    engine.apply_gang(submitted_at(1, whole_node_gang("next", 2, Some(5))));
    engine.apply_gang(submitted_at(2, whole_node_gang("after", 1, None)));
    engine.apply_gang(submitted_at(3, gpu_gang("beside", 8, Some(1))));
    engine.apply_gang(submitted_at(4, whole_node_gang("never", 2, Some(1))));
    engine.apply_gang(submitted_at(5, whole_node_gang("too-large", 3, Some(1))));
    cycle_at(&mut engine, 5);
    let expected_now = start_map([("next", 10), ("after", 15), ("beside", 15)]);
    assert_eq!(expected_starts(&engine), expected_now);
    // The forecast changes nothing in the engine itself.
    assert_eq!(expected_starts(&engine), expected_now);
    assert_eq!(engine.pending_gang_count(), 5);
}

#[test]
fn gang_past_its_end_has_no_forecast() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_gang(gpu_gang("runs", 8, Some(10)));
    cycle_at(&mut engine, 0);
    engine.apply_gang(submitted_at(1, gpu_gang("next", 8, Some(10))));
    cycle_at(&mut engine, 9);
    assert_eq!(expected_starts(&engine), start_map([("next", 10)]));
    cycle_at(&mut engine, 11);
    assert_eq!(expected_starts(&engine), start_map([]));
}

#[test]
fn external_pods_stay_and_victims_restart() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(Queue {
        preemption: PreemptionPolicy {
            within_queue: WithinQueuePolicy::LowerPriority,
            ..PreemptionPolicy::default()
        },
        ..Queue::new(QueueName::new("default"))
    });
    apply_pod(&mut engine, "foreign/pod", "n01", gpu(1, 8));
    let low = Gang {
        grace: Duration::from_secs(120),
        ..gpu_gang("low", 8, Some(30))
    };
    engine.apply_gang(low);
    assert_eq!(cycle_at(&mut engine, 0), ["+low"]);
    engine.apply_gang(submitted_at(
        1,
        Gang {
            priority: 1,
            ..gpu_gang("high", 8, Some(20))
        },
    ));
    assert_eq!(cycle_at(&mut engine, 1), ["!high low"]);
    assert_eq!(
        expected_starts(&engine),
        start_map([("high", 3), ("low", 23)])
    );
    engine.delete_pod(&PodKey::new("foreign/pod"));
    assert_eq!(
        expected_starts(&engine)["low"],
        3,
        "as soon as it has stopped"
    );
}

#[test]
fn leaving_pods_are_gone_at_their_reported_time() {
    let mut engine = engine(gpu_nodes(2));
    for (name, node, minute) in [("foreign/soon", "n00", 5), ("foreign/late", "n01", 0)] {
        apply_pod(&mut engine, name, node, gpu(1, 8));
        engine.mark_pod_leaving(&PodKey::new(name), Time::from_millis(minute * MINUTE));
    }
    engine.apply_gang(submitted_at(1, gpu_gang("next", 8, Some(10))));
    engine.apply_gang(submitted_at(1, whole_node_gang("two", 2, None)));
    cycle_at(&mut engine, 1);
    // The second pod should have gone a minute ago, so its end is unknown.
    assert_eq!(expected_starts(&engine), start_map([("next", 5)]));
    engine.delete_pod(&PodKey::new("foreign/late"));
    assert_eq!(
        expected_starts(&engine),
        start_map([("next", 1), ("two", 11)])
    );
}

/// Returns the minutes of the expected ends, by the gang's name.
fn expected_ends(engine: &Engine) -> BTreeMap<String, i64> {
    let forecast = Forecast::from_snapshot(&engine.snapshot(), |_| true);
    let ends = forecast.ends.into_iter();
    ends.map(|(gang, end)| {
        let name = gang.as_str().trim_start_matches("team/").to_owned();
        (name, end.as_millis() / MINUTE)
    })
    .collect()
}

/// A victim ends when it has made room, and not when it would have finished its work. This holds
/// without a known end too. The forecast does not include the end of its next run.
#[test]
fn victim_ends_with_its_grace_period() {
    for runtime in [Some(30), None] {
        let mut engine = engine(gpu_nodes(1));
        engine.apply_queue(Queue {
            preemption: PreemptionPolicy {
                within_queue: WithinQueuePolicy::LowerPriority,
                ..PreemptionPolicy::default()
            },
            ..Queue::new(QueueName::new("default"))
        });
        let low = Gang {
            grace: Duration::from_mins(4),
            ..gpu_gang("low", 8, runtime)
        };
        engine.apply_gang(low);
        assert_eq!(cycle_at(&mut engine, 0), ["+low"]);
        engine.apply_pod(worker_key("low", 0), NodeName::new("n00"), gpu(1, 8));
        let alone = runtime.map(|_| ("low".to_owned(), 34));
        assert_eq!(expected_ends(&engine), alone.into_iter().collect());
        let high = Gang {
            priority: 1,
            ..gpu_gang("high", 8, Some(10))
        };
        engine.apply_gang(submitted_at(10, high));
        let expected = start_map([("low", 4), ("high", 14)]);
        // The forecast is the same before the decision and while the gang leaves.
        assert_eq!(expected_ends(&engine), expected, "{runtime:?}");
        cycle_at(&mut engine, 0);
        for minute in [0, 1, 3] {
            cycle_at(&mut engine, minute);
            assert_eq!(
                expected_ends(&engine).get("low"),
                Some(&4),
                "{runtime:?} {minute}"
            );
        }
        // The gang should have gone by now, so its end is unknown.
        cycle_at(&mut engine, 6);
        assert_eq!(expected_ends(&engine).get("low"), None, "{runtime:?}");
    }
}

#[test]
fn forecast_is_cut_off_when_the_caller_stops_it() {
    let mut engine = engine(gpu_nodes(1));
    for n in 0..10 {
        engine.apply_gang(submitted_at(n, gpu_gang(&format!("w{n}"), 8, Some(10))));
    }
    cycle_at(&mut engine, 0);
    let short = Forecast::from_snapshot(&engine.snapshot(), |moments| moments < 5);
    assert!(short.cut_off.is_some());
    assert_eq!(short.starts.len(), 4);
    let whole = Forecast::from_snapshot(&engine.snapshot(), |_| true);
    assert_eq!(whole.cut_off, None);
    assert_eq!(whole.starts.len(), 9);
}

proptest! {
    #![proptest_config(cases(300))]

    /// If all gangs end in time and no new gang comes, all start as forecast.
    #[test]
    fn all_gangs_start_as_forecast(
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
        let last = jobs.iter().map(|job| job.arrives_at).max().unwrap_or(0);
        let mut now = engine(nodes.clone());
        run_jobs(&mut now, jobs.clone(), last);
        let forecast = Forecast::from_snapshot(&now.snapshot(), |_| true);
        let mut whole = engine(nodes);
        let mut later = run_jobs(&mut whole, jobs, i64::MAX).started;
        later.retain(|gang, _| now.pending_gangs().any(|waits| waits == gang));
        let expected: BTreeMap<_, _> =
            forecast.starts.into_iter().map(|(gang, at)| (gang, at.as_millis())).collect();
        prop_assert_eq!(expected, later);
    }
}
