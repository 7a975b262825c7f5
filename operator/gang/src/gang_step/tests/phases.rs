//! Every combination of journal phase and wish.

use super::*;

#[test]
fn each_phase_has_a_step_for_each_desired_state() {
    let none = BTreeMap::new();
    let some = BTreeMap::from([
        pod("a", "mine", PodPhase::Running),
        pod("b", "mine", PodPhase::Succeeded),
    ]);
    // Steps for jobs that continue or stop, and for jobs that have ended. An ended job is never
    // started again, whether its plan is closed or not.
    let row =
        |[a, b, c, d]: [&'static str; 4], [keep, drop]: [&'static str; 2]| [a, b, c, d, keep, drop];
    let again = "undo Restarting";
    let commit = ["Commit", again, again, "undo Suspended"];
    let placed = ["KeepPlace", again, "KeepPlace", "undo Suspended"];
    let (both, ended) = ("delete a b", ["delete a", "delete a b"]);
    for (phase, pods, expected) in [
        (
            PHASES[0],
            &none,
            row(
                ["Enqueue", "Enqueue", "Withdraw", "Withdraw"],
                ["Withdraw"; 2],
            ),
        ),
        (PHASES[0], &some, row([both; 4], ended)),
        (PHASES[1], &none, row(commit, ["Finish"; 2])),
        (PHASES[1], &some, row(commit, ended)),
        (PHASES[2], &none, row(placed, ["Finish"; 2])),
        (PHASES[2], &some, row(placed, ended)),
        (PHASES[3], &none, ["ClearPlan"; 6]),
        (PHASES[3], &some, [both; 6]),
        (PHASES[4], &none, ["Withdraw"; 6]),
        (PHASES[4], &some, row([both; 4], ended)),
        (
            PHASES[5],
            &none,
            [
                "RemoveVictims",
                "CancelNomination",
                "CancelNomination",
                "CancelNomination",
                "CancelNomination",
                "CancelNomination",
            ],
        ),
        (PHASES[5], &some, [both; 6]),
    ] {
        for (wish, expected) in all_desired().iter().zip(expected) {
            let step = next_step(phase, wish, pods, 0);
            assert_eq!(
                describe_step(&step),
                expected,
                "{phase:?} {wish:?} {}",
                pods.len()
            );
        }
    }
}

/// The PodGroup was deleted and created again. The status must record the end of the attempt first:
/// until then no pod is deleted, and the attempt does not start again.
#[test]
fn attempt_with_a_deleted_journal_is_counted_first() {
    let none = BTreeMap::new();
    let some = BTreeMap::from([pod("a", "mine", PodPhase::Running)]);
    let next = |wish: &DesiredGang, pods: &BTreeMap<String, PodView>, was_placed: bool| {
        let journal = PodGroupStatus::default();
        let mut gang = gang(wish, &journal, pods);
        gang.members.was_placed = was_placed;
        describe_step(&gang.next_step())
    };
    for pods in [&none, &some] {
        assert_eq!(next(&desired_run(1), pods, true), "AwaitStatus");
        assert_eq!(next(&DesiredGang::Wait, pods, true), "AwaitStatus");
    }
    assert_eq!(next(&desired_run(2), &some, false), "delete a");
    assert_eq!(next(&desired_run(2), &none, false), "Enqueue");
    // The end of a job and a suspension are recorded elsewhere.
    let stop = DesiredGang::stop(Reason::Suspended);
    assert_eq!(next(&stop, &some, true), "delete a");
    assert_eq!(
        next(
            &DesiredGang::Finish {
                keep: true,
                hurry: false
            },
            &none,
            true
        ),
        "Withdraw"
    );
}
