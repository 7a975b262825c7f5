//! Attempts that have ended, as the leader remembers them.

use anyhow::ensure;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_api::visibility::EndedAttempt;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::shared_fixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_attempts_are_remembered_with_their_end() {
    let scene = shared_fixture().await;
    let site = scene.create_site("ended", 1).await;
    for name in ["done", "broken", "gone"] {
        let mut job = site.job(name, 1, 2);
        job["spec"]["restart"] = json!({"limit": 0});
        site.create(job).await.unwrap();
        site.wait_for_phase(name, JobPhase::Running).await;
    }
    site.end_pod("done-worker-0", "0").await;
    site.wait_for_phase("done", JobPhase::Complete).await;
    site.end_pod("broken-worker-0", "3").await;
    site.wait_for_phase("broken", JobPhase::Failed).await;
    site.delete::<TrainingJob>("gone").await;
    let api: Api<EndedAttempt> = Api::namespaced(scene.control_plane.client(), site.name());
    let ended = eventually(SOON, || async {
        let ended = api.list(&ListParams::default()).await?.items;
        ensure!(ended.len() == 3, "{ended:?}");
        Ok(ended)
    });
    let ended = ended.await.unwrap();
    let of = |name: &str| ended.iter().find(|ended| ended.job == name).unwrap();
    for name in ["done", "broken", "gone"] {
        let ended = of(name);
        assert_eq!(
            (ended.attempt, ended.gpus, ended.node_count),
            (1, 2, Some(1)),
            "{ended:?}"
        );
        assert!(
            ended.running.is_some() && ended.placed <= ended.ended,
            "{ended:?}"
        );
        assert!(!ended.preempted, "{ended:?}");
    }
    assert_eq!(of("done").phase, Some(JobPhase::Complete));
    assert_eq!(of("gone").phase, None);
    let broken = of("broken");
    assert_eq!(broken.phase, Some(JobPhase::Failed));
    let failure = broken.failure.as_ref().unwrap();
    assert_eq!(
        (failure.pod.as_str(), failure.exit_code),
        ("broken-worker-0", Some(3))
    );

    let viewer = scene.viewer_kubeconfig(&site).await;
    let namespace = format!("--namespace={}", site.name());
    let (ok, output) = scene.run_kubectl(&viewer, &["get", "ea", &namespace]).await;
    assert!(
        ok && output.contains("Deleted") && output.contains("Complete"),
        "{output}"
    );
    let (ok, output) = scene
        .run_kubectl(&viewer, &["get", "ea", "--namespace=default"])
        .await;
    assert!(!ok && output.contains("Forbidden"), "{output}");
}
