//! Cases of Kueue's fair sharing.

use crate::common::*;
use crate::preemption::fair_share::FAIR;
use crate::preemption::queues::queue_below;
use crate::preemption::{run_cycle_at, seconds};
use trellis_scheduler::{
    Gang, GroupName, NodeName, Placement, PreemptionPolicy, Queue, QueueName, ReclaimPolicy,
    Weight, WithinQueuePolicy,
};

/// The name of the case, the weights of the queues, the gangs that hold GPUs (queue, priority,
/// name, GPUs), the gang that comes (queue, GPUs), and the victims.
type Row<'a> = (
    &'a str,
    [u32; 3],
    &'a [(&'a str, i32, &'a str, i64)],
    (&'a str, i64),
    &'a str,
);

/// Cases of `TestFairPreemptions` of Kueue, with its names. The queues `a`, `b` and `c` have a quota
/// of 6 GPUs each, which stand for 3 CPUs. Kueue calls our rule `LessThanInitialShare`.
///
/// One case differs: if `a` holds 6 and 2, and `b` holds 4 and 6, then `c` reclaims its 6 from the
/// gangs of 2 and 4, and all queues hold 6. Kueue evicts the gang of 6 of `a`, and `b` keeps 10.
#[test]
fn victims_match_kueues_fair_sharing_tests() {
    const EQUAL: [u32; 3] = [1_000; 3];
    let rows: [Row<'_>; 14] = [
        (
            "reclaim nominal from user using the most",
            EQUAL,
            &[
                ("a", 0, "a1", 6),
                ("b", 0, "b1", 2),
                ("b", 0, "b2", 8),
                ("c", 0, "c1", 2),
            ],
            ("c", 2),
            "!w b1",
        ),
        (
            "reclaim borrowable quota from user using the most",
            EQUAL,
            &[
                ("a", 0, "a1", 6),
                ("b", 0, "b1", 2),
                ("b", 0, "b2", 8),
                ("c", 0, "c1", 2),
            ],
            ("a", 2),
            "!w b1",
        ),
        (
            "preempt one from each CQ borrowing",
            EQUAL,
            &[
                ("a", 0, "a1", 1),
                ("a", 0, "a2", 1),
                ("a", 0, "a3", 6),
                ("b", 0, "b1", 1),
                ("b", 0, "b2", 1),
                ("b", 0, "b3", 6),
            ],
            ("c", 4),
            "!w a1 b1",
        ),
        (
            "can't preempt when everyone under nominal",
            EQUAL,
            &[("a", 0, "a1", 6), ("b", 0, "b1", 6), ("c", 0, "c1", 6)],
            ("c", 2),
            "-w QuotaExceeded",
        ),
        (
            "can't preempt when it would switch the imbalance",
            EQUAL,
            &[
                ("a", 0, "a1", 6),
                ("b", 0, "b1", 2),
                ("b", 0, "b2", 2),
                ("b", 0, "b3", 6),
                ("c", 0, "c1", 2),
            ],
            ("a", 4),
            "-w QuotaExceeded",
        ),
        (
            "can preempt a combination of same CQ and highest user",
            EQUAL,
            &[
                ("a", -1, "a_low", 2),
                ("a", 0, "a2", 4),
                ("b", 0, "b1", 2),
                ("b", 0, "b2", 10),
            ],
            ("a", 4),
            "!w a_low b1",
        ),
        (
            "preempt huge workload if there is no other option, as long as the target CQ gets a lower share",
            EQUAL,
            &[("b", 0, "b1", 18)],
            ("a", 4),
            "!w b1",
        ),
        (
            "can't preempt huge workload if the incoming is also huge",
            EQUAL,
            &[("a", 0, "a1", 4), ("b", 0, "b1", 14)],
            ("a", 10),
            "-w QuotaExceeded",
        ),
        (
            "can't preempt 2 smaller workloads if the incoming is huge",
            EQUAL,
            &[("b", 0, "b1", 4), ("b", 0, "b2", 4), ("b", 0, "b3", 6)],
            ("a", 12),
            "-w QuotaExceeded",
        ),
        (
            "preempt from target and others even if over nominal",
            EQUAL,
            &[
                ("a", -1, "a1_low", 4),
                ("a", -1, "a2_low", 2),
                ("b", 0, "b1", 6),
                ("b", 0, "b2", 6),
            ],
            ("a", 8),
            "!w a1_low b1",
        ),
        (
            "preempt from different cluster queues if the end result has a smaller max share",
            EQUAL,
            &[
                ("b", 0, "b1", 4),
                ("b", 0, "b2", 5),
                ("c", 0, "c1", 4),
                ("c", 0, "c2", 5),
            ],
            ("a", 7),
            "!w b1 c1",
        ),
        (
            "scenario above does not flap",
            EQUAL,
            &[("a", 0, "a1", 7), ("b", 0, "b2", 5), ("c", 0, "c2", 5)],
            ("b", 4),
            "-w QuotaExceeded",
        ),
        (
            "cannot preempt if it would make the candidate CQ go under nominal after preempting one element",
            EQUAL,
            &[("b", 0, "b1", 6), ("b", 0, "b2", 6), ("c", 0, "c1", 6)],
            ("a", 8),
            "-w QuotaExceeded",
        ),
        (
            "can preempt anything borrowing from CQ with 0 weight",
            [1_000, 0, 1_000],
            &[("a", 0, "a1", 6), ("b", 0, "b1", 6), ("b", 0, "b2", 6)],
            ("a", 6),
            "!w b1",
        ),
    ];
    let policy = PreemptionPolicy {
        within_queue: WithinQueuePolicy::LowerPriority,
        reclaim: ReclaimPolicy::Any,
        ..FAIR
    };
    for (case, weights, held, (queue, gpus), expected) in rows {
        let mut engine = engine([gpu_node("n0", 64)]);
        engine.apply_queue(queue_below("all", None, 0, PreemptionPolicy::default()));
        for (name, weight) in ["a", "b", "c"].into_iter().zip(weights) {
            engine.apply_queue(Queue {
                weight: Weight::from_thousandths(weight),
                ..queue_below(name, Some("all"), 6, policy)
            });
        }
        let in_queue = |queue: &str, priority, gang: &str, gpus| Gang {
            queue: QueueName::new(queue),
            priority,
            ..workers(gang, 1, gpu(1, gpus))
        };
        for (queue, priority, gang, gpus) in held {
            let runs = vec![(NodeName::new("n0"), 1)];
            let on: Placement = [(GroupName::new("worker"), runs)].into_iter().collect();
            engine.restore_gang(in_queue(queue, *priority, gang, *gpus), on, seconds(0));
        }
        engine.apply_gang(in_queue(queue, 0, "w", gpus));
        assert_eq!(run_cycle_at(&mut engine, seconds(1)), [expected], "{case}");
    }
}
