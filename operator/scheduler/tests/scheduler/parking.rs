//! Tests with random sequences of events with preemption, reclaim, flavors, limits and topology. A
//! cycle makes the same decisions as an engine that tries every pending gang anew. Without flavors
//! and limits, no cycle preempts a gang that it has placed itself. Without events, the next cycle
//! decides nothing.

pub(super) mod events;
pub(super) mod wakeups;

use std::collections::BTreeSet;

use crate::common::*;
use crate::parking::events::{
    Event, GANGS, LEAVES, NODES, PLAIN, Rules, any_event, any_preemption, any_rules, apply,
    empty_engine, engine_with_policies, labelled_node, leaf,
};
use crate::preemption::seconds;
use crate::snapshots::restored_engine;
use proptest::prelude::*;
use trellis_scheduler::{Decision, Engine, Gang, GangId, PreemptionPolicy, QueueName};

/// Checks that no gang is placed and preempted by the same decisions. A gang that starts after its
/// victims have left does not count, because an earlier cycle chose it.
fn check_placements_persist(
    decisions: &[Decision],
    nominated: &mut BTreeSet<GangId>,
) -> Result<(), TestCaseError> {
    let mut placed: BTreeSet<&GangId> = BTreeSet::new();
    for decision in decisions {
        match decision {
            Decision::Place { gang, .. } if nominated.remove(gang) => {}
            Decision::Place { gang, .. } => {
                placed.insert(gang);
            }
            Decision::Preempt { gang, victims, .. } => {
                nominated.insert(gang.clone());
                for victim in victims {
                    prop_assert!(
                        !placed.contains(&victim.gang),
                        "{} takes the place that {} has just been given: {:?}",
                        gang,
                        victim.gang,
                        format_decisions(decisions)
                    );
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the decisions, without the numbers of an explanation. The engine may try a gang before
/// or after it places another gang of the same cycle, so these numbers may differ.
fn decision_texts(decisions: &[Decision]) -> Vec<String> {
    let decided = |decision: &Decision| match decision {
        Decision::Reserve { .. } => None,
        Decision::Wait { gang, explanation } => Some(format!("{gang} {:?}", explanation.reason)),
        _ => Some(format!("{decision:?}")),
    };
    decisions.iter().filter_map(decided).collect()
}

/// Runs a cycle. Checks that its decisions equal those of a new engine that has tried no gang and
/// numbers the gangs by name.
fn cycle_like_a_fresh_engine(
    engine: &mut Engine,
    second: i64,
) -> Result<Vec<Decision>, TestCaseError> {
    let mut fresh = restored_engine(engine)?;
    let expected = fresh.cycle(seconds(second));
    let decisions = engine.cycle(seconds(second));
    prop_assert_eq!(
        decision_texts(&decisions),
        decision_texts(&expected),
        "a fresh look"
    );
    let written = |engine: &Engine| serde_json::to_string_pretty(&engine.snapshot()).unwrap();
    let (ours, anew) = (written(engine), written(&fresh));
    let differs = ours
        .lines()
        .zip(anew.lines())
        .find(|(ours, anew)| ours != anew);
    prop_assert_eq!(differs, None, "the same afterwards");
    Ok(decisions)
}

/// Applies events and runs a cycle, then further cycles, each after the victims have left.
fn apply_and_cycle(
    engine: &mut Engine,
    rules: Rules,
    (events, second): (impl IntoIterator<Item = Event>, i64),
    mut cycle: impl FnMut(&mut Engine, i64) -> Result<Vec<Decision>, TestCaseError>,
) -> Result<(), TestCaseError> {
    for event in events {
        apply(engine, rules, event, second);
    }
    for _ in 0..GANGS {
        let decisions = cycle(engine, second)?;
        let victims = decisions.iter().filter_map(|d| match d {
            Decision::Preempt { victims, .. } => Some(victims),
            _ => None,
        });
        let victims: Vec<GangId> = victims.flatten().map(|v| v.gang.clone()).collect();
        if victims.is_empty() {
            break;
        }
        for victim in &victims {
            engine.release_gang(victim, None);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(1_200))]

    #[test]
    fn parked_gang_wakes_whenever_a_fresh_engine_decides_differently(
        rules in any_rules(),
        policies in prop::collection::vec((0..9_i64, any_preemption()), 5),
        events in prop::collection::vec((any_event(true, true), 0..20_i64), 1..40),
    ) {
        let mut engine = engine_with_policies(rules, policies);
        let mut second = 0;
        for (event, later) in events {
            second += later;
            apply_and_cycle(&mut engine, rules, ([event], second), cycle_like_a_fresh_engine)?;
        }
    }
}

proptest! {
    #![proptest_config(cases(1_100))]

    #[test]
    fn cycle_does_not_preempt_a_gang_that_it_has_placed(
        policies in prop::collection::vec((0..9_i64, any_preemption()), 5),
        // Several events come before a cycle. Heads of queues lose patience after 600 s.
        events in prop::collection::vec(
            (
                prop::collection::vec(any_event(false, false), 1..4),
                prop_oneof![3 => Just(0_i64), 1 => 0..400_i64],
            ),
            1..25,
        ),
    ) {
        let mut engine = engine_with_policies(PLAIN, policies);
        let mut nominated = BTreeSet::new();
        let mut second = 0;
        for (events, later) in events {
            second += later;
            apply_and_cycle(&mut engine, PLAIN, (events, second), |engine, second| {
                let decisions = cycle_like_a_fresh_engine(engine, second)?;
                check_placements_persist(&decisions, &mut nominated)?;
                if !format_decisions(&decisions).iter().any(|said| said.starts_with('!')) {
                    let next = format_decisions(&engine.cycle(seconds(second)));
                    prop_assert!(next.is_empty(), "{next:?} after {:?}", format_decisions(&decisions));
                }
                Ok(decisions)
            })?;
        }
    }
}

/// Returns the decisions of the last cycle, with one cycle after each event.
fn last_decisions(engine: &mut Engine, events: impl IntoIterator<Item = Event>) -> Vec<String> {
    let mut last = Vec::new();
    for event in events {
        apply_and_cycle(engine, PLAIN, ([event], 0), |engine, second| {
            let decisions = cycle_like_a_fresh_engine(engine, second)?;
            last = format_decisions(&decisions);
            Ok(decisions)
        })
        .unwrap();
    }
    last
}

/// The engine reserves the quota of `department` for `second`, which is behind `first` in its
/// queue. `borrower` would use some of it. A new engine must know that before it lets `borrower` or
/// `first` start.
#[test]
fn quota_is_reserved_for_a_gang_behind_a_startable_gang() {
    let mut engine = empty_engine(PLAIN);
    let quotas = [("team-a", 0), ("team-b", 6), ("beside", 1)];
    for (at, (name, nominal)) in quotas.into_iter().enumerate() {
        assert_eq!(LEAVES[at].0, name);
        engine.apply_queue(leaf(at, PLAIN, nominal, None, PreemptionPolicy::default()));
    }
    for at in 1..NODES {
        engine.apply_node(labelled_node(at, 4, [("pool", 0), ("rack", 0)], 4));
    }
    let gang = |name: &str, queue: &str, pods, gpus| {
        Event::Gang(Box::new(Gang {
            queue: QueueName::new(queue),
            preemptible: false,
            ..gang(name, vec![group("worker", pods, gpu(0, gpus))])
        }))
    };
    let events = [
        gang("gives-enough", "team-a", 2, 1),
        gang("runs", "team-a", 5, 1),
        gang("second", "team-a", 3, 2),
        gang("first", "team-a", 2, 1),
        gang("borrower", "beside", 1, 2),
        Event::Node {
            at: 0,
            gpus: 2,
            pool: 0,
            rack: 0,
            state: 2,
        },
    ];
    assert_eq!(last_decisions(&mut engine, events), ["+first"]);
}

/// `head` waits for quota of `org`. `own` and `lent` are surplus, make room for it, and were placed
/// at the same time. By name `lent` is the first to leave. It frees more than `head` lacks, so
/// `borrower` may start. The engine has known `own` for longer.
#[test]
fn surplus_frees_head_quota_independent_of_gang_arrival_order() {
    let quotas = [6, 0, 1, 0, 0].map(|nominal| (nominal, PreemptionPolicy::default()));
    let mut engine = engine_with_policies(PLAIN, quotas.into());
    let gang = |name: &str, queue: &str, pods, gpus| Gang {
        queue: QueueName::new(queue),
        ..gang(name, vec![group("worker", pods, gpu(0, gpus))])
    };
    let surplus = |gang| Gang {
        surplus: true,
        ..gang
    };
    // The only node of its pool has 4 GPUs, so it preempts no gang.
    let mut head = gang("head", "team-a", 3, 2);
    let selector = &mut head.groups[0].constraints.node_selector;
    selector.insert("pool".into(), "1".into());
    let gangs = [
        surplus(gang("own", "team-a", 1, 1)),
        head,
        gang("runs", "team-a", 1, 1),
        surplus(gang("lent", "beside", 2, 2)),
        gang("borrower", "team-b", 1, 1),
    ];
    let events = gangs.map(|gang| Event::Gang(Box::new(gang)));
    assert_eq!(last_decisions(&mut engine, events), ["+borrower"]);
}

/// Each of two surplus gangs makes room for `head`, and both stayed after an eviction. By name `a`
/// is the first to leave. The engine has known `b` for longer.
#[test]
fn surplus_frees_head_room_independent_of_gang_arrival_order() {
    let mut engine = engine_with_policies(PLAIN, vec![(8, PreemptionPolicy::default())]);
    let gang = |name: &str, surplus, gpus| Gang {
        queue: QueueName::new("team-a"),
        surplus,
        ..gang(name, vec![group("worker", 1, gpu(0, gpus))])
    };
    let surplus = ["b", "a"].map(|name| Event::Gang(Box::new(gang(name, true, 3))));
    let events = std::iter::once(Event::DeleteNode(2)).chain(surplus);
    assert_eq!(last_decisions(&mut engine, events), ["+a"]);
    engine.apply_gang(gang("head", false, 4));
    for victim in ["a", "b"] {
        let decisions = cycle_like_a_fresh_engine(&mut engine, 0).unwrap();
        assert_eq!(format_decisions(&decisions), [format!("!head {victim}")]);
        engine.cancel_departure(&id(victim), seconds(60));
    }
    let decisions = cycle_like_a_fresh_engine(&mut engine, 0).unwrap();
    assert_eq!(format_decisions(&decisions), ["-head InsufficientCapacity"]);
    let kept = engine.reservation(&id("head")).unwrap().placement;
    let of_first = engine.placement(&id("a")).unwrap();
    assert_eq!(format_placement(&kept), format_placement(&of_first));
}
