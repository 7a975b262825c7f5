//! The grace period of external pods: at most an hour, as for jobs.

use super::*;
use crate::external::single_pod as alone;

/// Returns a placed pod of the gang with a termination grace period of so many seconds.
fn running(seconds: i64) -> Value {
    let mut pod = bound_on("n");
    pod["/status/phase"] = json!("Running");
    pod["/spec/terminationGracePeriodSeconds"] = json!(seconds);
    pod
}

/// Returns a pod that a user has deleted with a grace period of so many seconds.
fn pod_deleted_with_grace(seconds: i64) -> Value {
    let mut pod = running(30);
    pod["/metadata/deletionTimestamp"] = json!("2090-01-01T00:00:00Z");
    pod["/metadata/deletionGracePeriodSeconds"] = json!(seconds);
    pod
}

fn graces(step: Step) -> Vec<Option<u32>> {
    match step {
        GangStep::Delete(pods) | GangStep::Evict(pods) => {
            pods.into_iter().map(|p| p.grace).collect()
        }
        step => panic!("{step:?}"),
    }
}

#[test]
fn eviction_and_deletion_of_an_external_gang_state_an_hour_at_most() {
    for seconds in [120, 0] {
        let mut scene = PodGroupScene::new(&[("a", running(2_147_483_647)), ("b", running(7))])
            .in_phase(PodGroupPhase::Unwinding, 60);
        scene.journal.reason = Some(Reason::Preempted);
        let until = Timestamp::from_second(NOW.saturating_add(seconds)).unwrap();
        scene.journal.evict_until = Some(Time(until));
        assert_eq!(graces(scene.next_step()), [Some(3_600), Some(7)]);
    }
}

#[test]
fn eviction_of_a_single_external_pod_states_an_hour_at_most() {
    for told in [true, false] {
        let pod = pod("a", running(2_147_483_647));
        let step = single_pod_step(&pod, Some(told));
        let doomed = match step {
            alone::SinglePodStep::Evict(doomed) | alone::SinglePodStep::Delete(doomed) => doomed,
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
        let pods = [
            ("a", pod_deleted_with_grace(86_400)),
            ("b", pod_deleted_with_grace(3_600)),
        ];
        PodGroupScene::new(&pods).in_phase(phase, 60).next_step()
    };
    for phase in [PodGroupPhase::Placed, PodGroupPhase::Unwinding] {
        assert_eq!(removed_pod_names(cut(phase)), ["a"], "{phase:?}");
        assert_eq!(graces(cut(phase)), [Some(30)], "{phase:?}");
    }
    let step = single_pod_step(&pod("a", pod_deleted_with_grace(86_400)), None);
    assert!(matches!(step, alone::SinglePodStep::Delete(_)), "{step:?}");
    let step = single_pod_step(&pod("a", pod_deleted_with_grace(3_600)), None);
    assert_eq!(step, alone::SinglePodStep::Hold);
}

fn single_pod_step(pod: &ExternalPod, told: Option<bool>) -> alone::SinglePodStep {
    alone::SinglePod {
        name: "a",
        pod: Some(pod),
        gang_is_placed: None,
        is_in_gang_place: false,
        eviction_delayable: told,
        deletions: &Deletions::default(),
        clock: Instant::now(),
    }
    .next_step()
}
