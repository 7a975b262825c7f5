//! Tests of which nodes are chosen among those with room: least fragmentation, or spread.

use trellis_scheduler::{Engine, Gang, Node, Resources, Strategy};

use crate::common::*;

/// An engine that has seen this many pods of each task before.
fn taught(nodes: Vec<Node>, tasks: &[(Resources, u32)]) -> Engine {
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

fn sized(name: &str, cores: i64, gpus: i64) -> Node {
    node(name, gpu(cores, gpus).with("pods", 110))
}

fn spread(gang: Gang) -> Gang {
    Gang {
        strategy: Strategy::Spread,
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
            vec![sized("four", 96, 4), sized("seven", 96, 7)],
            vec![(gpu(1, 4), 10)],
            gpu(1, 1),
            "worker: four*1",
            "worker: seven*1",
        ),
        (
            "a hungry pod goes where cores would be left over",
            vec![sized("lean", 16, 2), sized("rich", 96, 2)],
            vec![(gpu(8, 1), 10)],
            gpu(16, 1),
            "worker: lean*1",
            "worker: rich*1",
        ),
        (
            "a pod without GPUs does not starve them of cores",
            vec![sized("lean", 32, 4), sized("rich", 128, 6)],
            vec![(gpu(8, 1), 10)],
            cpu(8),
            "worker: lean*1",
            "worker: rich*1",
        ),
    ]
}

#[test]
fn where_best_fit_errs() {
    for (what, nodes, tasks, request, best_fit, expected) in cases() {
        let pod = workers("w", 1, request);
        let mut untaught = taught(nodes.clone(), &[]);
        assert_eq!(place(&mut untaught, &pod), best_fit, "{what}, untaught");
        let mut engine = taught(nodes, &tasks);
        assert_eq!(place(&mut engine, &pod), expected, "{what}");
    }
}

#[test]
fn nodes_that_typical_tasks_may_not_use_are_taken_first() {
    let nodes = vec![
        label(sized("a", 96, 2), "model", "wanted"),
        label(sized("b", 96, 8), "model", "other"),
    ];
    let mut engine = taught(nodes, &[]);
    engine.apply_queue(queue("closed", Some(&[])));
    let mut picky = workers("picky", 10, gpu(1, 1));
    picky.queue = trellis_scheduler::QueueName::new("closed");
    picky.groups[0]
        .constraints
        .node_selector
        .insert("model".into(), "wanted".into());
    let any = workers("w", 1, gpu(1, 1));
    assert_eq!(place(&mut engine, &any), "worker: a*1", "best fit");
    engine.apply_gang(picky);
    assert_eq!(place(&mut engine, &any), "worker: b*1");
}

#[test]
fn what_was_learned_is_carried_over() {
    let nodes = vec![sized("four", 96, 4), sized("seven", 96, 7)];
    let one = taught(nodes.clone(), &[(gpu(1, 4), 10)]);
    let mut other = taught(nodes, &[]);
    other.restore_history(&one.history());
    assert_eq!(other.history(), one.history());
    let pod = workers("w", 1, gpu(1, 1));
    assert_eq!(place(&mut other, &pod), "worker: seven*1");
}

#[test]
fn more_shapes_than_are_counted_do_no_harm() {
    let tasks: Vec<_> = (0..600)
        .map(|n| (gpu(1, 1).with("memory", n), if n == 300 { 100 } else { 1 }))
        .chain([(gpu(1, 4), 10_000)])
        .collect();
    let run = || {
        let mut engine = taught(vec![sized("four", 96, 4), sized("seven", 96, 7)], &tasks);
        let at = place(&mut engine, &workers("w", 1, gpu(1, 1)));
        (at, engine.history())
    };
    assert_eq!(run().0, "worker: seven*1", "the frequent ones count");
    assert_eq!(run(), run(), "the same twice");
}

#[test]
fn spread_takes_as_many_nodes_as_there_are_most_free_first() {
    let mut engine = engine(gpu_nodes(3));
    pod(&mut engine, "x/a", "n00", gpu(1, 6));
    let gang = |count| spread(workers("w", count, gpu(1, 1)));
    assert_eq!(place(&mut engine, &gang(2)), "worker: n01*1 n02*1");
    assert_eq!(place(&mut engine, &gang(3)), "worker: n00*1 n01*1 n02*1");
    assert_eq!(place(&mut engine, &gang(7)), "worker: n00*2 n01*3 n02*2");
    assert_eq!(place(&mut engine, &gang(18)), "worker: n00*2 n01*8 n02*8");
    assert!(engine.trial(&gang(19), ms(0)).is_err());
}

#[test]
fn spread_groups_that_collide_are_placed_another_way() {
    let nodes = [
        node("a", cpu(9).with("pods", 10)),
        node("b", cpu(10).with("pods", 1)),
    ];
    let mut engine = engine(nodes);
    let groups = vec![group("big", 1, cpu(8)), group("small", 8, cpu(1))];
    let gang = spread(gang("g", groups));
    assert_eq!(place(&mut engine, &gang), "big: b*1, small: a*8");
}
