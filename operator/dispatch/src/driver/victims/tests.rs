//! The place that a victim must leave, and the message for it.

use trellis_api::PodGroupSpec;
use trellis_api::pod_group::Plan;

use super::*;

fn journal(phase: PodGroupPhase, plan: &str) -> PodGroupStatus {
    PodGroupStatus {
        phase: Some(phase),
        plan: Some(Plan {
            hash: plan.to_owned(),
            ..Plan::default()
        }),
        ..PodGroupStatus::default()
    }
}

#[test]
fn gang_leaves_only_the_place_it_was_chosen_for() {
    let leaving = LeavingGang {
        preemptor: None,
        plan: "first".to_owned(),
        is_journaled: false,
        since: Instant::now(),
        message: String::new(),
    };
    for (phase, plan, expected) in [
        (PodGroupPhase::Placed, "first", true),
        (PodGroupPhase::Committing, "first", true),
        (PodGroupPhase::Placed, "second", false),
        (PodGroupPhase::Unwinding, "first", false),
        (PodGroupPhase::Finished, "first", false),
        (PodGroupPhase::Nominated, "first", false),
    ] {
        assert_eq!(
            leaving.applies_to(&journal(phase, plan)),
            expected,
            "{phase:?} {plan}"
        );
    }
    assert!(leaving.leave_request().is_none());
    let journaled = LeavingGang {
        is_journaled: true,
        ..leaving
    };
    assert_eq!(journaled.leave_request(), Some(""));
}

#[test]
fn victim_message_names_the_preemptor_and_the_reason() {
    let spec = PodGroupSpec {
        queue_name: "vision".to_owned(),
        priority: Some(100),
        ..PodGroupSpec::default()
    };
    let group = PodGroup::new("high", spec);
    let message = leave_message(&Key::new("ns", "high"), &group, VictimReason::LaterInQueue);
    assert_eq!(
        message,
        "makes room for job \"ns/high\" of queue \"vision\" with priority 100: both are in that queue, which puts the other first"
    );
}
