//! Finished pods of a complete stage stay, whatever happens to the next stage.

use super::*;
use crate::gang_step::created_members::SHORT_GRACE;

fn stage_step(
    phase: PodGroupPhase,
    wish: &DesiredGang,
    stage: i64,
    pods: &BTreeMap<String, PodView>,
) -> Step {
    stage_step_with_cleanup((phase, wish, stage), pods, true)
}

fn stage_step_with_cleanup(
    (phase, wish, stage): (PodGroupPhase, &DesiredGang, i64),
    pods: &BTreeMap<String, PodView>,
    keeps_done: bool,
) -> Step {
    let journal = journal(phase);
    let mut gang = gang(wish, &journal, pods);
    gang.now = second(1);
    gang.members.stage_first_attempt = stage;
    gang.members.keeps_finished_pods = keeps_done;
    gang.members.attempt = 2;
    gang.next_step()
}

#[test]
fn finished_pods_of_a_complete_stage_stay() {
    let pods = BTreeMap::from([
        pod("done", "mine", PodPhase::Succeeded),
        pod("server", "mine", PodPhase::Running),
    ]);
    let done = BTreeMap::from([pod("done", "mine", PodPhase::Succeeded)]);
    // The status that records it is not visible yet.
    let ends = DesiredGang::stop(Reason::StageComplete);
    let step = stage_step(PodGroupPhase::Placed, &ends, 1, &pods);
    assert_eq!(describe_step(&step), "undo StageComplete");
    let step = stage_step(PodGroupPhase::Unwinding, &ends, 1, &pods);
    assert_eq!(describe_step(&step), "delete server");
    assert_eq!(
        stage_step(PodGroupPhase::Unwinding, &ends, 1, &done),
        GangStep::ClearPlan
    );
    let goes_on = desired_run(2);
    for wish in [
        &goes_on,
        &DesiredGang::Wait,
        &DesiredGang::stop(Reason::Suspended),
    ] {
        let step = stage_step(PodGroupPhase::Unwinding, wish, 2, &pods);
        assert_eq!(describe_step(&step), "delete server", "{wish:?}");
        assert_eq!(
            stage_step(PodGroupPhase::Unwinding, wish, 2, &done),
            GangStep::ClearPlan
        );
    }
    let step = stage_step(PodGroupPhase::Pending, &goes_on, 2, &done);
    assert_eq!(step, GangStep::Enqueue(WholeGang));
    // Pods of an earlier attempt of the current stage do not stay.
    let step = stage_step(PodGroupPhase::Pending, &goes_on, 1, &done);
    assert_eq!(describe_step(&step), "delete done");
    // At the end of the job the pod is deleted like all others.
    let ended = |keep| DesiredGang::Finish { keep, hurry: true };
    let step = stage_step(PodGroupPhase::Finished, &ended(false), 2, &done);
    assert_eq!(describe_step(&step), "delete done");
    assert_eq!(
        stage_step(PodGroupPhase::Finished, &ended(true), 2, &done),
        GangStep::Withdraw
    );
}

#[test]
fn running_pods_of_a_complete_stage_get_a_short_grace_period() {
    let pods = BTreeMap::from([pod("server", "mine", PodPhase::Running)]);
    let hurried = DesiredGang::Stop {
        reason: Reason::StageComplete,
        hurry: true,
    };
    for (wish, stage) in [(&hurried, 1), (&desired_run(2), 2)] {
        let GangStep::Delete(pods) = stage_step(PodGroupPhase::Unwinding, wish, stage, &pods)
        else {
            panic!("{wish:?}");
        };
        assert_eq!(pods[0].grace, Some(SHORT_GRACE), "{wish:?}");
    }
}

#[test]
fn finished_pods_of_a_stage_are_deleted_when_cleanup_deletes_them() {
    let done = BTreeMap::from([pod("done", "mine", PodPhase::Succeeded)]);
    let ends = DesiredGang::stop(Reason::StageComplete);
    for wish in [&ends, &desired_run(2), &DesiredGang::Wait] {
        let step = stage_step_with_cleanup((PodGroupPhase::Unwinding, wish, 2), &done, false);
        assert_eq!(describe_step(&step), "delete done", "{wish:?}");
    }
}

/// For example a pod that a user has created by hand and that has failed because it has no node.
#[test]
fn pod_without_an_attempt_belongs_to_no_stage() {
    let (name, view) = pod("stray", "mine", PodPhase::Succeeded);
    let stray = PodView { attempt: 0, ..view };
    let pods = BTreeMap::from([(name, stray)]);
    for stage in [1, 2] {
        let step = stage_step(PodGroupPhase::Pending, &desired_run(2), stage, &pods);
        assert_eq!(describe_step(&step), "delete stray", "{stage}");
    }
}
