//! The longest time that external pods may take to stop.

use std::time::Duration;

use super::*;

fn pod_with_grace(seconds: i64) -> SlimPod {
    let mut pod = pod("p", json!({}));
    pod.spec.termination_grace_period_seconds = Some(seconds);
    pod
}

/// Returns the grace period of the pod in the engine.
fn planned_grace(pod: SlimPod, is_bound: bool) -> Duration {
    let mut fixture = ExternalPodsFixture::new();
    match is_bound {
        true => fixture.see_bound(pod, &[]),
        false => fixture.add_pod(pod),
    }
    fixture.decide_without_task_results();
    let gangs = fixture.driver.engine.snapshot().gangs;
    let snapshot = gangs.into_iter().next().unwrap();
    snapshot
        .place
        .map_or(snapshot.gang, |place| place.gang)
        .grace
}

#[tokio::test]
async fn engine_limits_the_grace_of_external_pods_to_an_hour() {
    for is_bound in [false, true] {
        let grace = |seconds| planned_grace(pod_with_grace(seconds), is_bound).as_secs();
        assert_eq!(grace(7), 7);
        assert_eq!(grace(2_147_483_647), 3_600, "bound: {is_bound}");
    }
}
