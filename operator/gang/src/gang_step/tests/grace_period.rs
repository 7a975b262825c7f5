//! Grace periods of pods that are stopped.

use std::sync::Arc;

use super::*;

/// The 300 s for saving a checkpoint are only for pods that have one to save.
#[test]
fn pods_with_nothing_to_save_get_a_short_grace_period() {
    let graces = |phase: PodGroupPhase, wish: &DesiredGang| {
        let pods = BTreeMap::from([
            pod("lost", "mine", PodPhase::Running),
            pod("well", "mine", PodPhase::Running),
        ]);
        match next_step(phase, wish, &pods, 0) {
            GangStep::Delete(pods) => pods.iter().map(|pod| pod.grace).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let hurried = |attempt: i64| {
        let DesiredGang::Run(run) = desired_run(attempt) else {
            panic!()
        };
        let mut run = Arc::into_inner(run).unwrap();
        run.attempt.hurry = true;
        DesiredGang::Run(Arc::new(run))
    };
    let finish = |hurry| DesiredGang::Finish { keep: true, hurry };
    let own = [Some(0), None];
    let short = [Some(0), Some(30)];
    assert_eq!(graces(PodGroupPhase::Unwinding, &desired_run(2)), own);
    assert_eq!(graces(PodGroupPhase::Unwinding, &hurried(2)), short);
    // The plan is rolled back before all its pods existed: no pod has run.
    assert_eq!(graces(PodGroupPhase::Unwinding, &desired_run(1)), short);
    // The current attempt is stopped; the attempt before it had failed.
    let placed = |wish: &DesiredGang| {
        let pods = BTreeMap::from([pod("well", "mine", PodPhase::Running)]);
        let journal = journal(PodGroupPhase::Unwinding);
        let mut gang = gang(wish, &journal, &pods);
        gang.members.was_placed = true;
        let step = gang.next_step();
        let GangStep::Delete(pods) = step else {
            panic!("{step:?}");
        };
        pods[0].grace
    };
    assert_eq!(placed(&hurried(1)), None);
    assert_eq!(graces(PodGroupPhase::Placed, &finish(false)), own);
    assert_eq!(graces(PodGroupPhase::Placed, &finish(true)), short);
    assert_eq!(
        graces(
            PodGroupPhase::Unwinding,
            &DesiredGang::stop(Reason::Suspended)
        ),
        own
    );
}
