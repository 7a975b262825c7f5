//! Tests that an engine that is restored from a snapshot makes the same decisions. `sequences`
//! checks this after any sequence of events.

pub(super) mod restored_gangs;

use crate::common::*;
use proptest::prelude::*;
use trellis_scheduler::{Decision, Engine, GangId, Quota, ResourceName, Resources, Snapshot, Time};

/// Returns an engine that is restored from the snapshot of this one. Checks that both snapshots are
/// equal to the byte.
pub fn restored_engine(engine: &Engine) -> Result<Engine, TestCaseError> {
    let snapshot = engine.snapshot();
    let text = serde_json::to_string(&snapshot).unwrap();
    let read: Snapshot = serde_json::from_str(&text).unwrap();
    prop_assert_eq!(&read, &snapshot);
    let twin = Engine::from_snapshot(&read);
    let again = serde_json::to_string(&twin.snapshot()).unwrap();
    prop_assert_eq!(again, text, "nothing is lost");
    Ok(twin)
}

fn placed_gangs<'d>(decisions: &'d [Decision]) -> Vec<&'d GangId> {
    let starts = |decision: &'d Decision| match decision {
        Decision::Place { gang, .. } => Some(gang),
        _ => None,
    };
    decisions.iter().filter_map(starts).collect()
}

/// One of two queues has held all GPUs for a week. Past usage decides whose turn it is, to the last
/// bit.
#[test]
fn past_queue_usage_survives_a_snapshot() {
    let mut engine = Engine::new();
    engine.apply_node(node("n0", Resources::new().with("cpu", 8).with("pods", 9)));
    for name in ["a", "b"] {
        engine.apply_queue(queue(name, None));
    }
    let one = |name: &str, queue: &str, at| {
        let request = Resources::new().with("cpu", 8);
        let mut gang = gang(name, vec![group("g", 1, request)]);
        gang.queue = trellis_scheduler::QueueName::new(queue);
        gang.submitted = ms(at);
        gang
    };
    engine.apply_gang(one("first", "a", 0));
    assert_eq!(placed_gangs(&engine.cycle(ms(0))).len(), 1);
    let week = Time::from_millis(7 * 86_400_000);
    engine.advance(week);
    engine.delete_gang(&id("first"));
    engine.apply_gang(one("next-of-a", "a", 1));
    engine.apply_gang(one("next-of-b", "b", 2));
    let snapshot = engine.snapshot();
    assert!(snapshot.lags.iter().any(|lag| lag.lag != 0));
    let mut twin = Engine::from_snapshot(&snapshot);
    let decisions = engine.cycle(week);
    assert_eq!(placed_gangs(&decisions), [&id("next-of-b")]);
    assert_eq!(twin.cycle(week), decisions);
    let memory = |engine: &Engine, name| engine.queue_memory(&queue(name, None).name);
    for name in ["a", "b"] {
        assert_eq!(memory(&twin, name), memory(&engine, name));
    }
    // Without past usage the older gang goes first.
    let forgetful = Snapshot {
        lags: vec![],
        ..snapshot
    };
    let decisions = Engine::from_snapshot(&forgetful).cycle(week);
    assert_eq!(placed_gangs(&decisions), [&id("next-of-a")]);
}

/// A gang keeps its charge, although its queue has changed.
#[test]
fn restored_place_keeps_its_charge() {
    let mut engine = Engine::new();
    engine.apply_node(node("n0", Resources::new().with("cpu", 8).with("pods", 9)));
    let cpu = |nominal| {
        let quota = Quota {
            nominal,
            ..Quota::default()
        };
        queue("default", None).with_quotas([(ResourceName::new("cpu"), quota)])
    };
    engine.apply_queue(cpu(8));
    let request = Resources::new().with("cpu", 2);
    engine.apply_gang(gang("w", vec![group("g", 3, request.clone())]));
    assert_eq!(placed_gangs(&engine.cycle(ms(0))).len(), 1);
    engine.apply_pod(
        trellis_scheduler::PodKey::new("team/w-g-1"),
        trellis_scheduler::NodeName::new("n0"),
        request,
    );
    engine.apply_queue(cpu(1));
    let twin = restored_engine(&engine).unwrap();
    let default = queue("default", None).name;
    assert_eq!(twin.queue_usage(&default), engine.queue_usage(&default));
    let n0 = trellis_scheduler::NodeName::new("n0");
    assert_eq!(twin.free(&n0), engine.free(&n0));
    assert_eq!(twin.free(&n0).unwrap()[&ResourceName::new("cpu")], 2);
    assert_eq!((twin.placed_gang_count(), twin.pod_count()), (1, 1));
}

#[test]
fn snapshot_with_unknown_or_missing_fields_is_rejected() {
    let written = serde_json::to_value(Engine::new().snapshot()).unwrap();
    let mut more = written.clone();
    more["surprise"] = 1.into();
    let mut less = written;
    less.as_object_mut().unwrap().remove("history");
    for wrong in [more, less] {
        assert!(serde_json::from_value::<Snapshot>(wrong).is_err());
    }
}
