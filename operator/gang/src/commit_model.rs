//! Checks the commit protocol of one gang in every state within bounds: the production code that
//! decides a step and writes the journal, with crashes, late writes, lost answers and a late view.
//!
//! The search is breadth-first, so the trace of a broken state is as short as possible. In each
//! state it also lets the gang go on without a further fault: the gang must become whole, or have no
//! pods if its user has suspended it.
//!
//! `world` is the API server with the promises, `leader` the production code, and `search` the
//! transitions. A stage, an elastic group, a pod that restarts alone, and a nomination are not in
//! the model.

#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

mod leader;
mod search;
mod world;

use search::{Report, search};
use world::{Bounds, Fence};

/// Bounds of `cargo test`: seconds. `TRELLIS_PROTOCOL=deep` raises them: minutes.
fn bounds(fence: Fence) -> Bounds {
    let is_deep = std::env::var("TRELLIS_PROTOCOL").is_ok_and(|depth| depth == "deep");
    let more = u8::from(is_deep);
    Bounds {
        takeovers: 1 + more,
        losses: 1,
        acts: 1 + more,
        plans: 3,
        fence,
    }
}

fn print(name: &str, report: &Report) {
    println!(
        "{name}: {} states, {} transitions, {} steps from the start to the farthest state",
        report.states, report.transitions, report.depth
    );
}

#[test]
fn fenced_protocol_keeps_every_gang_whole() {
    let report = search(&bounds(Fence::Present)).unwrap_or_else(|trace| panic!("{trace}"));
    print("with the fence", &report);
    assert!(report.states > 1000, "{report:?}");
}

#[test]
fn unfenced_protocol_breaks_only_by_a_late_write_of_the_journal() {
    let trace = search(&bounds(Fence::Absent)).unwrap_err();
    assert!(trace.contains("late journal"), "{trace}");
    assert!(trace.contains("a whole gang leaves"), "{trace}");
}
