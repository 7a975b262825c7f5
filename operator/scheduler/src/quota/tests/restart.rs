//! Tests that remembered usage survives a restart.

use proptest::prelude::*;

use super::common::{cases, empty, ms, name, resource};
use crate::quota::fair_share::decay::UsageDecay;
use crate::quota::tree::QuotaTree;

const HOUR: i64 = 3_600_000;
const QUEUES: [&str; 4] = ["p", "a < p", "b < p", "c"];
const NAMES: [&str; 4] = ["p", "a", "b", "c"];

fn restart_tree() -> QuotaTree {
    let mut tree = empty(UsageDecay::default());
    for text in QUEUES {
        tree.apply_queue(text);
    }
    tree.set_capacity(resource("gpu"), 64);
    tree.set_capacity(resource("cpu"), 512);
    tree
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn shares_are_unchanged_by_a_restart(
        charges in prop::collection::vec((1..4_usize, 0..9_u8, 0..64_u8, 0..200_i64), 0..12),
        down in 0..400_i64,
        later in 0..400_i64,
    ) {
        let mut tree = restart_tree();
        let mut now = 0;
        for (at, gpu, cpu, hours) in &charges {
            now += hours * HOUR;
            tree.advance(ms(now));
            tree.charge_queue(&format!("{}: gpu={gpu} cpu={cpu}", NAMES[*at]));
            if cpu % 2 == 0 {
                tree.release_queue(&format!("{}: cpu={}", NAMES[*at], cpu / 2));
            }
        }
        let usages: Vec<_> = NAMES.map(|of| tree.remembered_usage(tree.queue_idx(of))).into();
        // The new tree starts later, and the test then charges running gangs again.
        let mut other = restart_tree();
        other.advance(ms(now + down * HOUR));
        for (at, gpu, cpu, _) in &charges {
            let cpu = if cpu % 2 == 0 { cpu - cpu / 2 } else { *cpu };
            other.charge_queue(&format!("{}: gpu={gpu} cpu={cpu}", NAMES[*at]));
        }
        for (of, remembered) in NAMES.iter().zip(&usages) {
            other.restore_memory(other.queue_idx(of), remembered);
        }
        for wait in [0, later] {
            let then = ms(now + (down + wait) * HOUR);
            tree.advance(then);
            other.advance(then);
            for of in NAMES {
                let (before, after) = (tree.share(tree.queue_idx(of)), other.share(other.queue_idx(of)));
                // The error is at most 2^-20 of a base unit, for at least 64 base units.
                let off = (before.as_f64() - after.as_f64()).abs();
                prop_assert!(off <= 2_f64.powi(-24), "{} {:?} {:?}", of, before, after);
            }
        }
    }
}

#[test]
fn usage_without_memory_starts_at_zero() {
    let mut tree = restart_tree();
    tree.charge_queue("a: gpu=8");
    tree.advance(ms(400 * HOUR));
    let at = tree.queue_idx("a");
    let remembered = tree.remembered_usage(at);
    assert_eq!((remembered.at, remembered.usage.len()), (ms(400 * HOUR), 1));
    // The tree knows only the restored past: here, no past usage.
    let mut usages = remembered.clone();
    usages.usage.clear();
    tree.restore_memory(at, &usages);
    assert!(tree.remembered_usage(at).usage.is_empty());
    assert_eq!(tree.subtree_usage(at, resource("gpu")), 8);
    tree.restore_memory(at, &remembered);
    assert_eq!(tree.remembered_usage(at), remembered);
    // Restored usage with a time in the future counts as of now.
    tree.release_queue("a: gpu=8");
    usages = remembered.clone();
    usages.at = ms(4_000 * HOUR);
    tree.restore_memory(at, &usages);
    assert_eq!(tree.remembered_usage(at), remembered);
    assert!(tree.find(&name("nobody")).is_none());
}
