//! Gangs that make room for other gangs.

use super::*;

/// Returns the next step for attempt 1 of a gang that must make room, first by a request of the
/// engine and then by its journal, until second 60.
fn preempted_steps(
    phase: PodGroupPhase,
    wish: &DesiredGang,
    pods: &BTreeMap<String, PodView>,
    now: i64,
) -> String {
    let mut journal = journal(phase);
    if phase == PodGroupPhase::Unwinding {
        journal.reason = Some(Reason::Preempted);
        journal.evict_until = Some(Time(second(60)));
    }
    let gang = ObservedGang {
        preemption_message: Some("for another"),
        now: second(now),
        ..gang(wish, &journal, pods)
    };
    let mut counted = gang;
    counted.members.attempt = 2;
    format!(
        "{}, {}",
        describe_step(&gang.next_step()),
        describe_step(&counted.next_step())
    )
}

#[test]
fn preempted_gang_rolls_back_only_its_place() {
    let none = BTreeMap::new();
    let undo = "undo Preempted, undo Preempted";
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        assert_eq!(
            preempted_steps(phase, &desired_run(1), &none, 0),
            undo,
            "{phase:?}"
        );
    }
    assert_eq!(
        preempted_steps(PodGroupPhase::Placed, &DesiredGang::Wait, &none, 0),
        undo
    );
    // The gang stops anyway, for a reason of its own.
    let stop = DesiredGang::stop(Reason::Suspended);
    let suspended = "undo Suspended, undo Suspended";
    assert_eq!(
        preempted_steps(PodGroupPhase::Placed, &stop, &none, 0),
        suspended
    );
    assert_eq!(
        preempted_steps(PodGroupPhase::Pending, &desired_run(1), &none, 0),
        "Enqueue, Enqueue"
    );
    assert_eq!(
        preempted_steps(PodGroupPhase::Nominated, &desired_run(1), &none, 0),
        "RemoveVictims, RemoveVictims"
    );
}

#[test]
fn preempted_gang_is_evicted_and_deleted_after_the_budget_time() {
    let pods = BTreeMap::from([
        pod("well", "mine", PodPhase::Running),
        pod("other", "mine", PodPhase::Running),
    ]);
    let both = |word: &str| format!("{word} other well, {word} other well");
    assert_eq!(
        preempted_steps(PHASES[3], &desired_run(1), &pods, 59),
        both("evict")
    );
    assert_eq!(
        preempted_steps(PHASES[3], &desired_run(1), &pods, 60),
        both("delete")
    );
    // No kubelet is left to stop a pod on a lost node.
    let mut lost = pods.clone();
    lost.extend([pod("lost", "mine", PodPhase::Running)]);
    assert_eq!(
        preempted_steps(PHASES[3], &desired_run(1), &lost, 0),
        "delete lost, delete lost"
    );
}

#[test]
fn preempted_attempt_is_counted_before_its_journal_is_cleared() {
    let none = BTreeMap::new();
    let waits = "AwaitStatus, ClearPlan";
    assert_eq!(preempted_steps(PHASES[3], &desired_run(1), &none, 0), waits);
    assert_eq!(
        preempted_steps(PHASES[3], &DesiredGang::Wait, &none, 0),
        waits
    );
    // The end is recorded elsewhere, or not at all.
    let stop = DesiredGang::stop(Reason::Suspended);
    assert_eq!(
        preempted_steps(PHASES[3], &stop, &none, 0),
        "ClearPlan, ClearPlan"
    );
    let finish = DesiredGang::Finish {
        keep: true,
        hurry: false,
    };
    assert_eq!(
        preempted_steps(PHASES[3], &finish, &none, 0),
        "ClearPlan, ClearPlan"
    );
}
