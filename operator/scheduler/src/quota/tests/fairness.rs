//! Tests of remembered usage and of the fair shares computed from it.

use proptest::prelude::*;

use super::common::{cases, demand, empty, flavor_resource, ms, name, next_gang, queue, resource};
use crate::quota::amounts::Demand;
use crate::quota::fair_share::decay::UsageDecay;
use crate::quota::fair_share::memory::DecayedAmount;
use crate::quota::fair_share::turn_order::TurnOrder;
use crate::quota::tree::QuotaTree;
use crate::quota::tree::queue_config::Weight;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

fn gpus(tree: &QuotaTree, of: &str) -> f64 {
    let usage = tree.remembered_usage(tree.queue_idx(of)).usage;
    let of_gpu = usage.iter().find(|(r, _)| *r == resource("gpu"));
    of_gpu.map_or(0.0, |(_, u)| {
        u.as_parts() as f64 / DecayedAmount::PER_UNIT as f64
    })
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
}

fn two_queues(decay: UsageDecay, heavy: u32) -> QuotaTree {
    let mut tree = empty(decay);
    tree.set_capacity(resource("gpu"), 30);
    for (text, weight) in [("light", 1_000), ("heavy", heavy)] {
        let (of, mut member) = queue(text);
        member.weight = Weight::from_thousandths(weight);
        tree.apply(&of, member);
    }
    tree
}

#[test]
fn usage_grows_and_decays_by_half_each_half_life() {
    let mut tree = two_queues(UsageDecay::with_half_life(DAY), 1_000);
    tree.advance(ms(5 * DAY + 7));
    tree.charge_queue("light: gpu=8");
    assert_near(gpus(&tree, "light"), 0.0);
    for (days, expected) in [(1, 4.0), (2, 6.0), (3, 7.0)] {
        tree.advance(ms((5 + days) * DAY + 7));
        assert_near(gpus(&tree, "light"), expected);
    }
    tree.release_queue("light: gpu=8");
    assert_near(gpus(&tree, "light"), 7.0);
    tree.advance(ms(8 * DAY + 12 * HOUR + 7));
    assert_near(gpus(&tree, "light"), 7.0 / 2_f64.sqrt());
    tree.advance(ms(9 * DAY + 7));
    assert_near(gpus(&tree, "light"), 3.5);
    // An earlier time has no effect.
    tree.advance(ms(0));
    assert_near(gpus(&tree, "light"), 3.5);
    tree.advance(ms(500 * DAY));
    assert!(
        tree.remembered_usage(tree.queue_idx("light"))
            .usage
            .is_empty()
    );
}

#[test]
fn only_current_usage_counts_without_a_half_life() {
    let mut tree = two_queues(UsageDecay::with_half_life(0), 1_000);
    tree.advance(ms(DAY));
    tree.charge_queue("light: gpu=8");
    assert_near(gpus(&tree, "light"), 8.0);
    assert_near(tree.share(tree.queue_idx("light")).as_f64(), 8.0 / 30.0);
    tree.release_queue("light: gpu=8");
    assert_near(gpus(&tree, "light"), 0.0);
}

#[test]
fn share_is_the_dominant_resource_divided_by_weight() {
    let mut tree = two_queues(UsageDecay::with_half_life(0), 2_000);
    tree.set_capacity(resource("memory"), 1 << 40);
    tree.charge_queue("heavy: gpu=3 memory=274877906944 cpu=100");
    assert_near(tree.share(tree.queue_idx("heavy")).as_f64(), 0.25 / 2.0);
    tree.charge_queue("heavy: h100/gpu=12");
    assert_near(tree.share(tree.queue_idx("heavy")).as_f64(), 0.5 / 2.0);
    // A resource without capacity adds nothing to a share.
    tree.set_capacity(resource("gpu"), 0);
    assert_near(tree.share(tree.queue_idx("heavy")).as_f64(), 0.25 / 2.0);
}

#[test]
fn parent_usage_includes_the_usage_of_its_subtree() {
    let mut tree = empty(UsageDecay::with_half_life(DAY));
    for text in ["root", "p < root", "a < p", "b < p"] {
        tree.apply_queue(text);
    }
    tree.charge_queue("a: gpu=4");
    tree.advance(ms(DAY));
    tree.charge_queue("b: gpu=4");
    tree.advance(ms(2 * DAY));
    assert_near(gpus(&tree, "root"), 5.0);
    assert_near(gpus(&tree, "p"), gpus(&tree, "a") + gpus(&tree, "b"));
    // A queue that moves keeps its own usage, without the usage of its former siblings.
    tree.apply_queue("b");
    assert_near(gpus(&tree, "root"), 5.0);
    tree.advance(ms(3 * DAY));
    assert_near(gpus(&tree, "root"), 4.5);
    assert_near(gpus(&tree, "b"), 3.0);
}

/// Simulates two queues that always have work: the queue whose turn it is gets the next free slot.
/// Returns the GPU hours of each.
fn simulate_two_queues(decay: UsageDecay, days: i64, spoilt: bool) -> (f64, f64) {
    let mut tree = two_queues(decay, 2_000);
    if spoilt {
        // One of the queues has held everything for a long time.
        tree.charge_queue("heavy: gpu=30");
        tree.advance(ms(30 * DAY));
        tree.release_queue("heavy: gpu=30");
    }
    let begin = if spoilt { 30 * 24 } else { 0 };
    let mut running: Vec<(i64, &str, i64)> = Vec::new();
    let (mut free, mut started) = (30, 0);
    let mut had = [0.0, 0.0];
    for hour in begin..begin + days * 24 {
        tree.advance(ms(hour * HOUR));
        running.retain(|(until, of, size)| {
            if *until <= hour {
                tree.release_queue(&format!("{of}: gpu={size}"));
                free += size;
            }
            *until > hour
        });
        let mut order = TurnOrder::default();
        for of in ["light", "heavy"] {
            order.insert(&tree, tree.queue_idx(of), next_gang("gpu=1", 0));
        }
        loop {
            let (size, length) = (1 + started % 4, 2 + started % 7);
            if size > free {
                break;
            }
            let first = order.first(&tree).unwrap();
            let of = if first == tree.queue_idx("light") {
                "light"
            } else {
                "heavy"
            };
            tree.charge_queue(&format!("{of}: gpu={size}"));
            order.update_shares(&tree, first);
            running.push((hour + length, of, size));
            free -= size;
            started += 1;
            had[usize::from(of == "heavy")] += (size * length) as f64;
        }
    }
    (had[0], had[1])
}

#[test]
fn long_run_usage_follows_weights() {
    for decay in [
        UsageDecay::default(),
        UsageDecay::with_half_life(2 * DAY),
        UsageDecay::default().with_order_lookahead(0),
    ] {
        let (light, heavy) = simulate_two_queues(decay, 90, false);
        let ratio = heavy / light;
        assert!((1.98..2.02).contains(&ratio), "{decay:?}: {ratio}");
    }
}

#[test]
fn usage_follows_weights_roughly_without_a_half_life() {
    let (light, heavy) = simulate_two_queues(UsageDecay::with_half_life(0), 90, false);
    let ratio = heavy / light;
    assert!((1.7..2.3).contains(&ratio), "{ratio}");
}

#[test]
fn queue_with_high_past_usage_waits_for_the_other_queue() {
    let (light, heavy) = simulate_two_queues(UsageDecay::default(), 2, true);
    assert!(heavy < light / 10.0, "{light} {heavy}");
    let (light, heavy) = simulate_two_queues(UsageDecay::with_half_life(0), 2, true);
    assert!(heavy > light, "nothing is remembered: {light} {heavy}");
}

#[test]
fn burst_is_shared_by_weight() {
    let burst = |decay| {
        let mut tree = two_queues(decay, 2_000);
        let mut order = TurnOrder::default();
        for of in ["light", "heavy"] {
            order.insert(&tree, tree.queue_idx(of), next_gang("gpu=1", 0));
        }
        for _ in 0..30 {
            let first = order.first(&tree).unwrap();
            let of = tree.name(first).unwrap().clone();
            tree.charge(&of, &demand("gpu=1"));
            order.update_shares(&tree, first);
        }
        tree.own_usage_of(tree.queue_idx("heavy"), flavor_resource("gpu"))
    };
    assert_eq!(burst(UsageDecay::default()), 20);
    assert_eq!(burst(UsageDecay::with_half_life(0)), 20);
    // Decayed usage alone gives both queues the same share, so the first queue by name gets all
    // slots.
    assert_eq!(burst(UsageDecay::default().with_order_lookahead(0)), 30);
}

#[derive(Clone, Copy, Debug)]
struct Step {
    later: i64,
    queue: usize,
    amount: i128,
}

fn any_step() -> impl Strategy<Value = Step> {
    let later = prop_oneof![Just(0), 1..HOUR, DAY..9 * DAY];
    (later, 0..3_usize, 0..9_i128).prop_map(|(later, queue, amount)| Step {
        later,
        queue,
        amount,
    })
}

const TRIO: [&str; 3] = ["a", "b", "solo"];

fn three_queues() -> QuotaTree {
    let mut tree = empty(UsageDecay::default());
    for text in ["p", "a < p", "b < p", "solo"] {
        tree.apply_queue(text);
    }
    tree.set_capacity(resource("gpu"), 17);
    tree
}

fn charge(tree: &mut QuotaTree, step: Step, back: bool) {
    let demand = Demand::from_iter([(flavor_resource("gpu"), step.amount)]);
    if back {
        tree.release(&name(TRIO[step.queue]), &demand);
    } else {
        tree.charge(&name(TRIO[step.queue]), &demand);
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn share_does_not_depend_on_reads_or_released_trial_charges(
        steps in prop::collection::vec((any_step(), any::<bool>()), 0..20),
        looks in prop::collection::vec(1..40_i64, 1..4),
    ) {
        let (mut calm, mut nosy) = (three_queues(), three_queues());
        let mut now = 0;
        for (step, back) in steps {
            for part in &looks {
                // An earlier charge with an immediate release.
                nosy.advance(ms(now + step.later / 40 * part));
                charge(&mut nosy, step, false);
                let _ = nosy.share(nosy.queue_idx("p"));
                charge(&mut nosy, step, true);
            }
            now += step.later;
            calm.advance(ms(now));
            nosy.advance(ms(now));
            charge(&mut calm, step, back);
            charge(&mut nosy, step, back);
            for of in ["p", "a", "b", "solo"] {
                let at = calm.queue_idx(of);
                prop_assert_eq!(calm.share(at), nosy.share(nosy.queue_idx(of)));
                prop_assert_eq!(calm.remembered_usage(at), nosy.remembered_usage(nosy.queue_idx(of)));
            }
        }
    }

    #[test]
    fn usage_does_not_depend_on_the_order_of_simultaneous_charges(
        mut steps in prop::collection::vec(any_step(), 0..12),
        later in 0..30 * DAY,
    ) {
        let (mut forth, mut back) = (three_queues(), three_queues());
        forth.advance(ms(DAY));
        back.advance(ms(DAY));
        for step in &steps {
            charge(&mut forth, *step, false);
        }
        steps.reverse();
        for step in &steps {
            charge(&mut back, *step, false);
        }
        forth.advance(ms(DAY + later));
        back.advance(ms(DAY + later));
        for of in ["p", "a", "b", "solo"] {
            prop_assert_eq!(forth.remembered_usage(forth.queue_idx(of)), back.remembered_usage(back.queue_idx(of)));
        }
    }

    #[test]
    fn decayed_usage_is_the_exponential_average(steps in prop::collection::vec(any_step(), 1..20)) {
        let mut tree = three_queues();
        let (mut now, mut held, mut average) = (0, 0.0, 0.0_f64);
        for step in steps {
            now += step.later;
            let kept = (-(step.later as f64) / (7 * DAY) as f64).exp2();
            average = held + (average - held) * kept;
            tree.advance(ms(now));
            prop_assert!((gpus(&tree, "solo") - average).abs() < 1e-4);
            let back = step.amount % 2 == 1 && held >= step.amount as f64;
            charge(&mut tree, Step { queue: 2, ..step }, back);
            held += if back { -step.amount as f64 } else { step.amount as f64 };
        }
    }
}
