//! JAX: one process per pod. The processes find their coordinator by the variables of the job.

use serde_json::json;
use trellis_e2e::real_nodes::JAX_PATH;

use crate::fixtures::{RealNodesFixture, TrialNamespace, TrialOutcome};

pub(crate) async fn test_psum(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    if !scene.nodes.has_jax() {
        return TrialOutcome::Skipped(
            "no JAX: pip could not install it, and may when the cache has no folder `image`",
        );
    }
    place.create_program("sum.py", include_str!("jax.py")).await;
    let mut job = place.job_running("j", 3, &["python3", "/app/sum.py"]);
    job["spec"]["framework"] = json!("JAX");
    job["spec"]["taskGroups"][0]["env"] = json!([
        {"name": "PYTHONPATH", "value": JAX_PATH},
        {"name": "JAX_PLATFORMS", "value": "cpu"},
    ]);
    place.create(job).await.unwrap();
    place.wait_until_complete("j").await;
    for (index, (pod, log)) in place.pod_logs("j").await.iter().enumerate() {
        let line = format!("process {index} of 3: 6.0");
        assert!(log.lines().any(|l| l == line), "{pod}: {log}");
    }
    TrialOutcome::Passed
}
