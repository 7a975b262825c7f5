//! Gangs in two layers of slices: NVLink domains of 16 nodes, each of two racks.

use trellis_scheduler::{Decision, Engine, Gang, GangId, SliceLayer, TopologyRequest};

use crate::cluster::{Fleet, gang, now, pod};
use crate::row::Row;
use crate::timing::{self, RunStatistics, time_runs};

/// Returns a gang of whole nodes in slices of 16 and 8 pods.
fn sliced_gang(id: &str, pods: u32) -> Gang {
    let mut gang = gang(id, pods, 8, None);
    for group in &mut gang.groups {
        group.slices = vec![SliceLayer::new("block", 16), SliceLayer::new("rack", 8)];
    }
    gang
}

/// Times the cycle that decides on one new gang.
fn time_decision(engine: &mut Engine, is_expected: fn(&Decision) -> bool) -> RunStatistics {
    time_runs(300, |i| {
        let id = format!("team/sliced-{i}");
        engine.apply_gang(sliced_gang(&id, 256));
        let (took, decisions) = timing::time_run(|| engine.cycle(now(i + 2)));
        assert_eq!(decisions.len(), 1, "{decisions:?}");
        assert!(decisions.iter().all(is_expected), "{decisions:?}");
        engine.delete_gang(&GangId::new(id));
        took
    })
}

/// Measures gangs without a topology request where gangs have needed slices of 16 and 8. Half of
/// the racks have a busy node.
fn print_whole_domains(print: &impl Fn(Row)) {
    const NODES: usize = 10_000;
    let mut engine = Fleet::with_nodes(NODES).with_block_size(16).engine();
    for node in (0..NODES).step_by(16) {
        let (key, node, request) = pod(node, NODES);
        engine.apply_pod(key, node, request);
    }
    let mut learn = |gang: Gang| {
        let id = gang.id.clone();
        engine.apply_gang(gang);
        engine.delete_gang(&id);
    };
    learn(sliced_gang("team/sliced", 256));
    for pods in [2, 4, 8] {
        let mut gang = gang("team/close", pods, 8, None);
        gang.topology = Some(TopologyRequest::required("rack"));
        learn(gang);
    }
    for (pods, gpus) in [(3, 1), (64, 8), (4_500, 8)] {
        let took = time_runs(300, |i| {
            let id = format!("team/anywhere-{pods}-{i}");
            engine.apply_gang(gang(&id, pods, gpus, None));
            let (took, decisions) = timing::time_run(|| engine.cycle(now(i)));
            assert!(
                matches!(decisions.as_slice(), [Decision::Place { .. }]),
                "placed"
            );
            engine.delete_gang(&GangId::new(id));
            took
        });
        print(Row::new(
            format!("place {pods} x {gpus} GPUs beside gangs of whole racks, {NODES} nodes"),
            took.median,
        ));
    }
}

pub(crate) fn print_slices(print: &impl Fn(Row)) {
    print_whole_domains(print);
    for nodes in [512, 10_000] {
        let mut engine = Fleet::with_nodes(nodes).with_block_size(16).engine();
        let took = time_decision(&mut engine, |d| matches!(d, Decision::Place { .. }));
        print(Row::new(
            format!("place 256 x 8 in slices of 16 and 8, {nodes} nodes"),
            took.median,
        ));
        // One busy node in each domain: 15 nodes of 16 are free, and no slice fits.
        for node in (0..nodes).step_by(16) {
            let (key, node, request) = pod(node, nodes);
            engine.apply_pod(key, node, request);
        }
        engine.cycle(now(0));
        let took = time_runs(300, |i| {
            let gang = sliced_gang(&format!("team/torn-{i}"), 256);
            let (took, outlook) = timing::time_run(|| engine.try_gang(&gang, now(i)));
            assert!(outlook.is_err(), "refused");
            took
        });
        print(Row::new(
            format!("refuse 256 x 8 in slices of 16 and 8, {nodes} nodes"),
            took.median,
        ));
        engine.apply_gang(sliced_gang("team/first", 256));
        engine.cycle(now(1));
        let took = time_decision(&mut engine, |d| matches!(d, Decision::Wait { .. }));
        print(Row::new(
            format!("refuse another gang like it, {nodes} nodes"),
            took.median,
        ));
    }
}
