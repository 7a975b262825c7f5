//! The grace period of external pods: at most an hour, as for jobs.

use super::*;
use crate::external::single as alone;

/// A placed pod of the gang with a termination grace period of so many seconds.
fn running(seconds: i64) -> Value {
    let mut pod = on("n");
    pod["/status/phase"] = json!("Running");
    pod["/spec/terminationGracePeriodSeconds"] = json!(seconds);
    pod
}

/// A pod that a user has deleted with a grace period of so many seconds.
fn deleted_with(seconds: i64) -> Value {
    let mut pod = running(30);
    pod["/metadata/deletionTimestamp"] = json!("2090-01-01T00:00:00Z");
    pod["/metadata/deletionGracePeriodSeconds"] = json!(seconds);
    pod
}

fn graces(step: Step) -> Vec<Option<u32>> {
    match step {
        Step::Delete(pods) | Step::Evict(pods) => pods.into_iter().map(|p| p.grace).collect(),
        step => panic!("{step:?}"),
    }
}

#[test]
fn eviction_and_deletion_of_an_external_gang_state_an_hour_at_most() {
    for seconds in [120, 0] {
        let mut scene = Scene::new(&[("a", running(2_147_483_647)), ("b", running(7))])
            .in_phase(PodGroupPhase::Unwinding, 60);
        scene.journal.reason = Some(Reason::Preempted);
        let until = Timestamp::from_second(NOW.saturating_add(seconds)).unwrap();
        scene.journal.evict_until = Some(Time(until));
        assert_eq!(graces(scene.next()), [Some(3_600), Some(7)]);
    }
}

#[test]
fn eviction_of_a_single_external_pod_states_an_hour_at_most() {
    for told in [true, false] {
        let pod = pod("a", running(2_147_483_647));
        let step = single(&pod, Some(told));
        let doomed = match step {
            alone::Step::Evict(doomed) | alone::Step::Delete(doomed) => doomed,
            step => panic!("{step:?}"),
        };
        assert_eq!(doomed.grace, Some(3_600));
    }
}

/// A user may delete a pod with a grace period of years; without a limit it would hold its node for
/// that time.
#[test]
fn deletion_with_a_longer_grace_is_cut_to_an_hour() {
    let cut = |phase| {
        let pods = [("a", deleted_with(86_400)), ("b", deleted_with(3_600))];
        Scene::new(&pods).in_phase(phase, 60).next()
    };
    for phase in [PodGroupPhase::Placed, PodGroupPhase::Unwinding] {
        assert_eq!(names(cut(phase)), ["a"], "{phase:?}");
        assert_eq!(graces(cut(phase)), [Some(30)], "{phase:?}");
    }
    let step = single(&pod("a", deleted_with(86_400)), None);
    assert!(matches!(step, alone::Step::Delete(_)), "{step:?}");
    let step = single(&pod("a", deleted_with(3_600)), None);
    assert_eq!(step, alone::Step::Hold);
}

fn single(pod: &ExternalPod, told: Option<bool>) -> alone::Step {
    alone::Single {
        name: "a",
        pod: Some(pod),
        gang_holds: None,
        is_of_place: false,
        told,
        deletions: &Deletions::default(),
        clock: Instant::now(),
    }
    .next()
}
