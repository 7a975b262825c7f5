//! Tests of queue trees, flavors and turns.

pub(super) mod fairness;
pub(super) mod leaving_quota;
pub(super) mod order;
pub(super) mod starvation;
pub(super) mod turns;

use std::collections::BTreeMap;

use crate::common::*;
use trellis_scheduler::{
    Engine, Flavor, FlavorName, FlavorQuotas, Gang, NodeName, Placement, Queue, QueueName,
    QueueOrder, Quota, ResourceGroup, ResourceName, Taint, TaintEffect, Toleration,
    TolerationOperator, WaitReason, Weight,
};

pub(crate) fn gpu_quota(nominal: i64) -> Quota {
    Quota {
        nominal,
        ..Quota::default()
    }
}

/// Returns a queue below `parent` with this many GPUs and practically unlimited cores.
pub(crate) fn queue_below(name: &str, parent: Option<&str>, quota: Quota) -> Queue {
    let plenty = gpu_quota(i64::MAX >> 8);
    let mut queue = Queue::new(QueueName::new(name)).with_quotas([
        (ResourceName::new(GPU), quota),
        (ResourceName::new("cpu"), plenty),
    ]);
    queue.parent = parent.map(QueueName::new);
    queue
}

fn in_queue(queue: &str, mut gang: Gang) -> Gang {
    gang.queue = QueueName::new(queue);
    gang
}

/// Returns a gang of this many one-GPU pods.
pub(crate) fn small_gang(queue: &str, name: &str, pods: u32) -> Gang {
    in_queue(queue, workers(name, pods, gpu(1, 1)))
}

/// Returns an engine with 16 GPUs and two teams of 8 GPUs each below `all`.
fn engine_with_two_teams() -> Engine {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(queue_below("all", None, gpu_quota(0)));
    engine.apply_queue(queue_below("a", Some("all"), gpu_quota(8)));
    engine.apply_queue(queue_below("b", Some("all"), gpu_quota(8)));
    engine
}

#[test]
fn idle_quota_of_a_team_is_borrowed_by_the_other() {
    let mut engine = engine_with_two_teams();
    engine.apply_gang(small_gang("a", "big", 12));
    assert_eq!(cycle(&mut engine), ["+big"]);
    let standing = engine.queue_usage_report(&QueueName::new("a")).unwrap();
    let line = standing.lines.iter().find(|l| l.resource.as_str() == GPU);
    let line = line.unwrap();
    assert_eq!((line.nominal, line.usage, line.borrowed), (8, 12, 4));
    // The guarantee of team `b` is partly lent. The gang waits, and the explanation names the
    // borrower.
    let explanation = trial_explanation(&mut engine, &small_gang("b", "w", 8));
    assert_eq!(
        format!("{}: {explanation}", explanation.reason),
        "QuotaExceeded: needs 8 nvidia.com/gpu, 12 of 16 are held in queue \"all\": 4 are missing; \
         held by queue \"a\" 12; borrowed by queue \"a\" 4; queue \"b\" holds 0 of its 8, and what it \
         has lent is not taken back: its preemption.reclaimWithinCohort is Never"
    );
    engine.apply_gang(small_gang("b", "fits", 4));
    engine.apply_gang(small_gang("b", "waits", 4));
    assert_eq!(cycle(&mut engine), ["+fits", "-waits QuotaExceeded"]);
    engine.delete_gang(&id("big"));
    assert_eq!(
        cycle(&mut engine),
        ["+waits"],
        "what is given back anywhere below the root wakes"
    );
}

#[test]
fn borrowing_and_lending_limits_are_enforced() {
    let mut engine = engine_with_two_teams();
    engine.apply_queue(queue_below(
        "a",
        Some("all"),
        Quota {
            borrowing_limit: Some(2),
            ..gpu_quota(8)
        },
    ));
    engine.apply_gang(small_gang("a", "too-much", 11));
    engine.apply_gang(small_gang("a", "enough", 10));
    assert_eq!(cycle(&mut engine), ["+enough", "-too-much ExceedsQuota"]);
    let explanation = trial_explanation(&mut engine, &small_gang("a", "one", 1));
    assert_eq!(
        explanation.to_string(),
        "needs 1 nvidia.com/gpu, 10 of 10 (its borrowing limit) are held in queue \"a\": 1 is \
         missing; held by 1 gang (\"team/enough\" 10); queue \"a\" holds 10 of its 8, would \
         borrow 1 and may borrow 0 now"
    );
    let mut engine = engine_with_two_teams();
    engine.apply_queue(queue_below(
        "b",
        Some("all"),
        Quota {
            lending_limit: Some(3),
            ..gpu_quota(8)
        },
    ));
    engine.apply_gang(small_gang("a", "w", 12));
    assert_eq!(cycle(&mut engine), ["-w ExceedsQuota"]);
    engine.apply_gang(small_gang("a", "w", 11));
    assert_eq!(cycle(&mut engine), ["+w"]);
}

#[test]
fn gang_within_nominal_starts_before_a_borrowing_gang() {
    let mut engine = engine_with_two_teams();
    engine.apply_gang(small_gang("a", "a1", 8));
    engine.apply_gang(small_gang("a", "a2", 4));
    engine.apply_gang(small_gang("b", "b1", 8));
    assert_eq!(cycle(&mut engine), ["+a1", "+b1", "-a2 QuotaExceeded"]);
}

#[test]
fn turns_follow_past_usage_divided_by_weight() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(queue_below("all", None, gpu_quota(16)));
    for (name, weight) in [("a", 1_000), ("b", 3_000)] {
        let mut queue = queue_below(name, Some("all"), gpu_quota(0));
        queue.weight = Weight::from_thousandths(weight);
        engine.apply_queue(queue);
        for i in 0..16 {
            engine.apply_gang(small_gang(name, &format!("{name}{i:02}"), 1));
        }
    }
    let started: Vec<String> = cycle(&mut engine)
        .into_iter()
        .filter(|d| d.starts_with('+'))
        .collect();
    let of = |queue: &str| {
        started
            .iter()
            .filter(|d| d.starts_with(&format!("+{queue}")))
            .count()
    };
    assert_eq!((of("a"), of("b")), (4, 12), "{started:?}");
}

#[test]
fn turns_are_unchanged_by_a_restart() {
    let day = 86_400_000;
    let build = || {
        let mut engine = engine(gpu_nodes(2));
        engine.apply_queue(queue_below("all", None, gpu_quota(16)));
        for name in ["a", "b"] {
            engine.apply_queue(queue_below(name, Some("all"), gpu_quota(0)));
        }
        engine
    };
    let mut before = build();
    // `a` has held all GPUs for a day, and no gang holds GPUs now.
    before.apply_gang(small_gang("a", "long", 16));
    before.cycle(ms(day));
    before.cycle(ms(2 * day));
    before.delete_gang(&id("long"));
    before.cycle(ms(2 * day));
    let mut after = build();
    after.advance(ms(3 * day));
    for name in ["all", "a", "b"] {
        let name = QueueName::new(name);
        after.restore_queue_memory(&name, &before.queue_memory(&name).unwrap());
    }
    for engine in [&mut before, &mut after] {
        engine.apply_gang(small_gang("a", "a", 16));
        engine.apply_gang(small_gang("b", "b", 16));
        let said = format_decisions(&engine.cycle(ms(3 * day)));
        assert_eq!(said, ["+b", "-a QuotaExceeded"]);
    }
    for name in ["all", "a", "b"] {
        let name = QueueName::new(name);
        let memory = |engine: &Engine| engine.queue_memory(&name).unwrap().usage;
        for (resource, decayed) in memory(&before) {
            let again = memory(&after)[&resource];
            // The error is at most 2^-20 of a base unit.
            let apart = (decayed.as_parts() - again.as_parts()).abs();
            assert!(apart <= 1, "{resource}: {decayed:?} {again:?}");
        }
    }
}

#[test]
fn no_gang_passes_the_head_of_a_strict_queue() {
    let mut engine = engine(gpu_nodes(1));
    let mut strict = Queue::new(QueueName::new("strict"));
    strict.order = QueueOrder::StrictFifo;
    engine.apply_queue(strict);
    let mut head = in_queue("strict", workers("head", 2, gpu(1, 8)));
    head.priority = 5;
    engine.apply_gang(head);
    engine.apply_gang(small_gang("strict", "behind", 1));
    assert_eq!(
        cycle(&mut engine),
        ["-head ExceedsCluster", "-behind BehindHead"]
    );
    assert_eq!(
        engine.explanation(&id("behind")).unwrap().to_string(),
        "queue \"strict\" starts its jobs strictly in order, and \"team/head\" is at its head"
    );
    // The gang does not block another queue.
    engine.apply_gang(small_gang("default", "other", 1));
    assert_eq!(cycle(&mut engine), ["+other"]);
    engine.delete_gang(&id("head"));
    assert_eq!(cycle(&mut engine), ["+behind"]);
}

#[test]
fn head_of_a_strict_queue_is_passed_while_it_backs_off() {
    let mut engine = engine(gpu_nodes(1));
    let mut strict = Queue::new(QueueName::new("strict"));
    strict.order = QueueOrder::StrictFifo;
    engine.apply_queue(strict);
    let mut head = small_gang("strict", "head", 1);
    head.priority = 5;
    head.not_before = Some(ms(1_000));
    engine.apply_gang(head);
    engine.apply_gang(small_gang("strict", "behind", 1));
    assert_eq!(cycle(&mut engine), ["+behind", "-head BackingOff"]);
}

#[test]
fn misconfigured_queue_stops_only_itself() {
    let mut engine = engine_with_two_teams();
    engine.apply_queue(queue_below("x", Some("y"), gpu_quota(8)));
    engine.apply_queue(queue_below("y", Some("x"), gpu_quota(8)));
    engine.apply_queue(queue_below("orphan", Some("nobody"), gpu_quota(8)));
    for (queue, name) in [
        ("x", "in-cycle"),
        ("orphan", "lost"),
        ("all", "inner"),
        ("a", "fine"),
    ] {
        engine.apply_gang(small_gang(queue, name, 1));
    }
    let mut said = cycle(&mut engine);
    said.sort();
    assert_eq!(
        said,
        [
            "+fine",
            "-in-cycle QueueMisconfigured",
            "-inner QueueMisconfigured",
            "-lost QueueMisconfigured"
        ]
    );
    let words = |gang: &str| engine.explanation(&id(gang)).unwrap().to_string();
    assert_eq!(
        words("in-cycle"),
        "queue \"x\" is part of a cycle of parents: \"x\" below \"y\" below \"x\"; change spec.parentName of one of them"
    );
    assert_eq!(
        words("lost"),
        "queue \"orphan\" is below \"nobody\", which does not exist: create that queue, or correct spec.parentName"
    );
    assert_eq!(
        words("inner"),
        "queue \"all\" has queues below it, and gangs wait in queues that have none"
    );
    engine.apply_queue(queue_below("x", None, gpu_quota(8)));
    engine.apply_queue(queue_below("nobody", None, gpu_quota(8)));
    let mut said = cycle(&mut engine);
    said.sort();
    // `x` is now the parent of `y`, so it is no leaf.
    assert_eq!(said, ["+lost"]);
    engine.delete_queue(&QueueName::new("y"));
    assert_eq!(cycle(&mut engine), ["+in-cycle"]);
}

pub(crate) fn flavor(name: &str) -> Flavor {
    Flavor {
        node_labels: BTreeMap::from([("gpu".to_owned(), name.to_owned())]),
        ..Flavor::new(FlavorName::new(name))
    }
}

/// Returns an engine with one node of each flavor, and a queue that offers 8 GPUs of `h100`, then 8
/// of `a100`.
pub(crate) fn engine_with_two_offered_flavors() -> Engine {
    let nodes = ["a100", "h100"].map(|f| label(gpu_node(f, 8), "gpu", f));
    let mut engine = engine(nodes);
    let offer = |name: &str| FlavorQuotas {
        flavor: FlavorName::new(name),
        quotas: [GPU, "cpu"]
            .map(|r| {
                (
                    ResourceName::new(r),
                    gpu_quota(if r == GPU { 8 } else { 1 << 40 }),
                )
            })
            .into(),
    };
    let mut queue = Queue::new(QueueName::new("q"));
    queue.resource_groups = vec![ResourceGroup {
        flavors: vec![offer("h100"), offer("a100")],
    }];
    engine.apply_queue(queue);
    engine.apply_flavor(flavor("h100"));
    engine.apply_flavor(flavor("a100"));
    engine
}

#[test]
fn flavors_are_tried_in_order_by_quota_and_room() {
    let mut engine = engine_with_two_offered_flavors();
    assert_eq!(
        trial_placement(&mut engine, &small_gang("q", "w", 8)),
        "worker: h100*8"
    );
    // Gangs hold all quota of the first flavor.
    engine.apply_gang(small_gang("q", "first", 8));
    engine.apply_gang(small_gang("q", "second", 8));
    assert_eq!(cycle(&mut engine), ["+first", "+second"]);
    assert_eq!(
        format_placement(&engine.placement(&id("second")).unwrap()),
        "worker: a100*8"
    );
    let explanation = trial_explanation(&mut engine, &small_gang("q", "third", 1));
    assert!(
        explanation.to_string().starts_with(
            "needs 1 nvidia.com/gpu of flavor \"h100\", 8 of 8 are held in queue \"q\": 1 is missing"
        ),
        "{explanation}"
    );
    // Free quota of either flavor wakes the pending gang.
    engine.apply_gang(small_gang("q", "third", 1));
    assert_eq!(cycle(&mut engine), ["-third QuotaExceeded"]);
    engine.delete_gang(&id("second"));
    assert_eq!(cycle(&mut engine), ["+third"]);

    // The nodes of the first flavor are in use, but its quota is not.
    let mut engine = engine_with_two_offered_flavors();
    apply_pod(&mut engine, "x/foreign", "h100", gpu(1, 4));
    assert_eq!(
        trial_placement(&mut engine, &small_gang("q", "w", 8)),
        "worker: a100*8"
    );
}

#[test]
fn group_gets_only_flavors_that_it_accepts() {
    let mut engine = engine_with_two_offered_flavors();
    let mut gang = small_gang("q", "w", 4);
    gang.groups[0].flavors = vec![FlavorName::new("a100")];
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a100*4");
    gang.groups[0].flavors = vec![FlavorName::new("a100"), FlavorName::new("h100")];
    engine.apply_gang(small_gang("q", "x", 8));
    assert_eq!(cycle(&mut engine), ["+x"]);
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a100*4");
}

#[test]
fn deleted_or_untolerated_flavor_is_skipped() {
    let mut engine = engine_with_two_offered_flavors();
    let mut tainted = flavor("h100");
    tainted.node_taints = vec![Taint {
        key: "spot".to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    }];
    engine.apply_flavor(tainted.clone());
    assert_eq!(
        trial_placement(&mut engine, &small_gang("q", "w", 1)),
        "worker: a100*1"
    );
    tainted.tolerations = vec![Toleration {
        key: Some("spot".to_owned()),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
    }];
    engine.apply_flavor(tainted);
    assert_eq!(
        trial_placement(&mut engine, &small_gang("q", "w", 1)),
        "worker: h100*1"
    );
    engine.delete_flavor(&FlavorName::new("h100"));
    assert_eq!(
        trial_placement(&mut engine, &small_gang("q", "w", 1)),
        "worker: a100*1"
    );
    engine.apply_gang(small_gang("q", "w", 1));
    engine.delete_flavor(&FlavorName::new("a100"));
    assert_eq!(cycle(&mut engine), ["-w FlavorNotFound"]);
    assert_eq!(wait_reason(&engine, "w"), Some(WaitReason::FlavorNotFound));
    engine.apply_flavor(flavor("a100"));
    assert_eq!(cycle(&mut engine), ["+w"]);
}

#[test]
fn restored_gang_is_charged_to_the_flavor_of_its_nodes() {
    let mut engine = engine_with_two_offered_flavors();
    let placement: Placement = [(
        trellis_scheduler::GroupName::new("worker"),
        vec![(NodeName::new("a100"), 8)],
    )]
    .into_iter()
    .collect();
    engine.restore_gang(small_gang("q", "old", 8), placement, ms(0));
    let standing = engine.queue_usage_report(&QueueName::new("q")).unwrap();
    let held: Vec<(&str, i128)> = standing
        .lines
        .iter()
        .filter(|l| l.resource.as_str() == GPU)
        .map(|l| (l.flavor.as_str(), l.usage))
        .collect();
    assert_eq!(held, [("h100", 0), ("a100", 8)]);
    assert_eq!(
        trial_placement(&mut engine, &small_gang("q", "w", 8)),
        "worker: h100*8"
    );
}
