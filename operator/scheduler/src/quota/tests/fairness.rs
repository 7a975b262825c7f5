//! Tests of remembered usage and of the fair shares that follow from it.

use proptest::prelude::*;

use super::common::{cases, demand, empty, ms, name, queue, resource, starts, what};
use crate::quota::amounts::Demand;
use crate::quota::decay::Decay;
use crate::quota::member::Weight;
use crate::quota::memory::Decayed;
use crate::quota::order::Order;
use crate::quota::tree::Tree;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

fn gpus(tree: &Tree, of: &str) -> f64 {
    let usage = tree.remembered(tree.at(of)).usage;
    let of_gpu = usage.iter().find(|(r, _)| *r == resource("gpu"));
    of_gpu.map_or(0.0, |(_, u)| u.as_parts() as f64 / Decayed::PER_UNIT as f64)
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
}

fn pair(decay: Decay, heavy: u32) -> Tree {
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
fn usage_comes_and_goes_by_half() {
    let mut tree = pair(Decay::half_life(DAY), 1_000);
    tree.advance(ms(5 * DAY + 7));
    tree.take("light: gpu=8");
    near(gpus(&tree, "light"), 0.0);
    for (days, expected) in [(1, 4.0), (2, 6.0), (3, 7.0)] {
        tree.advance(ms((5 + days) * DAY + 7));
        near(gpus(&tree, "light"), expected);
    }
    tree.give("light: gpu=8");
    near(gpus(&tree, "light"), 7.0);
    tree.advance(ms(8 * DAY + 12 * HOUR + 7));
    near(gpus(&tree, "light"), 7.0 / 2_f64.sqrt());
    tree.advance(ms(9 * DAY + 7));
    near(gpus(&tree, "light"), 3.5);
    // Time does not go back.
    tree.advance(ms(0));
    near(gpus(&tree, "light"), 3.5);
    tree.advance(ms(500 * DAY));
    assert!(tree.remembered(tree.at("light")).usage.is_empty());
}

#[test]
fn without_half_life_what_is_held_counts() {
    let mut tree = pair(Decay::half_life(0), 1_000);
    tree.advance(ms(DAY));
    tree.take("light: gpu=8");
    near(gpus(&tree, "light"), 8.0);
    near(tree.share(tree.at("light")).as_f64(), 8.0 / 30.0);
    tree.give("light: gpu=8");
    near(gpus(&tree, "light"), 0.0);
}

#[test]
fn a_share_is_of_the_dominant_resource_for_its_weight() {
    let mut tree = pair(Decay::half_life(0), 2_000);
    tree.set_capacity(resource("memory"), 1 << 40);
    tree.take("heavy: gpu=3 memory=274877906944 cpu=100");
    near(tree.share(tree.at("heavy")).as_f64(), 0.25 / 2.0);
    tree.take("heavy: h100/gpu=12");
    near(tree.share(tree.at("heavy")).as_f64(), 0.5 / 2.0);
    // A resource without capacity adds nothing to a share.
    tree.set_capacity(resource("gpu"), 0);
    near(tree.share(tree.at("heavy")).as_f64(), 0.25 / 2.0);
}

#[test]
fn what_a_subtree_holds_is_its_parents_too() {
    let mut tree = empty(Decay::half_life(DAY));
    for text in ["root", "p < root", "a < p", "b < p"] {
        tree.put(text);
    }
    tree.take("a: gpu=4");
    tree.advance(ms(DAY));
    tree.take("b: gpu=4");
    tree.advance(ms(2 * DAY));
    near(gpus(&tree, "root"), 5.0);
    near(gpus(&tree, "p"), gpus(&tree, "a") + gpus(&tree, "b"));
    // A queue that moves takes along its own usage, not that of its former siblings.
    tree.put("b");
    near(gpus(&tree, "root"), 5.0);
    tree.advance(ms(3 * DAY));
    near(gpus(&tree, "root"), 4.5);
    near(gpus(&tree, "b"), 3.0);
}

/// Both queues always have work; the queue whose turn it is gets the next free slot. Returns the
/// GPU hours of each.
fn run(decay: Decay, days: i64, spoilt: bool) -> (f64, f64) {
    let mut tree = pair(decay, 2_000);
    if spoilt {
        // One of the queues has held everything for a long time.
        tree.take("heavy: gpu=30");
        tree.advance(ms(30 * DAY));
        tree.give("heavy: gpu=30");
    }
    let begin = if spoilt { 30 * 24 } else { 0 };
    let mut running: Vec<(i64, &str, i64)> = Vec::new();
    let (mut free, mut started) = (30, 0);
    let mut had = [0.0, 0.0];
    for hour in begin..begin + days * 24 {
        tree.advance(ms(hour * HOUR));
        running.retain(|(until, of, size)| {
            if *until <= hour {
                tree.give(&format!("{of}: gpu={size}"));
                free += size;
            }
            *until > hour
        });
        let mut order = Order::default();
        for of in ["light", "heavy"] {
            order.insert(&tree, tree.at(of), starts("gpu=1", 0));
        }
        loop {
            let (size, length) = (1 + started % 4, 2 + started % 7);
            if size > free {
                break;
            }
            let first = order.first(&tree).unwrap();
            let of = if first == tree.at("light") {
                "light"
            } else {
                "heavy"
            };
            tree.take(&format!("{of}: gpu={size}"));
            order.moved(&tree, first);
            running.push((hour + length, of, size));
            free -= size;
            started += 1;
            had[usize::from(of == "heavy")] += (size * length) as f64;
        }
    }
    (had[0], had[1])
}

#[test]
fn in_the_long_run_weights_decide() {
    for decay in [
        Decay::default(),
        Decay::half_life(2 * DAY),
        Decay::default().ordered_ahead(0),
    ] {
        let (light, heavy) = run(decay, 90, false);
        let ratio = heavy / light;
        assert!((1.98..2.02).contains(&ratio), "{decay:?}: {ratio}");
    }
}

#[test]
fn without_memory_weights_decide_as_well_as_the_size_of_gangs_allows() {
    let (light, heavy) = run(Decay::half_life(0), 90, false);
    let ratio = heavy / light;
    assert!((1.7..2.3).contains(&ratio), "{ratio}");
}

#[test]
fn who_had_more_than_its_part_waits_until_the_other_has_caught_up() {
    let (light, heavy) = run(Decay::default(), 2, true);
    assert!(heavy < light / 10.0, "{light} {heavy}");
    let (light, heavy) = run(Decay::half_life(0), 2, true);
    assert!(heavy > light, "nothing is remembered: {light} {heavy}");
}

#[test]
fn a_burst_is_shared_by_weight_at_once() {
    let burst = |decay| {
        let mut tree = pair(decay, 2_000);
        let mut order = Order::default();
        for of in ["light", "heavy"] {
            order.insert(&tree, tree.at(of), starts("gpu=1", 0));
        }
        for _ in 0..30 {
            let first = order.first(&tree).unwrap();
            let of = tree.name(first).unwrap().clone();
            tree.charge(&of, &demand("gpu=1"));
            order.moved(&tree, first);
        }
        tree.charged(tree.at("heavy"), what("gpu"))
    };
    assert_eq!(burst(Decay::default()), 20);
    assert_eq!(burst(Decay::half_life(0)), 20);
    // Decayed usage alone cannot tell the queues apart: the first by name gets everything.
    assert_eq!(burst(Decay::default().ordered_ahead(0)), 30);
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

fn trio() -> Tree {
    let mut tree = empty(Decay::default());
    for text in ["p", "a < p", "b < p", "solo"] {
        tree.put(text);
    }
    tree.set_capacity(resource("gpu"), 17);
    tree
}

fn charge(tree: &mut Tree, step: Step, back: bool) {
    let demand = Demand::from_iter([(what("gpu"), step.amount)]);
    if back {
        tree.release(&name(TRIO[step.queue]), &demand);
    } else {
        tree.charge(&name(TRIO[step.queue]), &demand);
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn it_makes_no_difference_how_often_one_looks_or_tries(
        steps in prop::collection::vec((any_step(), any::<bool>()), 0..20),
        looks in prop::collection::vec(1..40_i64, 1..4),
    ) {
        let (mut calm, mut nosy) = (trio(), trio());
        let mut now = 0;
        for (step, back) in steps {
            for part in &looks {
                // A charge that is released at once, some time before.
                nosy.advance(ms(now + step.later / 40 * part));
                charge(&mut nosy, step, false);
                let _ = nosy.share(nosy.at("p"));
                charge(&mut nosy, step, true);
            }
            now += step.later;
            calm.advance(ms(now));
            nosy.advance(ms(now));
            charge(&mut calm, step, back);
            charge(&mut nosy, step, back);
            for of in ["p", "a", "b", "solo"] {
                let at = calm.at(of);
                prop_assert_eq!(calm.share(at), nosy.share(nosy.at(of)));
                prop_assert_eq!(calm.remembered(at), nosy.remembered(nosy.at(of)));
            }
        }
    }

    #[test]
    fn what_happens_at_once_may_come_in_any_order(
        mut steps in prop::collection::vec(any_step(), 0..12),
        later in 0..30 * DAY,
    ) {
        let (mut forth, mut back) = (trio(), trio());
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
            prop_assert_eq!(forth.remembered(forth.at(of)), back.remembered(back.at(of)));
        }
    }

    #[test]
    fn it_is_the_exponential_average(steps in prop::collection::vec(any_step(), 1..20)) {
        let mut tree = trio();
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
