//! JAX: as many processes as pods, which find their coordinator by the variables of the job.

use serde_json::json;
use trellis_e2e::real_nodes::JAX;

use crate::scene::{End, Place, Scene};

pub(crate) async fn psum(scene: &'static Scene, place: Place) -> End {
    if !scene.nodes.has_jax() {
        return End::Skipped(
            "no JAX: pip could not install it, and may when the cache has no folder `image`",
        );
    }
    place.program("sum.py", include_str!("jax.py")).await;
    let mut job = place.runs("j", 3, &["python3", "/app/sum.py"]);
    job["spec"]["framework"] = json!("JAX");
    job["spec"]["taskGroups"][0]["env"] = json!([
        {"name": "PYTHONPATH", "value": JAX},
        {"name": "JAX_PLATFORMS", "value": "cpu"},
    ]);
    place.create(job).await.unwrap();
    place.ends("j").await;
    for (index, (pod, log)) in place.logs("j").await.iter().enumerate() {
        let line = format!("process {index} of 3: 6.0");
        assert!(log.lines().any(|l| l == line), "{pod}: {log}");
    }
    End::Passed
}
