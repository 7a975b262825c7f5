//! Tests of the choice among the nodes with room: least fragmentation, or spread.

use trellis_scheduler::{Engine, Gang, Node, PlacementStrategy, Resources};

use crate::common::*;

/// Returns an engine that has seen this many pods of each task before.
fn engine_with_history(nodes: Vec<Node>, tasks: &[(Resources, u32)]) -> Engine {
    let mut engine = engine(nodes);
    engine.apply_queue(queue("closed", Some(&[])));
    for (at, (request, pods)) in tasks.iter().enumerate() {
        let name = format!("taught-{at}");
        engine.apply_gang(Gang {
            queue: trellis_scheduler::QueueName::new("closed"),
            ..workers(&name, *pods, request.clone())
        });
    }
    engine
}

fn sized_node(name: &str, cores: i64, gpus: i64) -> Node {
    node(name, gpu(cores, gpus).with("pods", 110))
}

fn with_spread(gang: Gang) -> Gang {
    Gang {
        strategy: PlacementStrategy::Spread,
        ..gang
    }
}

/// Nodes, usual tasks, a pod, where best fit puts it, and where it goes.
type Case = (
    &'static str,
    Vec<Node>,
    Vec<(Resources, u32)>,
    Resources,
    &'static str,
    &'static str,
);

fn cases() -> Vec<Case> {
    vec![
        (
            "4 GPUs stay together for tasks of 4",
            vec![sized_node("four", 96, 4), sized_node("seven", 96, 7)],
            vec![(gpu(1, 4), 10)],
            gpu(1, 1),
            "worker: four*1",
            "worker: seven*1",
        ),
        (
            "a hungry pod goes where cores would be left over",
            vec![sized_node("lean", 16, 2), sized_node("rich", 96, 2)],
            vec![(gpu(8, 1), 10)],
            gpu(16, 1),
            "worker: lean*1",
            "worker: rich*1",
        ),
        (
            "a pod without GPUs does not starve them of cores",
            vec![sized_node("lean", 32, 4), sized_node("rich", 128, 6)],
            vec![(gpu(8, 1), 10)],
            cpu(8),
            "worker: lean*1",
            "worker: rich*1",
        ),
    ]
}

#[test]
fn fragmentation_beats_best_fit() {
    for (what, nodes, tasks, request, best_fit, expected) in cases() {
        let pod = workers("w", 1, request);
        let mut untaught = engine_with_history(nodes.clone(), &[]);
        assert_eq!(
            trial_placement(&mut untaught, &pod),
            best_fit,
            "{what}, untaught"
        );
        let mut engine = engine_with_history(nodes, &tasks);
        assert_eq!(trial_placement(&mut engine, &pod), expected, "{what}");
    }
}

#[test]
fn nodes_closed_to_typical_tasks_are_used_first() {
    let nodes = vec![
        label(sized_node("a", 96, 2), "model", "wanted"),
        label(sized_node("b", 96, 8), "model", "other"),
    ];
    let mut engine = engine_with_history(nodes, &[]);
    engine.apply_queue(queue("closed", Some(&[])));
    let mut picky = workers("picky", 10, gpu(1, 1));
    picky.queue = trellis_scheduler::QueueName::new("closed");
    picky.groups[0]
        .constraints
        .node_selector
        .insert("model".into(), "wanted".into());
    let any = workers("w", 1, gpu(1, 1));
    assert_eq!(
        trial_placement(&mut engine, &any),
        "worker: a*1",
        "best fit"
    );
    engine.apply_gang(picky);
    assert_eq!(trial_placement(&mut engine, &any), "worker: b*1");
}

#[test]
fn restored_history_gives_the_same_placement() {
    let nodes = vec![sized_node("four", 96, 4), sized_node("seven", 96, 7)];
    let one = engine_with_history(nodes.clone(), &[(gpu(1, 4), 10)]);
    let mut other = engine_with_history(nodes, &[]);
    other.restore_history(&one.history());
    assert_eq!(other.history(), one.history());
    let pod = workers("w", 1, gpu(1, 1));
    assert_eq!(trial_placement(&mut other, &pod), "worker: seven*1");
}

#[test]
fn more_task_shapes_than_counted_are_accepted() {
    let tasks: Vec<_> = (0..600)
        .map(|n| (gpu(1, 1).with("memory", n), if n == 300 { 100 } else { 1 }))
        .chain([(gpu(1, 4), 10_000)])
        .collect();
    let run = || {
        let mut engine = engine_with_history(
            vec![sized_node("four", 96, 4), sized_node("seven", 96, 7)],
            &tasks,
        );
        let at = trial_placement(&mut engine, &workers("w", 1, gpu(1, 1)));
        (at, engine.history())
    };
    assert_eq!(run().0, "worker: seven*1", "the frequent ones count");
    assert_eq!(run(), run(), "the same twice");
}

#[test]
fn spread_takes_as_many_nodes_as_there_are_most_free_first() {
    let mut engine = engine(gpu_nodes(3));
    apply_pod(&mut engine, "x/a", "n00", gpu(1, 6));
    let gang = |count| with_spread(workers("w", count, gpu(1, 1)));
    assert_eq!(
        trial_placement(&mut engine, &gang(2)),
        "worker: n01*1 n02*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &gang(3)),
        "worker: n00*1 n01*1 n02*1"
    );
    assert_eq!(
        trial_placement(&mut engine, &gang(7)),
        "worker: n00*2 n01*3 n02*2"
    );
    assert_eq!(
        trial_placement(&mut engine, &gang(18)),
        "worker: n00*2 n01*8 n02*8"
    );
    assert!(engine.try_gang(&gang(19), ms(0)).is_err());
}

#[test]
fn colliding_spread_groups_are_placed_by_the_exhaustive_search() {
    let nodes = [
        node("a", cpu(9).with("pods", 10)),
        node("b", cpu(10).with("pods", 1)),
    ];
    let mut engine = engine(nodes);
    let groups = vec![group("big", 1, cpu(8)), group("small", 8, cpu(1))];
    let gang = with_spread(gang("g", groups));
    assert_eq!(trial_placement(&mut engine, &gang), "big: b*1, small: a*8");
}
