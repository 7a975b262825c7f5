//! Ray: a head that runs the driver, and workers that join it.

use serde_json::json;
use trellis_api::job::TrainingJob;
use trellis_e2e::real_nodes::RAY_PATH;

use crate::fixtures::{RealNodesFixture, TrialNamespace, TrialOutcome};

/// The driver needs every GPU of both workers. Its first attempt fails.
pub(crate) async fn test_driver(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    if !scene.nodes.has_ray() {
        return TrialOutcome::Skipped(
            "no Ray: pip could not install it, and may when the cache has no folder `image`",
        );
    }
    place
        .create_program("driver.py", include_str!("ray.py"))
        .await;
    let mut job = place.job_running("j", 2, &[]);
    job["spec"]["framework"] = json!("Ray");
    job["spec"]["restart"] = json!({"backoffSeconds": 1});
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let workers = &mut groups[0];
    workers.as_object_mut().unwrap().remove("command");
    workers["gpus"] = json!(2);
    workers["resources"] = json!({"limits": {"cpu": "300m", "memory": "1Gi"}});
    workers["env"] = json!([
        {"name": "PYTHONPATH", "value": RAY_PATH},
        {"name": "PATH", "value": format!("{RAY_PATH}/bin:/usr/bin:/bin")},
        {"name": "RAY_START_ARGS", "value": "--num-cpus=1 --object-store-memory=100000000"},
    ]);
    let mut head = workers.clone();
    head["name"] = json!("head");
    head["role"] = json!("Coordinator");
    head["replicas"] = json!(1);
    head["gpus"] = json!(0);
    head["command"] = json!(["python3", "/app/driver.py"]);
    groups.push(head);
    place.create(job).await.unwrap();
    let job = place.wait_until_complete("j").await;
    assert_eq!(restarts(&job), Some(1));
    let logs = place.pod_logs("j").await;
    let (_, log) = logs.iter().find(|(pod, _)| pod == "j-head-0").unwrap();
    for line in [
        "3 nodes, 4 GPUs",
        "actors on j-worker-0 j-worker-0 j-worker-1 j-worker-1",
    ] {
        assert!(log.lines().any(|l| l == line), "no {line:?}: {logs:#?}");
    }
    TrialOutcome::Passed
}

fn restarts(job: &TrainingJob) -> Option<i64> {
    job.status.as_ref()?.restarts
}
