//! Runs the example that resumes on real nodes, where a kubelet sends SIGTERM and waits for the
//! grace period.

use std::path::Path;

use anyhow::ensure;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::{RealNodesFixture, TrialNamespace, TrialOutcome};

/// Returns the step of a checkpoint.
fn checkpoint_step(folder: &Path, attempt: u32) -> u64 {
    let file = folder.join(format!("j/attempt-{attempt:06}/state.json"));
    let state = std::fs::read_to_string(file).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    state["step"].as_u64().unwrap()
}

pub(crate) async fn test_resume_example(
    _: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    let example = include_str!("../../../examples/resume.yaml");
    let map = example.split("\n---\n").next().unwrap();
    let map: ConfigMap = serde_saphyr::from_str(map).unwrap();
    place
        .create_program("train.py", &map.data.unwrap()["train.py"])
        .await;
    let checkpoints = place.create_shared_volume("checkpoints").await;
    let mut job = place.job_running("j", 2, &["python3", "/app/train.py"]);
    job["spec"]["checkpoint"] = json!({"gracePeriodSeconds": 60});
    let group = &mut job["spec"]["taskGroups"][0];
    group["mounts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"claimName": "checkpoints", "path": "/ckpt"}));
    // The job saves only at its end, or when it is stopped.
    group["env"] = json!([
        {"name": "STEPS", "value": "60"},
        {"name": "SAVE_EVERY", "value": "1000"},
        {"name": "STEP_SECONDS", "value": "0.5"},
    ]);
    place.create(job).await.unwrap();
    eventually(SOON, || async {
        let logs = place.pod_logs("j").await;
        let began = logs
            .iter()
            .filter(|(_, log)| log.contains("goes on at step 0"));
        ensure!(began.count() == 2, "{logs:?}");
        Ok(())
    })
    .await
    .unwrap();
    place
        .patch("j", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    place.wait_for_phase("j", JobPhase::Suspended).await;
    place.wait_for_pod_count("j", 0).await;
    let saved = checkpoint_step(&checkpoints, 1);
    assert!((1..60).contains(&saved), "{saved}");

    place
        .patch("j", json!({"spec": {"suspend": false}}))
        .await
        .unwrap();
    place.wait_until_complete("j").await;
    for (pod, log) in place.pod_logs("j").await {
        let resumed = format!("attempt 2 goes on at step {saved}\n");
        assert!(log.starts_with(&resumed), "{pod}: {log}");
    }
    assert_eq!(checkpoint_step(&checkpoints, 2), 60);
    TrialOutcome::Passed
}
