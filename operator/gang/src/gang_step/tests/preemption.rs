//! Preempted gangs.

use super::*;

/// Returns the next steps of a preempted gang: before and after its status counts attempt 1. Until
/// second 60, budgets may delay the eviction of its pods.
fn preempted_steps(
    phase: PodGroupPhase,
    desired: &DesiredGang,
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
        ..gang(desired, &journal, pods)
    };
    let mut next_attempt = gang;
    next_attempt.members.attempt = 2;
    format!(
        "{}, {}",
        describe_step(&gang.next_step()),
        describe_step(&next_attempt.next_step())
    )
}

#[test]
fn preempted_gang_rolls_back_only_its_place() {
    let no_pods = BTreeMap::new();
    let roll_back = "roll back Preempted, roll back Preempted";
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        assert_eq!(
            preempted_steps(phase, &desired_run(1), &no_pods, 0),
            roll_back,
            "{phase:?}"
        );
    }
    assert_eq!(
        preempted_steps(PodGroupPhase::Placed, &DesiredGang::Wait, &no_pods, 0),
        roll_back
    );
    // A suspended gang stops for its own reason.
    let stop = DesiredGang::stop(Reason::Suspended);
    let suspended = "roll back Suspended, roll back Suspended";
    assert_eq!(
        preempted_steps(PodGroupPhase::Placed, &stop, &no_pods, 0),
        suspended
    );
    assert_eq!(
        preempted_steps(PodGroupPhase::Pending, &desired_run(1), &no_pods, 0),
        "Enqueue, Enqueue"
    );
    assert_eq!(
        preempted_steps(PodGroupPhase::Nominated, &desired_run(1), &no_pods, 0),
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
    // A lost node has no kubelet that could stop its pods, so no budget delays the deletion.
    let mut lost = pods.clone();
    lost.extend([pod("lost", "mine", PodPhase::Running)]);
    assert_eq!(
        preempted_steps(PHASES[3], &desired_run(1), &lost, 0),
        "delete lost, delete lost"
    );
}

#[test]
fn preempted_attempt_is_counted_before_its_journal_is_cleared() {
    let no_pods = BTreeMap::new();
    let steps = "AwaitStatus, ClearPlan";
    assert_eq!(
        preempted_steps(PHASES[3], &desired_run(1), &no_pods, 0),
        steps
    );
    assert_eq!(
        preempted_steps(PHASES[3], &DesiredGang::Wait, &no_pods, 0),
        steps
    );
    // The end of a job and a suspension count no attempt.
    let stop = DesiredGang::stop(Reason::Suspended);
    assert_eq!(
        preempted_steps(PHASES[3], &stop, &no_pods, 0),
        "ClearPlan, ClearPlan"
    );
    let finish = DesiredGang::Finish {
        keep: true,
        hurry: false,
    };
    assert_eq!(
        preempted_steps(PHASES[3], &finish, &no_pods, 0),
        "ClearPlan, ClearPlan"
    );
}
