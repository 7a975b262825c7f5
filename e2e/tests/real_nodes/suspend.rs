//! The example that resumes, for real: SIGTERM and its grace by a kubelet.

use std::path::Path;

use anyhow::ensure;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::scene::{End, Place, Scene};

/// The step that a checkpoint is of.
fn step(folder: &Path, attempt: u32) -> u64 {
    let file = folder.join(format!("j/attempt-{attempt:06}/state.json"));
    let state = std::fs::read_to_string(file).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    state["step"].as_u64().unwrap()
}

pub(crate) async fn example(_: &'static Scene, place: Place) -> End {
    let example = include_str!("../../../examples/resume.yaml");
    let map = example.split("\n---\n").next().unwrap();
    let map: ConfigMap = serde_saphyr::from_str(map).unwrap();
    place
        .program("train.py", &map.data.unwrap()["train.py"])
        .await;
    let checkpoints = place.shared_folder("checkpoints").await;
    let mut job = place.runs("j", 2, &["python3", "/app/train.py"]);
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
        let logs = place.logs("j").await;
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
    place.reaches("j", JobPhase::Suspended).await;
    place.pods_become("j", 0).await;
    let saved = step(&checkpoints, 1);
    assert!((1..60).contains(&saved), "{saved}");

    place
        .patch("j", json!({"spec": {"suspend": false}}))
        .await
        .unwrap();
    place.ends("j").await;
    for (pod, log) in place.logs("j").await {
        let resumed = format!("attempt 2 goes on at step {saved}\n");
        assert!(log.starts_with(&resumed), "{pod}: {log}");
    }
    assert_eq!(step(&checkpoints, 2), 60);
    End::Passed
}
