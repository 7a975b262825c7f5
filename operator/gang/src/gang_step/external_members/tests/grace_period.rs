//! The grace period of the pods of an external gang: at most an hour, as for jobs.

use super::*;

/// Returns the fields of a running pod with this termination grace period.
fn running(grace_seconds: i64) -> Value {
    let mut pod = bound_on("n");
    pod["/status/phase"] = json!("Running");
    pod["/spec/terminationGracePeriodSeconds"] = json!(grace_seconds);
    pod
}

/// Returns the fields of a pod that a user has deleted with this grace period.
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
fn eviction_and_deletion_request_an_hour_of_grace_at_most() {
    for seconds in [120, 0] {
        let mut scene = PodGroupScene::new(&[("a", running(2_147_483_647)), ("b", running(7))])
            .in_phase(PodGroupPhase::Unwinding, 60);
        scene.journal.reason = Some(Reason::Preempted);
        let until = Timestamp::from_second(NOW.saturating_add(seconds)).unwrap();
        scene.journal.evict_until = Some(Time(until));
        assert_eq!(graces(scene.next_step()), [Some(3_600), Some(7)]);
    }
}

/// Without a limit, a pod that a user deletes with a grace period of years would hold its node for
/// years.
#[test]
fn deletion_with_a_longer_grace_period_is_repeated() {
    let next_step = |phase| {
        let pods = [
            ("a", pod_deleted_with_grace(86_400)),
            ("b", pod_deleted_with_grace(3_600)),
        ];
        PodGroupScene::new(&pods).in_phase(phase, 60).next_step()
    };
    for phase in [PodGroupPhase::Placed, PodGroupPhase::Unwinding] {
        assert_eq!(removed_pod_names(next_step(phase)), ["a"], "{phase:?}");
        assert_eq!(graces(next_step(phase)), [Some(30)], "{phase:?}");
    }
}
