//! Moves that would let a fragmented gang start.

use std::cell::Cell;

use crate::common::*;
use crate::kept_places::engine_with_running_gang;
use crate::preemption::{apply_pods_of, delete_pods_of, run_cycle_at, seconds};
use crate::topology::{hall_engine, requiring_one_rack};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use trellis_scheduler::{
    Decision, Engine, Gang, GangId, GangMove, GroupName, NodeName, Placement, Snapshot, WaitReason,
    find_moves,
};

/// Places a gang of one worker, whose pod exists.
fn restore(engine: &mut Engine, name: &str, gpus: i64, node: &str) {
    let mut placement = Placement::new();
    placement.push(GroupName::new("worker"), vec![(NodeName::new(node), 1)]);
    engine.restore_gang(workers(name, 1, gpu(1, gpus)), placement, ms(0));
    engine.apply_pod(worker_key(name, 0), NodeName::new(node), gpu(1, gpus));
}

/// Returns the moves for a waiting gang as text: `name: node of each pod`.
fn moves(engine: &Engine, waiting: &str) -> Vec<String> {
    let found = find_moves(&engine.snapshot(), &id(waiting), |_| true);
    let found = found.iter().map(
        |GangMove {
             gang, placement, ..
         }| {
            let nodes = placement.iter().map(|(_, _, node)| node.as_str());
            let name = gang.as_str().trim_start_matches("team/");
            format!("{name}: {}", nodes.collect::<Vec<_>>().join(" "))
        },
    );
    found.collect()
}

#[test]
fn gang_with_the_least_lost_work_moves_to_the_other_node() {
    let mut engine = engine(gpu_nodes(2));
    restore(&mut engine, "new", 4, "n00");
    restore(&mut engine, "saved", 4, "n01");
    engine.apply_gang(workers("large", 1, gpu(1, 8)));
    let hour = 3_600_000;
    engine.record_checkpoint(&id("saved"), ms(hour));
    engine.cycle(ms(hour));
    assert_eq!(wait_reason(&engine, "large"), Some(WaitReason::Fragmented));
    assert_eq!(moves(&engine, "large"), ["saved: n00"]);
    let found = find_moves(&engine.snapshot(), &id("large"), |_| true);
    assert_eq!(found[0].lost_device_seconds, 0);
}

#[test]
fn gangs_leave_a_rack_that_another_gang_needs() {
    let mut engine = hall_engine(["a1-0", "a1-1", "a2-0", "a2-1"]);
    restore(&mut engine, "x", 4, "a1-0");
    restore(&mut engine, "y", 2, "a1-1");
    restore(&mut engine, "z", 8, "a2-0");
    engine.apply_gang(requiring_one_rack(workers("pair", 2, gpu(1, 8))));
    cycle(&mut engine);
    assert_eq!(moves(&engine, "pair"), ["x: a2-1", "y: a2-1"]);
}

#[test]
fn only_needed_gangs_move() {
    let mut engine = hall_engine(["a1-0", "a1-1", "a1-2", "a2-0"]);
    restore(&mut engine, "x", 4, "a1-0");
    restore(&mut engine, "y", 4, "a1-1");
    restore(&mut engine, "z", 2, "a2-0");
    engine.apply_gang(requiring_one_rack(workers("pair", 2, gpu(1, 8))));
    cycle(&mut engine);
    assert_eq!(moves(&engine, "pair"), ["y: a1-0"]);
}

#[test]
fn no_gang_moves_without_room_or_against_its_protection() {
    let mut engine = engine(gpu_nodes(2));
    let kept = |name: &str| Gang {
        preemptible: false,
        ..workers(name, 1, gpu(1, 4))
    };
    for (name, node) in [("a", "n00"), ("b", "n01")] {
        let mut placement = Placement::new();
        placement.push(GroupName::new("worker"), vec![(NodeName::new(node), 1)]);
        engine.restore_gang(kept(name), placement, ms(0));
    }
    engine.apply_gang(workers("large", 1, gpu(1, 8)));
    cycle(&mut engine);
    assert_eq!(moves(&engine, "large"), [""; 0]);
    // Each gang could move, but the other node has too little room for it.
    let mut engine = crate::common::engine(gpu_nodes(2));
    restore(&mut engine, "a", 5, "n00");
    restore(&mut engine, "b", 5, "n01");
    engine.apply_gang(workers("large", 1, gpu(1, 8)));
    cycle(&mut engine);
    assert_eq!(moves(&engine, "large"), [""; 0]);
}

/// A restarting gang keeps the first of two nodes. The other node holds a small gang.
#[test]
fn kept_place_is_no_free_room() {
    let (mut engine, gang) = engine_with_running_gang(2, 1);
    restore(&mut engine, "small", 4, "n01");
    assert!(engine.keep_place(&id("w"), &[], seconds(120)));
    delete_pods_of(&mut engine, &gang);
    engine.apply_gang(workers("large", 1, gpu(1, 8)));
    run_cycle_at(&mut engine, seconds(1));
    assert_eq!(moves(&engine, "large"), [""; 0]);
}

/// A gang of workers, and how its test goes.
#[derive(Debug, Clone)]
struct AnyGang {
    pods: u32,
    gpus: i64,
    needs_rack: bool,
    preemptible: bool,
    /// True if its pods exist. False: they are to be created.
    has_pods: bool,
    /// True if it ends before the search, and leaves a gap.
    ends: bool,
}

fn any_gang() -> impl Strategy<Value = AnyGang> {
    let size = (1..4_u32, 1..9_i64);
    let flags = (
        any::<bool>(),
        prop::bool::weighted(0.9),
        any::<bool>(),
        any::<bool>(),
    );
    (size, flags).prop_map(
        |((pods, gpus), (needs_rack, preemptible, has_pods, ends))| AnyGang {
            pods,
            gpus,
            needs_rack,
            preemptible,
            has_pods,
            ends,
        },
    )
}

/// Places gangs on two racks of two nodes, one after another. Then some of them end. The last one
/// is pending.
fn engine_with_gangs(gangs: &[AnyGang]) -> Engine {
    let mut engine = hall_engine(["a1-0", "a1-1", "a2-0", "a2-1"]);
    let mut ended = Vec::new();
    for (number, any) in gangs.iter().enumerate() {
        let gang = workers(&format!("g{number}"), any.pods, gpu(1, any.gpus));
        let gang = match any.needs_rack {
            true => requiring_one_rack(gang),
            false => gang,
        };
        let gang = Gang {
            preemptible: any.preemptible,
            ..gang
        };
        engine.apply_gang(gang.clone());
        if number + 1 == gangs.len() {
            break;
        }
        cycle(&mut engine);
        let is_placed = engine.placement(&gang.id).is_some();
        if any.has_pods && is_placed {
            apply_pods_of(&mut engine, &gang);
        }
        if any.ends || !is_placed {
            ended.push((gang, any.has_pods && is_placed));
        }
    }
    for (gang, has_pods) in ended {
        engine.delete_gang(&gang.id);
        if has_pods {
            delete_pods_of(&mut engine, &gang);
        }
    }
    engine
}

/// Carries out moves by hand: each gang is deleted, and restored on its new nodes. Returns true if
/// the waiting gang then starts.
fn starts_after(snapshot: &Snapshot, waiting: &GangId, moves: &[GangMove]) -> bool {
    let mut moved = Engine::from_snapshot(snapshot);
    for gang in &snapshot.gangs {
        if gang.place.is_none() && gang.gang.id != *waiting {
            moved.delete_gang(&gang.gang.id);
        }
    }
    let placed = |step: &GangMove| {
        let gang = snapshot
            .gangs
            .iter()
            .find(|gang| gang.gang.id == step.gang)?;
        Some((gang.place.as_ref()?.gang.clone(), step.placement.clone()))
    };
    let placed: Vec<(Gang, Placement)> = moves.iter().filter_map(placed).collect();
    assert_eq!(placed.len(), moves.len(), "{moves:?}");
    for (gang, _) in &placed {
        assert!(gang.preemptible, "{gang:?}");
        moved.delete_gang(&gang.id);
        delete_pods_of(&mut moved, gang);
    }
    for (gang, placement) in placed {
        moved.restore_gang(gang, placement, ms(10));
    }
    let decisions = moved.cycle(ms(10));
    let mut placed = decisions.iter().filter_map(|decision| match decision {
        Decision::Place { gang, .. } => Some(gang),
        _ => None,
    });
    placed.any(|gang| gang == waiting)
}

#[test]
fn waiting_gang_starts_after_the_moves() {
    let found = Cell::new(0_usize);
    let mut runner = TestRunner::new(cases(2_000));
    let result = runner.run(&prop::collection::vec(any_gang(), 2..16), |gangs| {
        let snapshot = engine_with_gangs(&gangs).snapshot();
        let waiting = id(&format!("g{}", gangs.len() - 1));
        let moves = find_moves(&snapshot, &waiting, |_| true);
        if !moves.is_empty() {
            found.set(found.get() + 1);
            prop_assert!(starts_after(&snapshot, &waiting, &moves), "{moves:?}");
            for number in 0..moves.len() {
                let mut fewer = moves.clone();
                fewer.remove(number);
                prop_assert!(!starts_after(&snapshot, &waiting, &fewer), "{moves:?}");
            }
        }
        Ok(())
    });
    result.unwrap();
    assert!(found.get() > 0, "no search finds moves");
}
