//! Finished pods of a complete stage stay, whatever happens to the next stage.

use super::*;

fn next(phase: PodGroupPhase, wish: &Wish, stage: i64, pods: &BTreeMap<String, PodView>) -> Step {
    next_of((phase, wish, stage), pods, true)
}

fn next_of(
    (phase, wish, stage): (PodGroupPhase, &Wish, i64),
    pods: &BTreeMap<String, PodView>,
    keeps_done: bool,
) -> Step {
    Gang {
        stage,
        keeps_done,
        attempt: 2,
        now: second(1),
        ..gang(wish, &journal(phase), pods)
    }
    .next()
}

#[test]
fn pods_of_a_stage_that_is_complete_stay() {
    let pods = BTreeMap::from([
        pod("done", "mine", PodPhase::Succeeded),
        pod("server", "mine", PodPhase::Running),
    ]);
    let done = BTreeMap::from([pod("done", "mine", PodPhase::Succeeded)]);
    // The status that records it is not visible yet.
    let ends = Wish::stop(Reason::StageComplete);
    let step = next(PodGroupPhase::Placed, &ends, 1, &pods);
    assert_eq!(word(&step), "undo StageComplete");
    let step = next(PodGroupPhase::Unwinding, &ends, 1, &pods);
    assert_eq!(word(&step), "delete server");
    assert_eq!(next(PodGroupPhase::Unwinding, &ends, 1, &done), Step::Clear);
    let goes_on = run(2);
    for wish in [&goes_on, &Wish::Wait, &Wish::stop(Reason::Suspended)] {
        let step = next(PodGroupPhase::Unwinding, wish, 2, &pods);
        assert_eq!(word(&step), "delete server", "{wish:?}");
        assert_eq!(next(PodGroupPhase::Unwinding, wish, 2, &done), Step::Clear);
    }
    let step = next(PodGroupPhase::Pending, &goes_on, 2, &done);
    assert_eq!(step, Step::Enqueue);
    // Pods of an earlier attempt of the current stage do not stay.
    let step = next(PodGroupPhase::Pending, &goes_on, 1, &done);
    assert_eq!(word(&step), "delete done");
    // At the end of the job the pod is deleted like all others.
    let ended = |keep| Wish::Finish { keep, hurry: true };
    let step = next(PodGroupPhase::Finished, &ended(false), 2, &done);
    assert_eq!(word(&step), "delete done");
    assert_eq!(
        next(PodGroupPhase::Finished, &ended(true), 2, &done),
        Step::Withdraw
    );
}

#[test]
fn what_still_runs_of_it_has_nothing_to_save() {
    let pods = BTreeMap::from([pod("server", "mine", PodPhase::Running)]);
    let hurried = Wish::Stop {
        reason: Reason::StageComplete,
        hurry: true,
    };
    for (wish, stage) in [(&hurried, 1), (&run(2), 2)] {
        let Step::Delete(pods) = next(PodGroupPhase::Unwinding, wish, stage, &pods) else {
            panic!("{wish:?}");
        };
        assert_eq!(pods[0].grace, Some(SHORT_GRACE), "{wish:?}");
    }
}

#[test]
fn where_pods_go_once_they_are_done_those_of_a_stage_do() {
    let done = BTreeMap::from([pod("done", "mine", PodPhase::Succeeded)]);
    let ends = Wish::stop(Reason::StageComplete);
    for wish in [&ends, &run(2), &Wish::Wait] {
        let step = next_of((PodGroupPhase::Unwinding, wish, 2), &done, false);
        assert_eq!(word(&step), "delete done", "{wish:?}");
    }
}

/// For example a pod that a user has created by hand and that has failed because it has no node.
#[test]
fn a_pod_of_no_attempt_is_of_no_stage() {
    let (name, view) = pod("stray", "mine", PodPhase::Succeeded);
    let stray = PodView { attempt: 0, ..view };
    let pods = BTreeMap::from([(name, stray)]);
    for stage in [1, 2] {
        let step = next(PodGroupPhase::Pending, &run(2), stage, &pods);
        assert_eq!(word(&step), "delete stray", "{stage}");
    }
}
