//! Grace periods of pods that are stopped.

use std::sync::Arc;

use super::*;
use crate::Run;

/// The 300 s for saving a checkpoint are only for pods that have one to save.
#[test]
fn what_has_nothing_to_save_has_a_short_grace() {
    let graces = |phase: PodGroupPhase, wish: &Wish| {
        let pods = BTreeMap::from([
            pod("lost", "mine", PodPhase::Running),
            pod("well", "mine", PodPhase::Running),
        ]);
        match step(phase, wish, &pods, 0) {
            Step::Delete(pods) => pods.iter().map(|pod| pod.grace).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let hurried = |attempt: i64| {
        let Wish::Run(run) = run(attempt) else {
            panic!()
        };
        let run = Arc::into_inner(run).unwrap();
        Wish::Run(Arc::new(Run { hurry: true, ..run }))
    };
    let finish = |hurry| Wish::Finish { keep: true, hurry };
    let own = [Some(0), None];
    let short = [Some(0), Some(30)];
    assert_eq!(graces(PodGroupPhase::Unwinding, &run(2)), own);
    assert_eq!(graces(PodGroupPhase::Unwinding, &hurried(2)), short);
    // The plan is rolled back before all its pods existed: no pod has run.
    assert_eq!(graces(PodGroupPhase::Unwinding, &run(1)), short);
    // The current attempt is stopped; the attempt before it had failed.
    let placed = |wish: &Wish| {
        let pods = BTreeMap::from([pod("well", "mine", PodPhase::Running)]);
        let step = Gang {
            was_placed: true,
            ..gang(wish, &journal(PodGroupPhase::Unwinding), &pods)
        }
        .next();
        let Step::Delete(pods) = step else {
            panic!("{step:?}");
        };
        pods[0].grace
    };
    assert_eq!(placed(&hurried(1)), None);
    assert_eq!(graces(PodGroupPhase::Placed, &finish(false)), own);
    assert_eq!(graces(PodGroupPhase::Placed, &finish(true)), short);
    assert_eq!(
        graces(PodGroupPhase::Unwinding, &Wish::stop(Reason::Suspended)),
        own
    );
}
