//! Tests of forecasts in which not all pending gangs compete at a time.

use std::collections::BTreeSet;

use super::expected_starts;
use crate::backfill::{MINUTE, cycle_at, gpu_gang, submitted_at, whole_node_gang};
use crate::common::*;
use trellis_scheduler::{Engine, Gang, NodeName, Time};

/// More gangs than compete at a time.
const MANY: i64 = 300;

/// Applies many equal gangs, `w000` first.
fn apply_many(engine: &mut Engine, gang: impl Fn(&str) -> Gang) {
    for n in 0..MANY {
        engine.apply_gang(submitted_at(n, gang(&format!("w{n:03}"))));
    }
}

#[test]
fn each_of_many_equal_gangs_starts_when_the_gang_before_it_ends() {
    let mut engine = engine(gpu_nodes(1));
    apply_many(&mut engine, |name| gpu_gang(name, 8, Some(10)));
    cycle_at(&mut engine, 0);
    let expected = (1..MANY).map(|n| (format!("w{n:03}"), 10 * n));
    assert_eq!(expected_starts(&engine), expected.collect());
}

#[test]
fn many_gangs_start_at_once_if_there_is_room() {
    let mut engine = engine(gpu_nodes(40));
    engine.apply_gang(whole_node_gang("holds", 40, Some(10)));
    cycle_at(&mut engine, 0);
    apply_many(&mut engine, |name| gpu_gang(name, 1, Some(10)));
    cycle_at(&mut engine, 1);
    let starts = expected_starts(&engine);
    assert_eq!(starts.len(), 300);
    assert_eq!(starts.values().collect::<BTreeSet<_>>(), [&10].into());
}

#[test]
fn small_gang_behind_many_large_ones_starts_on_the_node_that_they_cannot_use() {
    let mut nodes = gpu_nodes(1);
    nodes.push(gpu_node("small", 4));
    let mut engine = engine(nodes);
    engine.apply_gang(gpu_gang("large", 8, Some(60)));
    engine.apply_gang(gpu_gang("holds-small", 4, Some(5)));
    cycle_at(&mut engine, 0);
    apply_many(&mut engine, |name| gpu_gang(name, 8, Some(60)));
    engine.apply_gang(submitted_at(MANY, gpu_gang("last", 4, Some(90))));
    cycle_at(&mut engine, 1);
    let starts = expected_starts(&engine);
    assert_eq!((starts["last"], starts["w000"]), (5, 60));
    assert_eq!(starts["w299"], 300 * 60);
}

#[test]
fn gangs_that_back_off_do_not_keep_equal_gangs_from_the_competition() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_gang(gpu_gang("holds", 8, Some(5)));
    cycle_at(&mut engine, 0);
    for n in 0..MANY {
        engine.apply_gang(Gang {
            not_before: Some(Time::from_millis(1_000 * MINUTE)),
            priority: 1,
            ..gpu_gang(&format!("backs-off-{n:03}"), 8, Some(1))
        });
    }
    apply_many(&mut engine, |name| gpu_gang(name, 8, Some(1)));
    cycle_at(&mut engine, 1);
    let starts = expected_starts(&engine);
    assert_eq!((starts["w000"], starts["w299"]), (5, 304));
    assert_eq!(starts["backs-off-000"], 1_000);
}

#[test]
fn gang_keeps_its_place_behind_many_equal_gangs() {
    let mut engine = engine(gpu_nodes(2));
    let returning = submitted_at(MANY, whole_node_gang("returning", 2, Some(4)));
    engine.apply_gang(returning.clone());
    assert_eq!(cycle_at(&mut engine, 0), ["+returning"]);
    let until = Time::from_millis(9 * MINUTE);
    assert!(engine.keep_place(&id("returning"), &[NodeName::new("n00")], until));
    engine.apply_gang(gpu_gang("holds", 8, Some(5)));
    assert_eq!(cycle_at(&mut engine, 0), ["+holds"]);
    apply_many(&mut engine, |name| whole_node_gang(name, 2, Some(10)));
    engine.apply_gang(returning);
    cycle_at(&mut engine, 1);
    let starts = expected_starts(&engine);
    assert_eq!((starts["returning"], starts["w000"]), (5, 9));
}
