//! Tests that remembered usage survives a restart.

use proptest::prelude::*;

use super::common::{cases, empty, ms, name, resource};
use crate::quota::decay::Decay;
use crate::quota::tree::Tree;

const HOUR: i64 = 3_600_000;
const QUEUES: [&str; 4] = ["p", "a < p", "b < p", "c"];
const NAMES: [&str; 4] = ["p", "a", "b", "c"];

fn fresh() -> Tree {
    let mut tree = empty(Decay::default());
    for text in QUEUES {
        tree.put(text);
    }
    tree.set_capacity(resource("gpu"), 64);
    tree.set_capacity(resource("cpu"), 512);
    tree
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn shares_go_on_as_if_nothing_had_happened(
        charges in prop::collection::vec((1..4_usize, 0..9_u8, 0..64_u8, 0..200_i64), 0..12),
        down in 0..400_i64,
        later in 0..400_i64,
    ) {
        let mut tree = fresh();
        let mut now = 0;
        for (at, gpu, cpu, hours) in &charges {
            now += hours * HOUR;
            tree.advance(ms(now));
            tree.take(&format!("{}: gpu={gpu} cpu={cpu}", NAMES[*at]));
            if cpu % 2 == 0 {
                tree.give(&format!("{}: cpu={}", NAMES[*at], cpu / 2));
            }
        }
        let told: Vec<_> = NAMES.map(|of| tree.remembered(tree.at(of))).into();
        // The new tree comes up later, and running gangs are charged again then.
        let mut other = fresh();
        other.advance(ms(now + down * HOUR));
        for (at, gpu, cpu, _) in &charges {
            let cpu = if cpu % 2 == 0 { cpu - cpu / 2 } else { *cpu };
            other.take(&format!("{}: gpu={gpu} cpu={cpu}", NAMES[*at]));
        }
        for (of, remembered) in NAMES.iter().zip(&told) {
            other.recall(other.at(of), remembered);
        }
        for wait in [0, later] {
            let then = ms(now + (down + wait) * HOUR);
            tree.advance(then);
            other.advance(then);
            for of in NAMES {
                let (before, after) = (tree.share(tree.at(of)), other.share(other.at(of)));
                // To 2^-20 of a base unit, of at least 64 of them.
                let off = (before.as_f64() - after.as_f64()).abs();
                prop_assert!(off <= 2_f64.powi(-24), "{} {:?} {:?}", of, before, after);
            }
        }
    }
}

#[test]
fn what_nobody_remembers_is_nothing() {
    let mut tree = fresh();
    tree.take("a: gpu=8");
    tree.advance(ms(400 * HOUR));
    let at = tree.at("a");
    let remembered = tree.remembered(at);
    assert_eq!((remembered.at, remembered.usage.len()), (ms(400 * HOUR), 1));
    // Nothing is known of the past except what is restored: here that there was none.
    let mut told = remembered.clone();
    told.usage.clear();
    tree.recall(at, &told);
    assert!(tree.remembered(at).usage.is_empty());
    assert_eq!(tree.held(at, resource("gpu")), 8);
    tree.recall(at, &remembered);
    assert_eq!(tree.remembered(at), remembered);
    // Usage that is restored for the future counts as of now.
    tree.give("a: gpu=8");
    told = remembered.clone();
    told.at = ms(4_000 * HOUR);
    tree.recall(at, &told);
    assert_eq!(tree.remembered(at), remembered);
    assert!(tree.find(&name("nobody")).is_none());
}
