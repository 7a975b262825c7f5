//! Tests of flavor assignment, with cases that a user of Kueue knows. The engine tries flavors in
//! order and takes the first that fits. By default it borrows before it tries the next flavor
//! (`whenCanBorrow: Borrow`), and tries the next flavor before it preempts (`whenCanPreempt:
//! TryNextFlavor`), as Kueue does.
//!
//! The cases and their names are from Kueue's flavor assigner. Kueue chooses a flavor by quota
//! alone, and checks later if nodes have room. This engine checks both.

use crate::common::*;
use crate::flavors::offered::{engine_with_one_node_per_flavor, queue_with_flavors};
use crate::queues::small_gang;
use trellis_scheduler::{
    Engine, FlavorName, Gang, Node, PreemptionPolicy, ProvisioningScope, Queue, Quota,
    ReclaimPolicy, ResourceName, Taint, TaintEffect, WithinQueuePolicy,
};

/// Changes that a case makes to the cluster and the gang.
type Setup = fn(&mut Engine, &mut Gang);

struct Case {
    name: &'static str,
    /// Nominal GPUs of `a` and of `b`, by flavor, in the order of the queue.
    offers: [&'static [(&'static str, i64)]; 2],
    /// By queue: GPUs of a flavor that running gangs hold.
    held: &'static [(&'static str, &'static str, u32)],
    /// The number of new pods of `a`, with one GPU each, and the flavors that they name.
    request: (u32, &'static [&'static str]),
    setup: Setup,
    /// The assigned flavor, or the reason to wait.
    expected: &'static str,
}

const PLAIN: Case = Case {
    name: "",
    offers: [&[("one", 4), ("two", 8)], &[("one", 0), ("two", 0)]],
    held: &[],
    request: (4, &[]),
    setup: |_, _| {},
    expected: "one",
};

fn of_flavor(queue: &str, name: &str, pods: u32, flavors: &[&str]) -> Gang {
    let mut gang = small_gang(queue, name, pods);
    gang.groups[0].flavors = flavors.iter().map(|name| FlavorName::new(*name)).collect();
    gang
}

fn outcome_of(case: &Case) -> String {
    let mut engine = engine_with_one_node_per_flavor(&["one", "two"]);
    engine.apply_queue(Queue {
        resource_groups: vec![],
        ..queue_with_flavors("root", None, &[])
    });
    for (queue, offers) in ["a", "b"].into_iter().zip(case.offers) {
        engine.apply_queue(queue_with_flavors(queue, Some("root"), offers));
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
    let mut gang = of_flavor("a", "w", case.request.0, case.request.1);
    (case.setup)(&mut engine, &mut gang);
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
fn apply_changed_queue(engine: &mut Engine, offers: &[(&str, i64)], change: impl Fn(&mut Queue)) {
    let mut queue = queue_with_flavors("a", Some("root"), offers);
    change(&mut queue);
    engine.apply_queue(queue);
}

fn with_borrowing_limit(limit: i64) -> impl Fn(&mut Queue) {
    move |queue| {
        for offer in &mut queue.resource_groups[0].flavors {
            let quota: &mut Quota = offer.quotas.get_mut(&ResourceName::new(GPU)).unwrap();
            quota.borrowing_limit = Some(limit);
        }
    }
}

fn avoid_borrowing(queue: &mut Queue) {
    queue.flavor_policy.avoids_borrowing = true;
}

fn flavor_node(flavor: &str) -> Node {
    label(gpu_node(flavor, 8), "gpu", flavor)
}

const CASES: [Case; 25] = [
    Case {
        name: "single flavor, fits",
        offers: [&[("one", 4)], &[]],
        ..PLAIN
    },
    Case {
        name: "single flavor, used, does not fit",
        offers: [&[("one", 4)], &[]],
        held: &[("a", "one", 2)],
        expected: "-w QuotaExceeded",
        ..PLAIN
    },
    Case {
        name: "single flavor, never fits",
        offers: [&[("one", 3)], &[]],
        expected: "-w ExceedsQuota",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, the first is taken though the second has more",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, the first is used up",
        held: &[("a", "one", 1)],
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, neither has enough: none is split",
        offers: [&[("one", 2), ("two", 2)], &[]],
        expected: "-w ExceedsQuota",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, skips one that the workload's affinity leaves out",
        setup: |_, gang| {
            let selector = &mut gang.groups[0].constraints.node_selector;
            selector.insert("gpu".into(), "two".into());
        },
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, skips one whose taint is not tolerated",
        setup: |engine, _| {
            let mut flavor = crate::queues::flavor("one");
            flavor.node_taints = vec![Taint {
                key: "dedicated".into(),
                value: String::new(),
                effect: TaintEffect::NoSchedule,
            }];
            engine.apply_flavor(flavor);
        },
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "multiple flavors, skips one that does not exist",
        setup: |engine, _| {
            engine.delete_flavor(&FlavorName::new("one"));
        },
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "the workload names the second alone",
        request: (4, &["two"]),
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "the workload's order goes before the queue's",
        request: (4, &["two", "one"]),
        expected: "two",
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
        setup: |engine, _| {
            apply_changed_queue(engine, &[("one", 2), ("two", 8)], with_borrowing_limit(1))
        },
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "what another has borrowed is not there to borrow",
        offers: [&[("one", 2), ("two", 8)], &[("one", 2), ("two", 0)]],
        held: &[("b", "one", 1)],
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "tries the next flavor before it preempts in the first",
        held: &[("a", "one", 4)],
        setup: |engine, gang| {
            gang.priority = 10;
            apply_changed_queue(engine, &[("one", 4), ("two", 8)], |queue| {
                queue.preemption.within_queue = WithinQueuePolicy::LowerPriority;
            });
        },
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "reclaims in the first flavor where no other has room",
        offers: [&[("one", 4), ("two", 0)], &[("one", 0), ("two", 0)]],
        held: &[("b", "one", 4)],
        setup: |engine, _| {
            apply_changed_queue(engine, &[("one", 4), ("two", 0)], |queue| {
                queue.preemption = PreemptionPolicy {
                    reclaim: ReclaimPolicy::Any,
                    ..PreemptionPolicy::default()
                };
            });
        },
        expected: "!w b-one",
        ..PLAIN
    },
    Case {
        name: "tries the next flavor before it borrows, if the queue says so",
        offers: [&[("one", 2), ("two", 8)], &[("one", 2), ("two", 0)]],
        setup: |engine, _| apply_changed_queue(engine, &[("one", 2), ("two", 8)], avoid_borrowing),
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "borrows in the first flavor if every flavor would borrow",
        offers: [&[("one", 2), ("two", 3)], &[("one", 2), ("two", 8)]],
        setup: |engine, _| apply_changed_queue(engine, &[("one", 2), ("two", 3)], avoid_borrowing),
        ..PLAIN
    },
    Case {
        name: "borrows in the next flavor before it preempts within quota",
        offers: [&[("one", 4), ("two", 0)], &[("one", 0), ("two", 8)]],
        held: &[("a", "one", 4)],
        setup: |engine, gang| {
            gang.priority = 10;
            apply_changed_queue(engine, &[("one", 4), ("two", 0)], |queue| {
                avoid_borrowing(queue);
                queue.preemption.within_queue = WithinQueuePolicy::LowerPriority;
            });
        },
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "preempts in the first flavor before it tries the next, if the queue says so",
        held: &[("a", "one", 4)],
        setup: |engine, gang| {
            gang.priority = 10;
            apply_changed_queue(engine, &[("one", 4), ("two", 8)], |queue| {
                queue.flavor_policy.prefers_preemption = true;
                queue.preemption.within_queue = WithinQueuePolicy::LowerPriority;
            });
        },
        expected: "!w a-one",
        ..PLAIN
    },
    Case {
        name: "tries the next flavor if it may preempt no gang of the first",
        held: &[("a", "one", 4)],
        setup: |engine, _| {
            apply_changed_queue(engine, &[("one", 4), ("two", 8)], |queue| {
                queue.flavor_policy.prefers_preemption = true;
                queue.preemption.within_queue = WithinQueuePolicy::LowerPriority;
            });
        },
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "prefers preemption within quota, and a free flavor to preemption that borrows",
        offers: [&[("one", 2), ("two", 0)], &[("one", 2), ("two", 8)]],
        held: &[("a", "one", 2), ("b", "one", 2)],
        setup: |engine, gang| {
            gang.priority = 10;
            apply_changed_queue(engine, &[("one", 2), ("two", 0)], |queue| {
                avoid_borrowing(queue);
                queue.flavor_policy.prefers_preemption = true;
                queue.preemption.within_queue = WithinQueuePolicy::LowerPriority;
                queue.preemption.reclaim = ReclaimPolicy::Any;
            });
        },
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "preempts within quota in the first flavor, though the next one is free",
        held: &[("a", "one", 4)],
        setup: |engine, gang| {
            gang.priority = 10;
            apply_changed_queue(engine, &[("one", 4), ("two", 8)], |queue| {
                avoid_borrowing(queue);
                queue.flavor_policy.prefers_preemption = true;
                queue.preemption.within_queue = WithinQueuePolicy::LowerPriority;
            });
        },
        expected: "!w a-one",
        ..PLAIN
    },
    Case {
        name: "a queue that orders nodes before it preempts tries the next flavor first",
        held: &[("a", "one", 4)],
        setup: |engine, gang| {
            gang.priority = 10;
            apply_changed_queue(engine, &[("one", 4), ("two", 8)], |queue| {
                queue.flavor_policy.prefers_preemption = true;
                queue.preemption.within_queue = WithinQueuePolicy::LowerPriority;
                queue.provisioning.scope = ProvisioningScope::Borrowing;
            });
        },
        expected: "two",
        ..PLAIN
    },
    Case {
        name: "unlike Kueue: quota without nodes is passed over",
        setup: |engine, _| {
            engine.apply_node(Node {
                unschedulable: true,
                ..flavor_node("one")
            });
        },
        expected: "two",
        ..PLAIN
    },
];

#[test]
fn flavor_is_assigned_as_in_kueue() {
    for case in &CASES {
        assert_eq!(outcome_of(case), case.expected, "{}", case.name);
    }
}

/// The first flavor would fit if a gang of the same queue left, the second if another queue gave
/// back borrowed quota.
#[test]
fn borrower_in_a_later_flavor_leaves_before_an_own_queue_gang() {
    let mut engine = engine_with_one_node_per_flavor(&["one", "two"]);
    engine.apply_queue(Queue {
        resource_groups: vec![],
        ..queue_with_flavors("root", None, &[])
    });
    engine.apply_queue(Queue {
        preemption: PreemptionPolicy {
            within_queue: WithinQueuePolicy::LowerPriority,
            reclaim: ReclaimPolicy::Any,
            ..PreemptionPolicy::default()
        },
        ..queue_with_flavors("a", Some("root"), &[("one", 4), ("two", 4)])
    });
    engine.apply_queue(queue_with_flavors(
        "b",
        Some("root"),
        &[("one", 0), ("two", 0)],
    ));
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
