//! Tests of `trellis replay` with a recorded snapshot of an engine.

use serde_json::{Value, json};
use trellis_scheduler::{
    Engine, Gang, GangId, GroupName, Node, NodeName, Queue, QueueName, Resources, TaskGroup, Time,
};

use super::trellis;

const GPU: &str = "nvidia.com/gpu";

/// An engine with one running gang and three undecided gangs.
fn engine() -> Engine {
    let mut engine = Engine::new();
    engine.apply_queue(Queue::new(QueueName::new("team")));
    for name in ["gpu-0", "gpu-1"] {
        let offers = Resources::new().with("pods", 110).with(GPU, 8);
        engine.apply_node(Node::new(NodeName::new(name), offers));
    }
    let gang = |name: &str, pods, at| {
        let request = Resources::new().with(GPU, 8);
        let prefix = format!("{name}-worker");
        let group = TaskGroup::new(GroupName::new("worker"), pods, request, prefix);
        Gang {
            submitted: Time::from_millis(at),
            ..Gang::new(
                GangId::new(format!("team-a/{name}")),
                QueueName::new("team"),
                vec![group],
            )
        }
    };
    engine.apply_gang(gang("runs", 1, 0));
    engine.cycle(Time::from_millis(1_000));
    engine.apply_gang(gang("fits", 1, 2));
    engine.apply_gang(gang("waits", 1, 3));
    engine.apply_gang(gang("large", 3, 1));
    engine.advance(Time::from_millis(60_000));
    engine
}

#[test]
fn replay_of_a_snapshot_decides_like_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine();
    let path = folder.path().join("snapshot.json");
    std::fs::write(&path, serde_json::to_vec(&engine.snapshot()).unwrap()).unwrap();
    let file = path.to_str().unwrap();
    let run = trellis(&["replay", file, "-o", "json"], "");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(run.out, trellis(&["replay", file, "-o", "json"], "").out);
    let replayed: Value = serde_json::from_str(&run.out).unwrap();
    let decisions = replayed["decisions"].as_array().unwrap();
    assert_eq!(
        decisions.len(),
        engine.cycle(Time::from_millis(60_000)).len()
    );
    assert_eq!(
        decisions[0],
        json!({"t": 60.0, "event": "placed", "job": "team-a/fits",
               "pods": {"fits-worker-0": "gpu-1"}, "reason": ""})
    );
    let waiting = replayed["waiting"].as_array().unwrap();
    let reasons: Vec<_> = waiting
        .iter()
        .map(|w| (&w["job"], &w["position"]))
        .collect();
    assert_eq!(
        reasons,
        [
            (&json!("team-a/large"), &json!(1)),
            (&json!("team-a/waits"), &json!(2))
        ]
    );
    for pending in waiting {
        let id = GangId::new(pending["job"].as_str().unwrap());
        let explanation = engine.explain(&id, Time::from_millis(60_000)).unwrap();
        let reason = format!("{}: {explanation}", explanation.reason);
        assert_eq!(pending["reason"], reason);
    }
    let table = trellis(&["replay", file], "");
    insta::assert_snapshot!("replay", table.golden());
}

#[test]
fn invalid_snapshot_is_refused() {
    for (file, says) in [
        ("jobs.csv", "is not a snapshot of this version of trellis"),
        ("no-such-file", "cannot replay \"no-such-file\""),
    ] {
        let run = trellis(&["replay", file], "");
        assert_eq!((run.code, run.out.as_str()), (2, ""));
        assert!(run.err.contains(says), "{}", run.err);
    }
}
