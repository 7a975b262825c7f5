//! Every combination of the journal's phase and the desired state.

use super::*;

#[test]
fn each_phase_has_a_step_for_each_desired_state() {
    let no_pods = BTreeMap::new();
    let pods_a_and_b = BTreeMap::from([
        pod("a", "mine", PodPhase::Running),
        pod("b", "mine", PodPhase::Succeeded),
    ]);
    // Steps for jobs that continue or stop, and for jobs that have ended. An ended job never starts
    // again, even if its plan is still open.
    let row =
        |[a, b, c, d]: [&'static str; 4], [keep, drop]: [&'static str; 2]| [a, b, c, d, keep, drop];
    let roll_back = "roll back Restarting";
    let commit = ["Commit", roll_back, roll_back, "roll back Suspended"];
    let placed = ["KeepPlace", roll_back, "KeepPlace", "roll back Suspended"];
    let (delete_both, ended) = ("delete a b", ["delete a", "delete a b"]);
    for (phase, pods, expected) in [
        (
            PHASES[0],
            &no_pods,
            row(
                ["Enqueue", "Enqueue", "Withdraw", "Withdraw"],
                ["Withdraw"; 2],
            ),
        ),
        (PHASES[0], &pods_a_and_b, row([delete_both; 4], ended)),
        (PHASES[1], &no_pods, row(commit, ["Finish"; 2])),
        (PHASES[1], &pods_a_and_b, row(commit, ended)),
        (PHASES[2], &no_pods, row(placed, ["Finish"; 2])),
        (PHASES[2], &pods_a_and_b, row(placed, ended)),
        (PHASES[3], &no_pods, ["ClearPlan"; 6]),
        (PHASES[3], &pods_a_and_b, [delete_both; 6]),
        (PHASES[4], &no_pods, ["Withdraw"; 6]),
        (PHASES[4], &pods_a_and_b, row([delete_both; 4], ended)),
        (
            PHASES[5],
            &no_pods,
            [
                "RemoveVictims",
                "CancelNomination",
                "CancelNomination",
                "CancelNomination",
                "CancelNomination",
                "CancelNomination",
            ],
        ),
        (PHASES[5], &pods_a_and_b, [delete_both; 6]),
    ] {
        for (desired, expected) in all_desired().iter().zip(expected) {
            let step = next_step(phase, desired, pods, 0);
            assert_eq!(
                describe_step(&step),
                expected,
                "{phase:?} {desired:?} {}",
                pods.len()
            );
        }
    }
}

/// The PodGroup was deleted and created again. No pod is deleted, and the attempt does not start
/// again, before the status records the end of the attempt.
#[test]
fn attempt_with_a_deleted_journal_is_counted_first() {
    let no_pods = BTreeMap::new();
    let pods_a_and_b = BTreeMap::from([pod("a", "mine", PodPhase::Running)]);
    let next = |desired: &DesiredGang, pods: &BTreeMap<String, PodView>, was_placed: bool| {
        let journal = PodGroupStatus::default();
        let mut gang = gang(desired, &journal, pods);
        gang.members.was_placed = was_placed;
        describe_step(&gang.next_step())
    };
    for pods in [&no_pods, &pods_a_and_b] {
        assert_eq!(next(&desired_run(1), pods, true), "AwaitStatus");
        assert_eq!(next(&DesiredGang::Wait, pods, true), "AwaitStatus");
    }
    assert_eq!(next(&desired_run(2), &pods_a_and_b, false), "delete a");
    assert_eq!(next(&desired_run(2), &no_pods, false), "Enqueue");
    // The status records the end of a job and a suspension without the journal.
    let stop = DesiredGang::stop(Reason::Suspended);
    assert_eq!(next(&stop, &pods_a_and_b, true), "delete a");
    assert_eq!(
        next(
            &DesiredGang::Finish {
                keep: true,
                hurry: false
            },
            &no_pods,
            true
        ),
        "Withdraw"
    );
}
