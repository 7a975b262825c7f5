//! Reclaim: 250 pods with 8 GPUs each against 4,000 jobs of one GPU that borrow every device of 500
//! nodes.

use trellis_scheduler::{
    Engine, Gang, PreemptionPolicy, Queue, QueueName, Quota, ReclaimPolicy, ResourceName, Time,
};

use crate::cluster::{Fleet, gang};
use crate::row::Row;
use crate::timing::{resident_bytes, time_run, time_runs};

const NODES: usize = 500;

fn queue(name: &str, gpus: i64) -> Queue {
    let quota = |nominal| Quota {
        nominal,
        ..Quota::default()
    };
    let quotas = [
        (ResourceName::new("nvidia.com/gpu"), quota(gpus)),
        (ResourceName::new("cpu"), quota(1 << 40)),
        (ResourceName::new("memory"), quota(1 << 60)),
    ];
    Queue {
        parent: Some(QueueName::new("all")),
        preemption: PreemptionPolicy {
            reclaim: ReclaimPolicy::Any,
            ..PreemptionPolicy::default()
        },
        ..Queue::new(QueueName::new(name)).with_quotas(quotas)
    }
}

fn full_engine() -> Engine {
    let mut engine = Fleet::with_nodes(NODES).engine();
    engine.apply_queue(Queue::new(QueueName::new("all")));
    engine.apply_queue(queue("owner", 2_000));
    engine.apply_queue(queue("borrower", 2_000));
    for i in 0..8 * NODES {
        engine.apply_gang(Gang {
            queue: QueueName::new("borrower"),
            submitted: Time::from_millis(i64::try_from(i).unwrap_or(0)),
            ..gang(&format!("team/one-{i}"), 1, 1, None)
        });
        engine.cycle(Time::from_millis(i64::try_from(i).unwrap_or(0)));
    }
    assert_eq!(
        engine.placed_gang_count(),
        8 * NODES,
        "all of it is borrowed"
    );
    engine
}

pub(crate) fn print_reclaim(print: &impl Fn(Row)) {
    let mut engine = full_engine();
    let owner = Gang {
        queue: QueueName::new("owner"),
        ..gang("team/owner", 250, 8, None)
    };
    let now = Time::from_millis(1_000_000);
    let before = resident_bytes();
    let took = time_runs(60, |_| {
        let (took, outlook) = time_run(|| engine.try_gang(&owner, now));
        assert_eq!(outlook.map(|o| o.victims.len()), Ok(2_000));
        took
    });
    let grown = resident_bytes().saturating_sub(before);
    print(
        Row::new(
            "reclaim 250 x 8 GPUs from 4,000 jobs, 500 nodes",
            took.median,
        )
        .peer("KAI 1.4 s, 645 MB"),
    );
    print(Row::bytes("memory of that search", grown as f64));
}
