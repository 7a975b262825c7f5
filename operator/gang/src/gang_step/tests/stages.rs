//! Finished pods of a complete stage, which stay during the next stages.

use super::*;
use crate::gang_step::created_members::SHORT_GRACE;

fn stage_step(
    phase: PodGroupPhase,
    desired: &DesiredGang,
    stage: i64,
    pods: &BTreeMap<String, PodView>,
) -> Step {
    stage_step_with_cleanup((phase, desired, stage), pods, true)
}

fn stage_step_with_cleanup(
    (phase, desired, stage): (PodGroupPhase, &DesiredGang, i64),
    pods: &BTreeMap<String, PodView>,
    keeps_finished_pods: bool,
) -> Step {
    let journal = journal(phase);
    let mut gang = gang(desired, &journal, pods);
    gang.now = second(1);
    gang.members.stage_first_attempt = stage;
    gang.members.keeps_finished_pods = keeps_finished_pods;
    gang.members.attempt = 2;
    gang.next_step()
}

#[test]
fn finished_pods_of_a_complete_stage_stay() {
    let pods = BTreeMap::from([
        pod("done", "mine", PodPhase::Succeeded),
        pod("server", "mine", PodPhase::Running),
    ]);
    let finished_pod = BTreeMap::from([pod("done", "mine", PodPhase::Succeeded)]);
    // The watch does not show the status with the next stage yet.
    let stage_ends = DesiredGang::stop(Reason::StageComplete);
    let step = stage_step(PodGroupPhase::Placed, &stage_ends, 1, &pods);
    assert_eq!(describe_step(&step), "roll back StageComplete");
    let step = stage_step(PodGroupPhase::Unwinding, &stage_ends, 1, &pods);
    assert_eq!(describe_step(&step), "delete server");
    assert_eq!(
        stage_step(PodGroupPhase::Unwinding, &stage_ends, 1, &finished_pod),
        GangStep::ClearPlan
    );
    let next_attempt = desired_run(2);
    for desired in [
        &next_attempt,
        &DesiredGang::Wait,
        &DesiredGang::stop(Reason::Suspended),
    ] {
        let step = stage_step(PodGroupPhase::Unwinding, desired, 2, &pods);
        assert_eq!(describe_step(&step), "delete server", "{desired:?}");
        assert_eq!(
            stage_step(PodGroupPhase::Unwinding, desired, 2, &finished_pod),
            GangStep::ClearPlan
        );
    }
    let step = stage_step(PodGroupPhase::Pending, &next_attempt, 2, &finished_pod);
    assert_eq!(step, GangStep::Enqueue(WholeGang));
    // Pods of an earlier attempt of the current stage do not stay.
    let step = stage_step(PodGroupPhase::Pending, &next_attempt, 1, &finished_pod);
    assert_eq!(describe_step(&step), "delete done");
    // At the end of the job the pod is deleted like all others.
    let job_ended = |keep| DesiredGang::Finish { keep, hurry: true };
    let step = stage_step(PodGroupPhase::Finished, &job_ended(false), 2, &finished_pod);
    assert_eq!(describe_step(&step), "delete done");
    assert_eq!(
        stage_step(PodGroupPhase::Finished, &job_ended(true), 2, &finished_pod),
        GangStep::Withdraw
    );
}

#[test]
fn running_pods_of_a_complete_stage_get_a_short_grace_period() {
    let pods = BTreeMap::from([pod("server", "mine", PodPhase::Running)]);
    let hurried_stop = DesiredGang::Stop {
        reason: Reason::StageComplete,
        hurry: true,
    };
    for (desired, stage) in [(&hurried_stop, 1), (&desired_run(2), 2)] {
        let GangStep::Delete(pods) = stage_step(PodGroupPhase::Unwinding, desired, stage, &pods)
        else {
            panic!("{desired:?}");
        };
        assert_eq!(pods[0].grace, Some(SHORT_GRACE), "{desired:?}");
    }
}

#[test]
fn finished_pods_of_a_stage_are_deleted_when_cleanup_deletes_them() {
    let finished_pod = BTreeMap::from([pod("done", "mine", PodPhase::Succeeded)]);
    let stage_ends = DesiredGang::stop(Reason::StageComplete);
    for desired in [&stage_ends, &desired_run(2), &DesiredGang::Wait] {
        let step =
            stage_step_with_cleanup((PodGroupPhase::Unwinding, desired, 2), &finished_pod, false);
        assert_eq!(describe_step(&step), "delete done", "{desired:?}");
    }
}

/// For example, a user has created the pod by hand, and it failed because it has no node.
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
