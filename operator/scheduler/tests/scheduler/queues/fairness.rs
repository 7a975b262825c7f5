//! Tests of the order of turns, against a second implementation that computes it anew at each step.
//! A cycle starts gangs in that order.

use std::collections::BTreeMap;

use crate::common::*;
use crate::queues::{gpu_quota, queue_below, small_gang};
use proptest::prelude::*;
use trellis_scheduler::{Engine, Gang, Queue, UsageDecay, Weight};

/// The parents of the queues: two leaves are below `mid`, and two beside it.
const PARENTS: [(&str, &str); 5] = [
    ("a", "mid"),
    ("b", "mid"),
    ("c", "root"),
    ("d", "root"),
    ("mid", "root"),
];
const LEAVES: [&str; 4] = ["a", "b", "c", "d"];
/// The leaves below `mid`.
const MID: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
struct PendingGang {
    queue: &'static str,
    priority: i32,
    submitted: i64,
    gpus: u32,
}

#[derive(Debug)]
struct FairnessModel {
    /// By queue: nominal GPUs and weight in thousandths. Weights are powers of two, so no share is
    /// rounded.
    queues: BTreeMap<&'static str, (i64, u32)>,
    held: BTreeMap<&'static str, i64>,
    pending: BTreeMap<String, PendingGang>,
}

impl FairnessModel {
    /// Returns the usage of a queue divided by its weight, in parts so small that no rounding
    /// occurs.
    fn share(&self, queue: &str) -> i64 {
        let own = self.held.get(queue).copied().unwrap_or(0);
        let below = PARENTS.iter().filter(|(_, parent)| *parent == queue);
        let below: i64 = below
            .map(|(leaf, _)| self.held.get(leaf).unwrap_or(&0))
            .sum();
        (own + below) * (1 << 20) / i64::from(self.queues[queue].1)
    }

    /// Returns how far up a queue must borrow for this many more GPUs: 0 not at all, 2 from the
    /// root.
    fn borrowing_level(&self, leaf: &str, gpus: i64) -> u32 {
        let held = |queue: &str| self.held.get(queue).copied().unwrap_or(0);
        if held(leaf) + gpus <= self.queues[leaf].0 {
            return 0;
        }
        if !MID.contains(&leaf) {
            return 2;
        }
        let quota: i64 = ["a", "b", "mid"]
            .iter()
            .map(|queue| self.queues[queue].0)
            .sum();
        let below: i64 = MID.iter().map(|leaf| held(leaf)).sum();
        if below + gpus <= quota { 1 } else { 2 }
    }

    /// Returns the gang whose turn it is. The order is by how far its queue borrows, then down the
    /// tree by share and by the age of the gang, then in its queue by priority, submission and
    /// name.
    fn next_gang(&self) -> Option<String> {
        let heads = LEAVES.iter().filter_map(|leaf| {
            let own = self.pending.iter().filter(|(_, gang)| gang.queue == *leaf);
            let (name, gang) =
                own.min_by_key(|(name, gang)| (-gang.priority, gang.submitted, (*name).clone()))?;
            let level = self.borrowing_level(leaf, i64::from(gang.gpus));
            let rank = (self.share(leaf), gang.submitted, *leaf);
            Some((level, rank, name.clone()))
        });
        let heads: Vec<_> = heads.collect();
        let lowest = heads.iter().map(|(level, ..)| *level).min()?;
        let heads = heads.into_iter().filter(|(level, ..)| *level == lowest);
        let (below, beside): (Vec<_>, Vec<_>) =
            heads.partition(|(_, (_, _, leaf), _)| MID.contains(leaf));
        // Below the root `mid` has the turn, and then one of its leaves.
        let first = below
            .into_iter()
            .min()
            .map(|(_, (_, submitted, _), name)| ((self.share("mid"), submitted, "mid"), name));
        let others = beside.into_iter().map(|(_, rank, name)| (rank, name));
        others.chain(first).min().map(|(_, name)| name)
    }

    /// Returns all gangs in the order in which they start.
    fn start_order(mut self) -> Vec<String> {
        let mut order = Vec::new();
        while let Some(name) = self.next_gang() {
            let gang = self.pending.remove(&name).unwrap();
            *self.held.entry(gang.queue).or_default() += i64::from(gang.gpus);
            order.push(format!("+{name}"));
        }
        order
    }
}

fn any_queue() -> impl Strategy<Value = (i64, u32)> {
    (0..12_i64, 0..4_u32).prop_map(|(nominal, weight)| (nominal, 512 << weight))
}

fn any_pending_gang() -> impl Strategy<Value = PendingGang> {
    (0..4_usize, 0..3_i32, 0..4_i64, 1..5_u32).prop_map(|(leaf, priority, submitted, gpus)| {
        PendingGang {
            queue: LEAVES[leaf],
            priority,
            submitted,
            gpus,
        }
    })
}

fn queue(fleet: &FairnessModel, name: &str, parent: &str) -> Queue {
    let (nominal, weight) = fleet.queues[name];
    Queue {
        weight: Weight::from_thousandths(weight),
        ..queue_below(name, Some(parent), gpu_quota(nominal))
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// There is room and quota for all gangs, so a cycle decides only their order.
    #[test]
    fn cycle_starts_gangs_in_the_order_of_their_turns(
        queues in prop::collection::vec(any_queue(), 5),
        held in prop::collection::vec(0..6_u32, 4),
        waits in prop::collection::vec(any_pending_gang(), 1..12),
    ) {
        let named = waits.into_iter().enumerate();
        let fleet = FairnessModel {
            queues: PARENTS.iter().map(|(name, _)| *name).zip(queues).collect(),
            held: LEAVES.into_iter().zip(held.iter().map(|n| i64::from(*n))).collect(),
            pending: named.map(|(at, gang)| (format!("w{at:02}"), gang)).collect(),
        };
        let mut engine = Engine::with_decay(UsageDecay::with_half_life(0));
        // GPUs are the scarcest resource, so shares are measured by them.
        engine.apply_node(node("n", gpu(512, 128).with("pods", 512)));
        engine.apply_queue(queue_below("root", None, gpu_quota(128)));
        for (name, parent) in PARENTS {
            engine.apply_queue(queue(&fleet, name, parent));
        }
        for (leaf, pods) in LEAVES.into_iter().zip(held).filter(|(_, pods)| *pods > 0) {
            engine.apply_gang(small_gang(leaf, &format!("held-{leaf}"), pods));
        }
        cycle(&mut engine);
        for (name, waits) in &fleet.pending {
            engine.apply_gang(Gang {
                priority: waits.priority,
                submitted: ms(waits.submitted),
                ..small_gang(waits.queue, name, waits.gpus)
            });
        }
        prop_assert_eq!(cycle(&mut engine), fleet.start_order());
    }
}
