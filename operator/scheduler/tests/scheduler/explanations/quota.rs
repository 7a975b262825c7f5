//! Tests of the explanation of missing quota: which gangs and queues hold it.

use crate::common::*;
use crate::queues::{gpu_quota, queue_below, small_gang};
use trellis_scheduler::{Quota, ReclaimPolicy};

#[test]
fn explanation_lists_the_queues_with_most_of_the_missing_quota() {
    let mut engine = engine(gpu_nodes(4));
    engine.apply_queue(queue_below("all", None, gpu_quota(0)));
    for (name, nominal) in [("a", 8), ("b", 4), ("c", 4), ("d", 4), ("e", 4)] {
        engine.apply_queue(queue_below(name, Some("all"), gpu_quota(nominal)));
    }
    // Quota that the queue does not lend covers this usage, so no other queue lacks it.
    let alone = Quota {
        lending_limit: Some(0),
        ..gpu_quota(8)
    };
    engine.apply_queue(queue_below("alone", Some("all"), alone));
    for (name, pods) in [
        ("a", 2),
        ("b", 6),
        ("c", 5),
        ("d", 4),
        ("e", 3),
        ("alone", 8),
    ] {
        engine.apply_gang(small_gang(name, name, pods));
    }
    let started = cycle(&mut engine);
    assert_eq!(started.len(), 6, "{started:?}");
    let explanation = trial_explanation(&mut engine, &small_gang("a", "w", 6));
    assert_eq!(
        explanation.to_string(),
        "needs 6 nvidia.com/gpu, 20 of 24 are held in queue \"all\": 2 are missing; held by queue \
         \"b\" 6, \"c\" 5, \"d\" 4, and by 1 gang of its own queue (\"team/a\" 2); borrowed by queue \
         \"b\" 2, \"c\" 1; queue \"a\" holds 2 of its 8, and what it has lent is not taken back: its \
         preemption.reclaimWithinCohort is Never"
    );
    // No queue owes it the amount that it would borrow itself.
    let more = trial_explanation(&mut engine, &small_gang("a", "w", 8)).to_string();
    let end = "; queue \"a\" holds 2 of its 8, would borrow 2 and may borrow 0 now";
    assert!(more.ends_with(end), "{more}");
    // The queue may reclaim, but there is no gang that it may preempt.
    let mut lower = queue_below("a", Some("all"), gpu_quota(8));
    lower.preemption.reclaim = ReclaimPolicy::LowerPriority;
    engine.apply_queue(lower);
    let lower = trial_explanation(&mut engine, &small_gang("a", "w", 6)).to_string();
    assert!(
        lower.ends_with("preemption.reclaimWithinCohort is LowerPriority"),
        "{lower}"
    );
}
