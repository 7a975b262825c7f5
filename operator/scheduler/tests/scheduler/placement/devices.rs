//! Tests of GPUs as devices: whole devices, shares of a device, and both on a node.

use std::collections::BTreeMap;

use proptest::prelude::*;
use trellis_scheduler::{Engine, NodeName, PodKey, ResourceName, Resources, WaitReason};

use crate::common::*;

/// Returns a request of one core and this many thousandths of one GPU.
fn share_request(thousandths: i64) -> Resources {
    let mut request = cpu(1);
    let gpu = ResourceName::new(GPU);
    request.set(ResourceName::share_of(&gpu), thousandths);
    request
}

/// Applies a gang of shares and runs one cycle. Returns true if it is placed.
fn place_share_gang(engine: &mut Engine, name: &str, count: u32, thousandths: i64) -> bool {
    engine.apply_gang(workers(name, count, share_request(thousandths)));
    engine.cycle(ms(0));
    engine.placement(&id(name)).is_some()
}

#[test]
fn device_is_free_as_a_whole_only_without_shares() {
    let mut engine = engine([gpu_node("n", 2)]);
    assert!(place_share_gang(&mut engine, "a", 1, 460));
    assert_eq!(free_amount(&engine, "n", GPU), 1);
    let two = trial_explanation(&mut engine, &workers("two", 1, gpu(1, 2)));
    assert_eq!(two.reason, WaitReason::InsufficientCapacity);
    assert_eq!(
        trial_placement(&mut engine, &workers("one", 1, gpu(1, 1))),
        "worker: n*1"
    );
    assert!(place_share_gang(&mut engine, "b", 1, 540), "beside it");
    assert_eq!(free_amount(&engine, "n", GPU), 1);
    engine.delete_gang(&id("a"));
    assert_eq!(free_amount(&engine, "n", GPU), 1);
    engine.delete_gang(&id("b"));
    assert_eq!(free_amount(&engine, "n", GPU), 2);
}

#[test]
fn the_tightest_device_that_fits_is_shared_first() {
    let mut engine = engine([gpu_node("n", 2)]);
    assert!(place_share_gang(&mut engine, "a", 1, 700));
    assert!(
        place_share_gang(&mut engine, "b", 1, 400),
        "opens the second"
    );
    assert!(
        place_share_gang(&mut engine, "c", 1, 300),
        "fills the first"
    );
    assert!(
        place_share_gang(&mut engine, "d", 1, 600),
        "fills the second"
    );
    assert!(!place_share_gang(&mut engine, "e", 1, 1));
}

#[test]
fn share_is_taken_from_a_single_device() {
    let mut engine = engine([gpu_node("n", 2)]);
    assert!(place_share_gang(&mut engine, "a", 2, 600));
    assert!(
        !place_share_gang(&mut engine, "b", 1, 500),
        "800 are free, in two halves"
    );
    assert!(place_share_gang(&mut engine, "c", 2, 400));
    let more = trial_explanation(&mut engine, &workers("d", 1, share_request(1_001)));
    assert!(!more.to_string().is_empty());
}

#[test]
fn whole_gpu_requests_leave_no_share() {
    let mut engine = engine([gpu_node("n", 2)]);
    apply_pod(&mut engine, "x/a", "n", gpu(1, 1));
    assert!(place_share_gang(&mut engine, "a", 2, 500));
    assert!(!place_share_gang(&mut engine, "b", 1, 10));
    engine.delete_pod(&PodKey::new("x/a"));
    engine.cycle(ms(0));
    assert!(engine.placement(&id("b")).is_some());
}

#[test]
fn trial_changes_no_share() {
    let mut engine = engine([gpu_node("n", 2)]);
    assert!(place_share_gang(&mut engine, "a", 1, 700));
    assert!(place_share_gang(&mut engine, "b", 1, 600));
    // There is room for exactly these gangs.
    for _ in 0..3 {
        assert!(
            engine
                .try_gang(&workers("t", 1, share_request(400)), ms(0))
                .is_ok()
        );
        assert!(
            engine
                .try_gang(&workers("t", 2, share_request(300)), ms(0))
                .is_ok()
        );
        assert!(
            engine
                .try_gang(&workers("t", 2, share_request(400)), ms(0))
                .is_err()
        );
    }
}

#[test]
fn shares_on_an_unknown_node_count_when_the_node_appears() {
    let mut engine = engine([]);
    apply_pod(&mut engine, "x/a", "n", share_request(300));
    engine.apply_node(gpu_node("n", 1));
    assert_eq!(free_amount(&engine, "n", GPU), 0);
    assert!(!place_share_gang(&mut engine, "a", 1, 800));
    assert!(place_share_gang(&mut engine, "b", 1, 700));
}

#[derive(Clone, Debug)]
enum Event {
    Come(usize, u32, i64),
    Go(usize),
    Whole(usize, i64),
    Foreign(usize, usize, i64),
    End(usize),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..8_usize, 1..4_u32, 1..11_i64).prop_map(|(g, n, s)| Event::Come(g, n, s * 100)),
        2 => (0..8_usize).prop_map(Event::Go),
        2 => (0..8_usize, 1..3_i64).prop_map(|(g, n)| Event::Whole(g, n)),
        1 => (0..3_usize, 0..2_usize, 1..11_i64).prop_map(|(p, n, s)| Event::Foreign(p, n, s * 100)),
        1 => (0..3_usize).prop_map(Event::End),
    ]
}

/// Returns the least number of devices that hold the shares. Tries every way.
fn fewest_devices(shares: &[i64], open: &mut Vec<i64>, best: usize) -> usize {
    let Some((first, rest)) = shares.split_first() else {
        return open.len().min(best);
    };
    let mut best = best;
    for at in 0..open.len() {
        if open[at] >= *first {
            open[at] -= first;
            best = fewest_devices(rest, open, best);
            open[at] += first;
        }
    }
    if open.len() + 1 < best {
        open.push(1_000 - first);
        best = fewest_devices(rest, open, best);
        open.pop();
    }
    best
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn device_shares_never_exceed_one_and_are_all_released(
        events in prop::collection::vec(any_event(), 1..40),
    ) {
        let mut engine = engine([gpu_node("n0", 3), gpu_node("n1", 2)]);
        let total = [3_i64, 2];
        let mut foreign: BTreeMap<usize, (usize, i64)> = BTreeMap::new();
        let mut wishes: BTreeMap<usize, (u32, i64)> = BTreeMap::new();
        for event in events {
            match event {
                Event::Come(at, count, thousandths) => {
                    let name = format!("g{at}");
                    engine.delete_gang(&id(&name));
                    wishes.remove(&at);
                    if place_share_gang(&mut engine, &name, count, thousandths) {
                        wishes.insert(at, (count, thousandths));
                    } else {
                        engine.delete_gang(&id(&name));
                    }
                }
                Event::Go(at) => {
                    engine.delete_gang(&id(&format!("g{at}")));
                    wishes.remove(&at);
                }
                Event::Whole(at, gpus) => {
                    let name = format!("g{at}");
                    engine.delete_gang(&id(&name));
                    wishes.remove(&at);
                    engine.apply_gang(workers(&name, 1, gpu(1, gpus)));
                    engine.cycle(ms(0));
                    if engine.placement(&id(&name)).is_some() {
                        wishes.insert(at, (1, -gpus));
                    } else {
                        engine.delete_gang(&id(&name));
                    }
                }
                Event::Foreign(at, node, thousandths) => {
                    let key = format!("x/{at}");
                    engine.delete_pod(&PodKey::new(key.as_str()));
                    apply_pod(&mut engine, &key, &format!("n{node}"), share_request(thousandths));
                    foreign.insert(at, (node, thousandths));
                }
                Event::End(at) => {
                    engine.delete_pod(&PodKey::new(format!("x/{at}")));
                    foreign.remove(&at);
                }
            }
            for (node, gpus) in total.iter().enumerate() {
                let name = NodeName::new(format!("n{node}"));
                let mut shares: Vec<i64> = Vec::new();
                let mut whole = 0;
                for (at, (_, wish)) in &wishes {
                    let placement = engine.placement(&id(&format!("g{at}"))).unwrap();
                    let here = placement.iter().filter(|(.., n)| **n == name).count();
                    if *wish < 0 {
                        whole += -wish * i64::try_from(here).unwrap();
                    } else {
                        shares.extend(std::iter::repeat_n(*wish, here));
                    }
                }
                shares.extend(foreign.values().filter(|(n, _)| *n == node).map(|(_, s)| *s));
                let taken = gpus - free_amount(&engine, name.as_str(), GPU) - whole;
                let taken = usize::try_from(taken).unwrap();
                prop_assert!(taken <= shares.len(), "a device has a share");
                prop_assert!(taken >= fewest_devices(&shares, &mut Vec::new(), shares.len()), "no device gives more");
            }
        }
        for at in 0..8 {
            engine.delete_gang(&id(&format!("g{at}")));
        }
        for at in 0..3 {
            engine.delete_pod(&PodKey::new(format!("x/{at}")));
        }
        prop_assert_eq!(free_amount(&engine, "n0", GPU), 3);
        prop_assert_eq!(free_amount(&engine, "n1", GPU), 2);
        // Every device is whole again.
        prop_assert!(place_share_gang(&mut engine, "all", 5, 1_000));
    }
}
