//! Gangs that make room for other gangs.

use super::*;

/// The next step for attempt 1 of a gang that must make room, first by a request of the engine and
/// then by its journal, until second 60.
fn leaving(
    phase: PodGroupPhase,
    wish: &Wish,
    pods: &BTreeMap<String, PodView>,
    now: i64,
) -> String {
    let mut journal = journal(phase);
    if phase == PodGroupPhase::Unwinding {
        journal.reason = Some(Reason::Preempted);
        journal.evict_until = Some(Time(second(60)));
    }
    let gang = Gang {
        told: Some("for another"),
        now: second(now),
        ..gang(wish, &journal, pods)
    };
    let counted = Gang { attempt: 2, ..gang };
    format!("{}, {}", word(&gang.next()), word(&counted.next()))
}

#[test]
fn who_is_told_to_make_room_leaves_its_place_and_nothing_else() {
    let none = BTreeMap::new();
    let undo = "undo Preempted, undo Preempted";
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        assert_eq!(leaving(phase, &run(1), &none, 0), undo, "{phase:?}");
    }
    assert_eq!(leaving(PodGroupPhase::Placed, &Wish::Wait, &none, 0), undo);
    // The gang stops anyway, for a reason of its own.
    let stop = Wish::stop(Reason::Suspended);
    let suspended = "undo Suspended, undo Suspended";
    assert_eq!(leaving(PodGroupPhase::Placed, &stop, &none, 0), suspended);
    assert_eq!(
        leaving(PodGroupPhase::Pending, &run(1), &none, 0),
        "Enqueue, Enqueue"
    );
    assert_eq!(
        leaving(PodGroupPhase::Nominated, &run(1), &none, 0),
        "Follow, Follow"
    );
}

#[test]
fn who_makes_room_is_evicted_and_deleted_once_budgets_have_had_their_time() {
    let pods = BTreeMap::from([
        pod("well", "mine", PodPhase::Running),
        pod("other", "mine", PodPhase::Running),
    ]);
    let both = |word: &str| format!("{word} other well, {word} other well");
    assert_eq!(leaving(PHASES[3], &run(1), &pods, 59), both("evict"));
    assert_eq!(leaving(PHASES[3], &run(1), &pods, 60), both("delete"));
    // No kubelet is left to stop a pod on a lost node.
    let mut lost = pods.clone();
    lost.extend([pod("lost", "mine", PodPhase::Running)]);
    assert_eq!(
        leaving(PHASES[3], &run(1), &lost, 0),
        "delete lost, delete lost"
    );
}

#[test]
fn an_attempt_that_made_room_is_counted_before_its_journal_is_cleared() {
    let none = BTreeMap::new();
    let waits = "AwaitStatus, Clear";
    assert_eq!(leaving(PHASES[3], &run(1), &none, 0), waits);
    assert_eq!(leaving(PHASES[3], &Wish::Wait, &none, 0), waits);
    // The end is recorded elsewhere, or not at all.
    let stop = Wish::stop(Reason::Suspended);
    assert_eq!(leaving(PHASES[3], &stop, &none, 0), "Clear, Clear");
    let finish = Wish::Finish {
        keep: true,
        hurry: false,
    };
    assert_eq!(leaving(PHASES[3], &finish, &none, 0), "Clear, Clear");
}
