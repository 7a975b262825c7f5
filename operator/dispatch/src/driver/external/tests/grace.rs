//! Longest time for which external pods may take to stop.

use std::time::Duration;

use super::*;

fn with_grace(seconds: i64) -> SlimPod {
    let mut pod = pod("p", json!({}));
    pod.spec.termination_grace_period_seconds = Some(seconds);
    pod
}

/// Returns the grace period after which the engine plans with the pod's resources.
fn planned_grace(pod: SlimPod, is_bound: bool) -> Duration {
    let mut scene = ExternalPodsFixture::new();
    match is_bound {
        true => scene.see_bound(pod, &[]),
        false => scene.add_pod(pod),
    }
    scene.decide_without_task_results();
    let gangs = scene.driver.engine.snapshot().gangs;
    let told = gangs.into_iter().next().unwrap();
    told.place.map_or(told.gang, |place| place.gang).grace
}

#[tokio::test]
async fn engine_limits_the_grace_of_external_pods_to_an_hour() {
    for is_bound in [false, true] {
        let grace = |seconds| planned_grace(with_grace(seconds), is_bound).as_secs();
        assert_eq!(grace(7), 7);
        assert_eq!(grace(2_147_483_647), 3_600, "bound: {is_bound}");
    }
}
