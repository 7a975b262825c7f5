//! Tests of flavor assignment, case by case, as a user of Kueue knows it: flavors in order, the
//! first that fits, borrowing before the next flavor (`whenCanBorrow: Borrow`), and the next flavor
//! before preemption (`whenCanPreempt: TryNextFlavor`), which are Kueue's defaults.
//!
//! The cases are those of Kueue's flavor assigner, with its names. Kueue stops where this engine
//! goes on: it chooses a flavor by quota alone, and checks later if nodes have room.

use crate::common::*;
use crate::flavors_offered::{flavored, one_of_each};
use crate::queues::small;
use trellis_scheduler::{
    Engine, FlavorName, Gang, Node, Preemption, Queue, Quota, Reclaim, ResourceName, Taint,
    TaintEffect, WithinQueue,
};

/// Changes that a case makes to the cluster and the gang.
type Twist = fn(&mut Engine, &mut Gang);

struct Case {
    name: &'static str,
    /// Nominal GPUs of `a` and of `b`, by flavor, in the order of the queue.
    offers: [&'static [(&'static str, i64)]; 2],
    /// By queue: GPUs of a flavor that run.
    held: &'static [(&'static str, &'static str, u32)],
    /// Pods of one GPU each that come to `a`, and the flavors that they name.
    asks: (u32, &'static [&'static str]),
    twist: Twist,
    /// The assigned flavor, or the reason to wait.
    given: &'static str,
}

const PLAIN: Case = Case {
    name: "",
    offers: [&[("one", 4), ("two", 8)], &[("one", 0), ("two", 0)]],
    held: &[],
    asks: (4, &[]),
    twist: |_, _| {},
    given: "one",
};

fn of_flavor(queue: &str, name: &str, pods: u32, flavors: &[&str]) -> Gang {
    let mut gang = small(queue, name, pods);
    gang.groups[0].flavors = flavors.iter().map(|name| FlavorName::new(*name)).collect();
    gang
}

fn given(case: &Case) -> String {
    let mut engine = one_of_each(&["one", "two"]);
    engine.apply_queue(Queue {
        resource_groups: vec![],
        ..flavored("root", None, &[])
    });
    for (queue, offers) in ["a", "b"].into_iter().zip(case.offers) {
        engine.apply_queue(flavored(queue, Some("root"), offers));
    }
    for (queue, flavor, pods) in case.held {
        engine.apply_gang(of_flavor(
            queue,
            &format!("{queue}-{flavor}"),
            *pods,
            &[flavor],
        ));
    }
    cycle(&mut engine);
    let mut gang = of_flavor("a", "w", case.asks.0, case.asks.1);
    (case.twist)(&mut engine, &mut gang);
    engine.apply_gang(gang);
    let said = cycle(&mut engine);
    let of_it = said.into_iter().find(|said| said.contains('w'));
    let starts = of_it.as_deref() == Some("+w");
    let groups = engine.flavors(&id("w")).filter(|_| starts);
    match groups {
        Some(groups) => groups[0].flavors[&ResourceName::new(GPU)].to_string(),
        None => of_it.unwrap_or_default(),
    }
}

/// Applies the queue with this change.
fn queue(engine: &mut Engine, offers: &[(&str, i64)], change: impl Fn(&mut Queue)) {
    let mut queue = flavored("a", Some("root"), offers);
    change(&mut queue);
    engine.apply_queue(queue);
}

fn limited(limit: i64) -> impl Fn(&mut Queue) {
    move |queue| {
        for offer in &mut queue.resource_groups[0].flavors {
            let quota: &mut Quota = offer.quotas.get_mut(&ResourceName::new(GPU)).unwrap();
            quota.borrowing_limit = Some(limit);
        }
    }
}

fn node_of(flavor: &str) -> Node {
    label(gpu_node(flavor, 8), "gpu", flavor)
}

const CASES: [Case; 17] = [
    Case {
        name: "single flavor, fits",
        offers: [&[("one", 4)], &[]],
        ..PLAIN
    },
    Case {
        name: "single flavor, used, does not fit",
        offers: [&[("one", 4)], &[]],
        held: &[("a", "one", 2)],
        given: "-w QuotaExceeded",
        ..PLAIN
    },
    Case {
        name: "single flavor, never fits",
        offers: [&[("one", 3)], &[]],
        given: "-w ExceedsQuota",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, the first is taken though the second has more",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, the first is used up",
        held: &[("a", "one", 1)],
        given: "two",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, neither has enough: none is split",
        offers: [&[("one", 2), ("two", 2)], &[]],
        given: "-w ExceedsQuota",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, skips one that the workload's affinity leaves out",
        twist: |_, gang| {
            let selector = &mut gang.groups[0].constraints.node_selector;
            selector.insert("gpu".into(), "two".into());
        },
        given: "two",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, skips one whose taint is not tolerated",
        twist: |engine, _| {
            let mut flavor = crate::queues::flavor("one");
            flavor.node_taints = vec![Taint {
                key: "dedicated".into(),
                value: String::new(),
                effect: TaintEffect::NoSchedule,
            }];
            engine.apply_flavor(flavor);
        },
        given: "two",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, skips one that does not exist",
        twist: |engine, _| {
            engine.delete_flavor(&FlavorName::new("one"));
        },
        given: "two",
        ..PLAIN
    },
    Case {
        name: "the workload names the second alone",
        asks: (4, &["two"]),
        given: "two",
        ..PLAIN
    },
    Case {
        name: "the workload's order goes before the queue's",
        asks: (4, &["two", "one"]),
        given: "two",
        ..PLAIN
    },
    Case {
        name: "borrows in the first flavor before it tries the next",
        offers: [&[("one", 2), ("two", 8)], &[("one", 2), ("two", 0)]],
        ..PLAIN
    },
    Case {
        name: "does not borrow beyond its limit",
        offers: [&[("one", 2), ("two", 8)], &[("one", 2), ("two", 0)]],
        twist: |engine, _| queue(engine, &[("one", 2), ("two", 8)], limited(1)),
        given: "two",
        ..PLAIN
    },
    Case {
        name: "what another has borrowed is not there to borrow",
        offers: [&[("one", 2), ("two", 8)], &[("one", 2), ("two", 0)]],
        held: &[("b", "one", 1)],
        given: "two",
        ..PLAIN
    },
    Case {
        name: "tries the next flavor before it preempts in the first",
        held: &[("a", "one", 4)],
        twist: |engine, gang| {
            gang.priority = 10;
            queue(engine, &[("one", 4), ("two", 8)], |queue| {
                queue.preemption.within_queue = WithinQueue::LowerPriority;
            });
        },
        given: "two",
        ..PLAIN
    },
    Case {
        name: "reclaims in the first flavor where no other has room",
        offers: [&[("one", 4), ("two", 0)], &[("one", 0), ("two", 0)]],
        held: &[("b", "one", 4)],
        twist: |engine, _| {
            queue(engine, &[("one", 4), ("two", 0)], |queue| {
                queue.preemption = Preemption {
                    reclaim: Reclaim::Any,
                    ..Preemption::default()
                };
            });
        },
        given: "!w b-one",
        ..PLAIN
    },
    Case {
        name: "unlike Kueue: quota without nodes is passed over",
        twist: |engine, _| {
            engine.apply_node(Node {
                unschedulable: true,
                ..node_of("one")
            });
        },
        given: "two",
        ..PLAIN
    },
];

#[test]
fn rows_of_kueues_flavor_assigner() {
    for case in &CASES {
        assert_eq!(given(case), case.given, "{}", case.name);
    }
}

/// The first flavor would do if a gang of the same queue left, the second if another queue gave
/// back what it borrows.
#[test]
fn a_borrower_of_a_later_flavor_leaves_before_a_gang_of_the_own_queue() {
    let mut engine = one_of_each(&["one", "two"]);
    engine.apply_queue(Queue {
        resource_groups: vec![],
        ..flavored("root", None, &[])
    });
    engine.apply_queue(Queue {
        preemption: Preemption {
            within_queue: WithinQueue::LowerPriority,
            reclaim: Reclaim::Any,
            ..Preemption::default()
        },
        ..flavored("a", Some("root"), &[("one", 4), ("two", 4)])
    });
    engine.apply_queue(flavored("b", Some("root"), &[("one", 0), ("two", 0)]));
    engine.apply_gang(Gang {
        priority: -1,
        ..of_flavor("a", "own", 4, &["one"])
    });
    engine.apply_gang(of_flavor("b", "lent", 4, &["two"]));
    let mut said = cycle(&mut engine);
    said.sort();
    assert_eq!(said, ["+lent", "+own"]);
    engine.apply_gang(of_flavor("a", "w", 4, &[]));
    assert_eq!(cycle(&mut engine), ["!w lent"]);
}
