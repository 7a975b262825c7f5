//! Tests of which gangs get a reservation: gangs with several flavor assignments or none, and gangs
//! that wait for room that becomes free anyway.

use std::time::Duration;

use crate::backfill::{
    MINUTE, cycle_at, gpu_gang, reservation_start, submitted_at, whole_node_gang,
};
use crate::common::*;
use crate::preemption::{LOWER, apply_pods_of};
use crate::queues::{flavor, gpu_quota};
use crate::topology::slices::with_slices;
use crate::topology::{hall_engine, requiring_one_rack};
use trellis_scheduler::{
    Engine, FlavorName, FlavorQuotas, Gang, GroupName, NodeName, Placement, PodKey, Queue,
    QueueName, QueueStop, ResourceGroup, ResourceName,
};

pub fn with_priority(priority: i32, gang: Gang) -> Gang {
    Gang { priority, ..gang }
}

fn with_flavors(flavors: &[&str], mut gang: Gang) -> Gang {
    gang.groups[0].flavors = flavors.iter().map(|f| FlavorName::new(*f)).collect();
    gang
}

/// Returns an engine with one node of product `a` and two of product `b`.
fn engine_with_two_flavors() -> Engine {
    let of = |node: &str, product| label(gpu_node(node, 8), "gpu", product);
    let mut engine = engine([of("a0", "a"), of("b0", "b"), of("b1", "b")]);
    let plenty = |flavor: &str| FlavorQuotas {
        flavor: FlavorName::new(flavor),
        quotas: [GPU, "cpu"]
            .map(|resource| (ResourceName::new(resource), gpu_quota(1 << 40)))
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

/// Rack `a1` is full of gangs that were placed first. Rack `a2` has one gang. No end is known.
#[test]
fn rack_with_the_fewest_gangs_is_reserved() {
    let mut engine = hall_engine(["a1-0", "a1-1", "a1-2", "a2-0", "a2-1", "a2-2"]);
    for (number, node) in ["a1-0", "a1-1", "a1-2", "a2-0"].into_iter().enumerate() {
        let gang = whole_node_gang(&format!("g{number}"), 1, None);
        let mut placement = Placement::new();
        placement.push(GroupName::new("worker"), vec![(NodeName::new(node), 1)]);
        engine.restore_gang(gang, placement, ms(number as i64));
    }
    let wide = whole_node_gang("wide", 3, None);
    let sliced = with_slices(wide.clone(), &[("rack", 3)]);
    for head in [requiring_one_rack(wide), sliced] {
        engine.apply_gang(head);
        cycle_at(&mut engine, 1);
        let reserved = engine.reservation(&id("wide")).unwrap();
        let nodes: Vec<&str> = reserved
            .placement
            .iter()
            .map(|(_, _, node)| node.as_str())
            .collect();
        assert_eq!(nodes, ["a2-0", "a2-1", "a2-2"]);
        engine.delete_gang(&id("wide"));
    }
}

/// The engine reserves one of the gang's two flavors for another gang, and the second flavor has no
/// room. In the second flavor the gang is the first that waits.
#[test]
fn gang_blocked_by_a_reservation_is_head_in_another_flavor() {
    let mut engine = engine_with_two_flavors();
    engine.apply_gang(with_flavors(
        &["a"],
        with_priority(9, gpu_gang("on-a", 4, Some(10))),
    ));
    engine.apply_gang(with_flavors(
        &["b"],
        with_priority(9, gpu_gang("on-b", 8, Some(100))),
    ));
    engine.apply_gang(with_flavors(
        &["b"],
        with_priority(8, whole_node_gang("first", 2, None)),
    ));
    engine.apply_gang(with_flavors(
        &["a", "b"],
        with_priority(7, gpu_gang("second", 8, None)),
    ));
    cycle_at(&mut engine, 0);
    assert_eq!(reservation_start(&engine, "first"), Some(100));
    assert_eq!(reservation_start(&engine, "second"), Some(10));
    let small = Gang {
        preemptible: false,
        ..gpu_gang("small", 4, None)
    };
    engine.apply_gang(with_flavors(&["a"], small));
    assert_eq!(cycle_at(&mut engine, 2), ["-small Reserved"]);
}

/// The engine reserves room for the gang in its first flavor. The next gang gets the second flavor.
#[test]
fn gang_is_head_in_only_one_flavor() {
    let mut engine = engine_with_two_flavors();
    engine.apply_gang(with_flavors(
        &["a"],
        with_priority(9, gpu_gang("on-a", 4, Some(20))),
    ));
    for (name, minutes) in [("b0", 10), ("b1", 100)] {
        engine.apply_gang(with_flavors(
            &["b"],
            with_priority(9, gpu_gang(name, 5, Some(minutes))),
        ));
    }
    engine.apply_gang(with_flavors(
        &["a", "b"],
        with_priority(8, gpu_gang("first", 8, None)),
    ));
    engine.apply_gang(with_flavors(
        &["b"],
        submitted_at(1, whole_node_gang("next", 2, None)),
    ));
    cycle_at(&mut engine, 0);
    assert_eq!(reservation_start(&engine, "first"), Some(20));
    assert_eq!(reservation_start(&engine, "next"), Some(100));
}

/// Returns a non-preemptible gang without a known end.
fn endless_gang(name: &str, gpus: i64) -> Gang {
    Gang {
        preemptible: false,
        ..gpu_gang(name, gpus, None)
    }
}

/// External pods are on a node, so a gang of two whole nodes never fits. A gang of one does.
#[test]
fn gangs_that_can_never_start_do_not_block_other_reservations() {
    let mut engine = engine(gpu_nodes(2));
    apply_pod(&mut engine, "x/foreign", "n00", gpu(1, 1));
    engine.apply_gang(with_priority(9, gpu_gang("runs", 4, Some(10))));
    engine.apply_gang(with_priority(9, gpu_gang("fill", 7, Some(10))));
    cycle_at(&mut engine, 0);
    // More gangs than the engine tries. Each equals another gang.
    for name in 0..100 {
        let mut hopeless = with_priority(8, whole_node_gang(&format!("hopeless-{name}"), 2, None));
        hopeless.groups[0].request = gpu(name % 10, 8);
        engine.apply_gang(hopeless);
    }
    engine.apply_gang(with_priority(7, gpu_gang("large", 8, None)));
    engine.apply_gang(submitted_at(1, endless_gang("small", 4)));
    let said = cycle_at(&mut engine, 1);
    assert_eq!(reservation_start(&engine, "large"), Some(10));
    assert!(said.contains(&"-small Reserved".to_owned()), "{said:?}");
    engine.delete_gang(&id("runs"));
    assert_eq!(
        cycle_at(&mut engine, 2),
        ["+large", "-small InsufficientCapacity"]
    );
}

/// The last pods of a deleted gang terminate one by one.
#[test]
fn head_keeps_its_reservation_while_pods_terminate() {
    let mut engine = engine(gpu_nodes(1));
    let big = Gang {
        grace: Duration::from_secs(120),
        ..with_priority(9, workers("big", 2, gpu(1, 4)))
    };
    engine.apply_gang(big.clone());
    cycle_at(&mut engine, 0);
    apply_pods_of(&mut engine, &big);
    engine.apply_gang(with_priority(5, gpu_gang("head", 8, None)));
    cycle_at(&mut engine, 1);
    assert_eq!(reservation_start(&engine, "head"), None);
    engine.delete_gang(&id("big"));
    engine.delete_pod(&worker_key("big", 0));
    engine.apply_gang(endless_gang("small", 4));
    assert_eq!(cycle_at(&mut engine, 2), ["-small Reserved"]);
    assert_eq!(
        reservation_start(&engine, "head"),
        Some(3),
        "with its grace"
    );
    let late = ms(3 * MINUTE + 1);
    assert_eq!(engine.next_wakeup(), Some(late));
    engine.cycle(late);
    assert_eq!(
        reservation_start(&engine, "head"),
        None,
        "it should be gone"
    );
    engine.delete_pod(&worker_key("big", 1));
    assert_eq!(
        cycle_at(&mut engine, 4),
        ["+head", "-small InsufficientCapacity"]
    );
}

/// A leaving external pod ends at its reported time.
#[test]
fn leaving_external_pod_ends_at_its_reported_time() {
    let mut engine = engine(gpu_nodes(1));
    apply_pod(&mut engine, "x/foreign", "n00", gpu(1, 4));
    engine.apply_gang(with_priority(5, gpu_gang("head", 8, None)));
    cycle_at(&mut engine, 0);
    assert_eq!(
        engine.reservations().count(),
        0,
        "nobody knows that it ends"
    );
    let foreign = PodKey::new("x/foreign");
    engine.mark_pod_leaving(&foreign, ms(2 * MINUTE));
    engine.apply_gang(endless_gang("small", 4));
    assert_eq!(cycle_at(&mut engine, 1), ["-small Reserved"]);
    assert_eq!(reservation_start(&engine, "head"), Some(2));
    engine.delete_pod(&foreign);
    assert_eq!(
        cycle_at(&mut engine, 1),
        ["+head", "-small InsufficientCapacity"]
    );
}

#[test]
fn drained_gang_ends_with_its_grace_period() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(batch_queue(QueueStop::None));
    engine.apply_gang(Gang {
        queue: QueueName::new("batch"),
        grace: Duration::from_secs(120),
        ..gpu_gang("drained", 4, Some(100))
    });
    cycle_at(&mut engine, 0);
    engine.apply_queue(batch_queue(QueueStop::HoldAndDrain));
    engine.apply_gang(with_priority(9, gpu_gang("head", 8, None)));
    engine.apply_gang(gpu_gang("small", 4, Some(50)));
    let said = cycle_at(&mut engine, 1);
    assert_eq!(reservation_start(&engine, "head"), Some(3));
    assert!(said.contains(&"-small Reserved".to_owned()), "{said:?}");
    // The engine did not evict the gang a second time.
    engine.apply_queue(batch_queue(QueueStop::None));
    engine.cancel_departure(&id("drained"), ms(0));
    cycle_at(&mut engine, 2);
    assert_eq!(reservation_start(&engine, "head"), Some(102));
}

/// The engine does not evict gangs for another gang if the head waits for their room.
#[test]
fn preemptor_evicts_no_gang_on_reserved_nodes() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    engine.apply_gang(with_priority(20, gpu_gang("above", 4, Some(100))));
    engine.apply_gang(with_priority(0, gpu_gang("low", 4, Some(50))));
    engine.apply_gang(with_priority(20, gpu_gang("beside", 7, Some(200))));
    cycle_at(&mut engine, 0);
    engine.apply_gang(with_priority(10, gpu_gang("head", 8, None)));
    cycle_at(&mut engine, 1);
    assert_eq!(reservation_start(&engine, "head"), Some(100));
    engine.apply_gang(with_priority(5, endless_gang("middle", 4)));
    let said = cycle_at(&mut engine, 2);
    assert_eq!(said, ["-middle InsufficientCapacity"]);
    // The gang ends before the head starts.
    engine.apply_gang(with_priority(5, gpu_gang("middle", 4, Some(90))));
    assert_eq!(cycle_at(&mut engine, 3), ["!middle low"]);
    assert_eq!(reservation_start(&engine, "head"), Some(100));
}

/// The end of the reservation wakes the preemptor without another event.
#[test]
fn preemptor_wakes_when_the_reservation_ends() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    engine.apply_gang(with_priority(20, gpu_gang("above", 4, Some(100))));
    engine.apply_gang(with_priority(0, gpu_gang("low", 4, Some(50))));
    cycle_at(&mut engine, 0);
    engine.apply_gang(with_priority(10, gpu_gang("head", 8, None)));
    engine.apply_gang(with_priority(5, endless_gang("middle", 4)));
    cycle_at(&mut engine, 1);
    engine.delete_gang(&id("head"));
    assert_eq!(cycle_at(&mut engine, 2), ["!middle low"]);
}
