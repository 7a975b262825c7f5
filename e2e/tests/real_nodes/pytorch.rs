//! torchrun: four pods train together, lose a rank, and get the same result as without the loss.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use trellis_e2e::real_nodes::kill_rank;
use trellis_e2e::wait::eventually;

use crate::fixtures::{RealNodesFixture, TRAINING_TIMEOUT, TrialNamespace, TrialOutcome};

/// By default torchrun checks its processes every 5 seconds.
const TORCHRUN_COMMAND: [&str; 3] = ["torchrun", "--monitor_interval=0.5", "/app/train.py"];

/// Two jobs run at the same time: one undisturbed, and one with a killed rank.
pub(crate) async fn test_rank_loss(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    if !scene.nodes.has_pytorch() {
        return TrialOutcome::Skipped(
            "no PyTorch: there was no package python3-torch, and may be when the cache has no folder `image`",
        );
    }
    let checkpoints = place.create_shared_volume("checkpoints").await;
    place
        .create_program("train.py", include_str!("train.py"))
        .await;
    for name in ["calm", "hit"] {
        let mut job = place.job_running(name, 4, &TORCHRUN_COMMAND);
        let group = &mut job["spec"]["taskGroups"][0];
        group["resources"]["limits"]["cpu"] = json!("500m");
        group["mounts"]
            .as_array_mut()
            .unwrap()
            .push(json!({"claimName": "checkpoints", "path": "/ckpt"}));
        let seconds = if name == "hit" { "0.1" } else { "0" };
        group["env"] = json!([{"name": "STEP_SECONDS", "value": seconds}]);
        place.create(job).await.unwrap();
    }
    let first = checkpoints.join("hit/attempt-000001/state.pt");
    eventually(TRAINING_TIMEOUT, || async {
        ensure!(
            first.is_file(),
            "no checkpoint: {:#?}",
            place.pod_logs("hit").await
        );
        Ok(())
    })
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    // This kills the process that torchrun has started, and not torchrun.
    kill_rank("hit", 2, "/app/train.py").unwrap();

    place.wait_until_complete("calm").await;
    let hit = place.wait_until_complete("hit").await.status.unwrap();
    let logs = place.pod_logs("hit").await;
    assert_eq!((hit.attempt, hit.restarts), (Some(2), Some(1)), "{logs:#?}");
    let last_line = hit.last_failure.unwrap().last_line.unwrap();
    assert!(last_line.contains("traceback"), "{last_line}");
    for (pod, log) in &logs {
        let resumed = log.lines().find(|l| l.starts_with("attempt 2 rank"));
        let resumed = resumed.unwrap_or_else(|| panic!("{pod}: {log}"));
        let step: u32 = resumed.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((10..60).contains(&step), "{resumed}");
    }
    let loss = |logs: &[(String, String)]| {
        let last_line = logs[0].1.lines().find(|l| l.starts_with("done: "));
        last_line.unwrap_or_else(|| panic!("{logs:#?}")).to_owned()
    };
    let undisturbed = place.pod_logs("calm").await;
    assert_eq!(loss(&logs), loss(&undisturbed));
    TrialOutcome::Passed
}
