//! `trellis plan --server`.

use anyhow::ensure;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::shared_fixture;

#[tokio::test]
async fn operator_plans_jobs_and_tells_when_they_would_start() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-plan", 2).await;
    let hour = |name: &str, pods: u32| {
        let mut job = site.job(name, pods, 8);
        job["spec"]["deadlines"] = json!({"activeSeconds": 3600});
        job
    };
    site.create(hour("runs", 1)).await.unwrap();
    site.wait_for_phase("runs", JobPhase::Running).await;
    let jobs = json!({"apiVersion": "v1", "kind": "List",
        "items": [hour("fits", 1), hour("waits", 2)]});
    let plan = ["plan", "--server", "-n", site.name(), "-f", "-"];
    let output = eventually(SOON, || async {
        let output = scene.run_with_input(&plan, &jobs.to_string()).await;
        ensure!(output.out.contains("expected to start in"), "{output:?}");
        Ok(output)
    });
    let output = output.await.unwrap();
    assert_eq!(output.status, 1, "{output:?}");
    for words in [
        "fits would run",
        "waits would wait",
        "Pods waits-worker-0..1 (2)",
        "1 would run, 1 would wait",
    ] {
        assert!(output.out.contains(words), "{words}: {output:?}");
    }
    let smaller = "spec.taskGroups[worker].replicas: 1: the job would start now";
    let alone = hour("waits", 2).to_string();
    let output = scene.run_with_input(&plan, &alone).await;
    assert!(output.out.contains(smaller), "{output:?}");

    // Other objects are ignored with a note, and problems are those of the file.
    let queue = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": "next"}, "spec": {"namespaceSelector": {}}});
    let with_queue =
        json!({"apiVersion": "v1", "kind": "List", "items": [queue, site.job("fits", 1, 8)]});
    let output = scene.run_with_input(&plan, &with_queue.to_string()).await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(
        output.err.contains("note: TrainingQueue is ignored"),
        "{output:?}"
    );
    let mut invalid = site.job("fits", 1, 8);
    invalid["spec"]["taskGroups"][0]["replicas"] = json!(0);
    let output = scene.run_with_input(&plan, &invalid.to_string()).await;
    assert_eq!(output.status, 2, "{output:?}");
    assert!(
        output
            .err
            .contains("spec.taskGroups[0].replicas: must be 1 to 4096"),
        "{output:?}"
    );

    // A user who may only read needs the right to create plans. Reading the cluster needs far more.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.json");
    std::fs::write(&file, alone).unwrap();
    let file = file.display().to_string();
    let denied = scene
        .run_as_viewer(&site, &["plan", "--server", "-f", &file])
        .await;
    assert_eq!(denied.status, 2, "{denied:?}");
    assert!(
        denied.err.contains("create plans.visibility.trellis.dev"),
        "{denied:?}"
    );
    let denied = scene.run_as_viewer(&site, &["plan", "-f", &file]).await;
    assert_eq!(denied.status, 2, "{denied:?}");
    assert!(
        denied
            .err
            .contains("with --server, the operator reads them"),
        "{denied:?}"
    );
}
