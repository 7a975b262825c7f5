//! Moves for a fragmented gang, as the explanation of its job shows them.

use trellis_scheduler::{
    Engine, GangId, GroupName, NodeName, Placement, Snapshot, Time, find_moves,
};

use crate::cluster::{Fleet, gang};
use crate::row::Row;
use crate::timing::{self, time_runs};

/// Returns a cluster with one gang on each node, and a gang that waits for a whole node.
fn fragmented_cluster(nodes: usize, gpus: i64) -> Snapshot {
    let mut engine = Fleet::with_nodes(nodes).engine();
    for number in 0..nodes {
        let mut placement = Placement::new();
        let node = NodeName::new(format!("gpu-{number:06}"));
        placement.push(GroupName::new("worker"), vec![(node, 1)]);
        let small = gang(&format!("team/small-{number}"), 1, gpus, None);
        engine.restore_gang(small, placement, Time::from_millis(0));
    }
    engine.apply_gang(gang("team/whole", 1, 8, None));
    engine.cycle(Time::from_millis(1_000));
    engine.snapshot()
}

/// Measures a cluster in which the first move helps, and one in which none does. Each search restores
/// an engine first, so the time of that is a lower bound.
pub(crate) fn print_moves(print: &impl Fn(Row)) {
    let waiting = GangId::new("team/whole");
    for nodes in [500, 5_000] {
        for (gpus, moves, what) in [(4, 1, "found"), (5, 0, "not found")] {
            let snapshot = fragmented_cluster(nodes, gpus);
            let took = time_runs(20, |_| {
                let (took, found) = timing::time_run(|| find_moves(&snapshot, &waiting, |_| true));
                assert_eq!(found.len(), moves, "{found:?}");
                took
            });
            print(Row::new(
                format!("moves of a fragmented gang, {nodes} nodes, {what}"),
                took.median,
            ));
        }
        let snapshot = fragmented_cluster(nodes, 4);
        let took = time_runs(20, |_| {
            timing::time_run(|| Engine::from_snapshot(&snapshot)).0
        });
        print(Row::new(
            format!("restore the engine, {nodes} nodes and gangs"),
            took.median,
        ));
    }
}
