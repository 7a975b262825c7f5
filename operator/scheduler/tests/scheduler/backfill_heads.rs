//! Tests of which gangs get a reservation: gangs with several flavor assignments or none, and gangs
//! that wait for room that is leaving anyway.

use std::time::Duration;

use crate::backfill::{MINUTE, at, cycle_at, part, start, whole};
use crate::common::*;
use crate::preemption::{LOWER, see};
use crate::queues::{flavor, gpus};
use trellis_scheduler::{
    Engine, FlavorName, FlavorQuotas, Gang, PodKey, Queue, QueueName, ResourceGroup, ResourceName,
    Stop,
};

pub fn urgent(priority: i32, gang: Gang) -> Gang {
    Gang { priority, ..gang }
}

fn only(flavors: &[&str], mut gang: Gang) -> Gang {
    gang.groups[0].flavors = flavors.iter().map(|f| FlavorName::new(*f)).collect();
    gang
}

/// One node of product `a`, two of product `b`.
fn two_products() -> Engine {
    let of = |node: &str, product| label(gpu_node(node, 8), "gpu", product);
    let mut engine = engine([of("a0", "a"), of("b0", "b"), of("b1", "b")]);
    let plenty = |flavor: &str| FlavorQuotas {
        flavor: FlavorName::new(flavor),
        quotas: [GPU, "cpu"]
            .map(|resource| (ResourceName::new(resource), gpus(1 << 40)))
            .into(),
    };
    engine.apply_flavor(flavor("a"));
    engine.apply_flavor(flavor("b"));
    engine.apply_queue(Queue {
        resource_groups: vec![ResourceGroup {
            flavors: vec![plenty("a"), plenty("b")],
        }],
        ..Queue::new(QueueName::new("default"))
    });
    engine
}

/// One of the gang's two flavors is reserved for another gang, and the other flavor has no room:
/// there the gang is the first that waits.
#[test]
fn who_is_kept_out_of_one_flavor_is_head_in_the_other() {
    let mut engine = two_products();
    engine.apply_gang(only(&["a"], urgent(9, part("on-a", 4, Some(10)))));
    engine.apply_gang(only(&["b"], urgent(9, part("on-b", 8, Some(100)))));
    engine.apply_gang(only(&["b"], urgent(8, whole("first", 2, None))));
    engine.apply_gang(only(&["a", "b"], urgent(7, part("second", 8, None))));
    cycle_at(&mut engine, 0);
    assert_eq!(start(&engine, "first"), Some(100));
    assert_eq!(start(&engine, "second"), Some(10));
    let small = Gang {
        preemptible: false,
        ..part("small", 4, None)
    };
    engine.apply_gang(only(&["a"], small));
    assert_eq!(cycle_at(&mut engine, 2), ["-small Reserved"]);
}

/// Room is reserved for it in its first flavor; the next gang gets the other flavor.
#[test]
fn one_gang_is_head_in_one_flavor() {
    let mut engine = two_products();
    engine.apply_gang(only(&["a"], urgent(9, part("on-a", 4, Some(20)))));
    for (name, minutes) in [("b0", 10), ("b1", 100)] {
        engine.apply_gang(only(&["b"], urgent(9, part(name, 5, Some(minutes)))));
    }
    engine.apply_gang(only(&["a", "b"], urgent(8, part("first", 8, None))));
    engine.apply_gang(only(&["b"], at(1, whole("next", 2, None))));
    cycle_at(&mut engine, 0);
    assert_eq!(start(&engine, "first"), Some(20));
    assert_eq!(start(&engine, "next"), Some(100));
}

/// A gang that is not preemptible and has no known end.
fn endless(name: &str, gpus: i64) -> Gang {
    Gang {
        preemptible: false,
        ..part(name, gpus, None)
    }
}

/// External pods are on a node: a gang of two whole nodes never fits, a gang of one does.
#[test]
fn who_has_no_hope_costs_nobody_else_a_reservation() {
    let mut engine = engine(gpu_nodes(2));
    pod(&mut engine, "x/foreign", "n00", gpu(1, 1));
    engine.apply_gang(urgent(9, part("runs", 4, Some(10))));
    engine.apply_gang(urgent(9, part("fill", 7, Some(10))));
    cycle_at(&mut engine, 0);
    // More gangs than are tried, of which each equals some other.
    for name in 0..100 {
        let mut hopeless = urgent(8, whole(&format!("hopeless-{name}"), 2, None));
        hopeless.groups[0].request = gpu(name % 10, 8);
        engine.apply_gang(hopeless);
    }
    engine.apply_gang(urgent(7, part("large", 8, None)));
    engine.apply_gang(at(1, endless("small", 4)));
    let said = cycle_at(&mut engine, 1);
    assert_eq!(start(&engine, "large"), Some(10));
    assert!(said.contains(&"-small Reserved".to_owned()), "{said:?}");
    engine.delete_gang(&id("runs"));
    assert_eq!(
        cycle_at(&mut engine, 2),
        ["+large", "-small InsufficientCapacity"]
    );
}

/// The remaining pods of a deleted gang terminate one by one.
#[test]
fn pods_that_terminate_do_not_cost_the_head_its_place() {
    let mut engine = engine(gpu_nodes(1));
    let big = Gang {
        grace: Duration::from_secs(120),
        ..urgent(9, workers("big", 2, gpu(1, 4)))
    };
    engine.apply_gang(big.clone());
    cycle_at(&mut engine, 0);
    see(&mut engine, &big);
    engine.apply_gang(urgent(5, part("head", 8, None)));
    cycle_at(&mut engine, 1);
    assert_eq!(start(&engine, "head"), None);
    engine.delete_gang(&id("big"));
    engine.delete_pod(&worker("big", 0));
    engine.apply_gang(endless("small", 4));
    assert_eq!(cycle_at(&mut engine, 2), ["-small Reserved"]);
    assert_eq!(start(&engine, "head"), Some(3), "with its grace");
    let late = ms(3 * MINUTE + 1);
    assert_eq!(engine.next_wakeup(), Some(late));
    engine.cycle(late);
    assert_eq!(start(&engine, "head"), None, "it should be gone");
    engine.delete_pod(&worker("big", 1));
    assert_eq!(
        cycle_at(&mut engine, 4),
        ["+head", "-small InsufficientCapacity"]
    );
}

/// An external pod that is reported as leaving ends at the reported time.
#[test]
fn a_foreign_pod_that_terminates_ends_when_it_is_told() {
    let mut engine = engine(gpu_nodes(1));
    pod(&mut engine, "x/foreign", "n00", gpu(1, 4));
    engine.apply_gang(urgent(5, part("head", 8, None)));
    cycle_at(&mut engine, 0);
    assert_eq!(
        engine.reservations().count(),
        0,
        "nobody knows that it ends"
    );
    let foreign = PodKey::new("x/foreign");
    engine.pod_leaves(&foreign, ms(2 * MINUTE));
    engine.apply_gang(endless("small", 4));
    assert_eq!(cycle_at(&mut engine, 1), ["-small Reserved"]);
    assert_eq!(start(&engine, "head"), Some(2));
    engine.delete_pod(&foreign);
    assert_eq!(
        cycle_at(&mut engine, 1),
        ["+head", "-small InsufficientCapacity"]
    );
}

#[test]
fn who_is_drained_ends_with_its_grace() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(batch(Stop::None));
    engine.apply_gang(Gang {
        queue: QueueName::new("batch"),
        grace: Duration::from_secs(120),
        ..part("drained", 4, Some(100))
    });
    cycle_at(&mut engine, 0);
    engine.apply_queue(batch(Stop::HoldAndDrain));
    engine.apply_gang(urgent(9, part("head", 8, None)));
    engine.apply_gang(part("small", 4, Some(50)));
    let said = cycle_at(&mut engine, 1);
    assert_eq!(start(&engine, "head"), Some(3));
    assert!(said.contains(&"-small Reserved".to_owned()), "{said:?}");
    // The gang was not told to leave a second time.
    engine.apply_queue(batch(Stop::None));
    engine.stay(&id("drained"), ms(0));
    cycle_at(&mut engine, 2);
    assert_eq!(start(&engine, "head"), Some(102));
}

/// Gangs that hold what is to become free for the head are not evicted for another gang.
#[test]
fn a_reservation_holds_against_who_evicts() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    engine.apply_gang(urgent(20, part("above", 4, Some(100))));
    engine.apply_gang(urgent(0, part("low", 4, Some(50))));
    engine.apply_gang(urgent(20, part("beside", 7, Some(200))));
    cycle_at(&mut engine, 0);
    engine.apply_gang(urgent(10, part("head", 8, None)));
    cycle_at(&mut engine, 1);
    assert_eq!(start(&engine, "head"), Some(100));
    engine.apply_gang(urgent(5, endless("middle", 4)));
    let said = cycle_at(&mut engine, 2);
    assert_eq!(said, ["-middle InsufficientCapacity"]);
    // The gang ends before the head starts.
    engine.apply_gang(urgent(5, part("middle", 4, Some(90))));
    assert_eq!(cycle_at(&mut engine, 3), ["!middle low"]);
    assert_eq!(start(&engine, "head"), Some(100));
}

/// No other event is needed once the reservation is gone.
#[test]
fn who_evicts_is_woken_when_nothing_is_kept_any_more() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    engine.apply_gang(urgent(20, part("above", 4, Some(100))));
    engine.apply_gang(urgent(0, part("low", 4, Some(50))));
    cycle_at(&mut engine, 0);
    engine.apply_gang(urgent(10, part("head", 8, None)));
    engine.apply_gang(urgent(5, endless("middle", 4)));
    cycle_at(&mut engine, 1);
    engine.delete_gang(&id("head"));
    assert_eq!(cycle_at(&mut engine, 2), ["!middle low"]);
}
