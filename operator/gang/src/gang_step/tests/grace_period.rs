//! Grace periods of stopped pods.

use std::sync::Arc;

use super::*;

/// Only pods that can save a checkpoint get the grace period of 300 s.
#[test]
fn pods_with_nothing_to_save_get_a_short_grace_period() {
    let graces = |phase: PodGroupPhase, desired: &DesiredGang| {
        let pods = BTreeMap::from([
            pod("lost", "mine", PodPhase::Running),
            pod("well", "mine", PodPhase::Running),
        ]);
        match next_step(phase, desired, &pods, 0) {
            GangStep::Delete(pods) => pods.iter().map(|pod| pod.grace).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let hurried_run = |attempt: i64| {
        let DesiredGang::Run(run) = desired_run(attempt) else {
            panic!()
        };
        let mut run = Arc::into_inner(run).unwrap();
        run.attempt.hurry = true;
        DesiredGang::Run(Arc::new(run))
    };
    let finish = |hurry| DesiredGang::Finish { keep: true, hurry };
    let pod_grace = [Some(0), None];
    let short_grace = [Some(0), Some(30)];
    assert_eq!(graces(PodGroupPhase::Unwinding, &desired_run(2)), pod_grace);
    assert_eq!(
        graces(PodGroupPhase::Unwinding, &hurried_run(2)),
        short_grace
    );
    // The plan is rolled back before all its pods exist, so no pod has run.
    assert_eq!(
        graces(PodGroupPhase::Unwinding, &desired_run(1)),
        short_grace
    );
    // The current attempt is stopped. The attempt before it failed.
    let grace_of_placed_pod = |desired: &DesiredGang| {
        let pods = BTreeMap::from([pod("well", "mine", PodPhase::Running)]);
        let journal = journal(PodGroupPhase::Unwinding);
        let mut gang = gang(desired, &journal, &pods);
        gang.members.was_placed = true;
        let step = gang.next_step();
        let GangStep::Delete(pods) = step else {
            panic!("{step:?}");
        };
        pods[0].grace
    };
    assert_eq!(grace_of_placed_pod(&hurried_run(1)), None);
    assert_eq!(graces(PodGroupPhase::Placed, &finish(false)), pod_grace);
    assert_eq!(graces(PodGroupPhase::Placed, &finish(true)), short_grace);
    assert_eq!(
        graces(
            PodGroupPhase::Unwinding,
            &DesiredGang::stop(Reason::Suspended)
        ),
        pod_grace
    );
}
