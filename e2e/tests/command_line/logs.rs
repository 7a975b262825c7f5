//! Logs of pods on simulated nodes.

use trellis_api::job::JobPhase;

use crate::fixtures::shared_fixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_reports_that_simulated_pods_have_no_logs() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-logs", 1).await;
    site.submit("llm", 2, 1).await;
    site.wait_for_phase("llm", JobPhase::Running).await;
    let logs = ["logs", "llm", "-n", site.name()];
    let node = &site.nodes().names()[0];
    let output = scene.run_trellis(&logs).await;
    assert_eq!(output.status, 1, "{output:?}");
    assert_eq!(
        output.err.trim_end(),
        format!(
            "error: llm-worker-0 runs on the simulated node {node:?}: pods of simulated nodes have no logs"
        )
    );
    let all = scene.run_trellis(&[&logs[..], &["--all"]].concat()).await;
    assert_eq!(
        all.err.trim_end(),
        "error: 2 pods run on simulated nodes: pods of simulated nodes have no logs"
    );
    let follow = scene.run_trellis(&[&logs[..], &["-f"]].concat()).await;
    assert_eq!(follow.status, 1, "{follow:?}");
    assert_eq!(follow.err, output.err);

    // A viewer may not read nodes, so the message reports an unreachable kubelet.
    let viewer = scene.run_as_viewer(&site, &logs).await;
    assert!(
        viewer
            .err
            .contains(&format!("the kubelet of node {node:?} cannot be reached: ")),
        "{viewer:?}"
    );
}
