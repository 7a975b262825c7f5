//! The steps: the examples run, one job waits, the demo frees nodes, and the job runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::ListParams};
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::wait::{eventually, wait_for, wait_until_deleted};

use crate::screen::{print_line, print_step, run_kubectl, run_trellis};

/// Longest time until a change is visible. An idle machine needs far less.
const SOON: Duration = Duration::from_secs(90);

/// Examples that fit on the nodes together, and their number of pods.
const FITTING_EXAMPLES: [(&str, usize); 4] = [
    ("cpu-only", 2),
    ("two-gpus", 2),
    ("master-workers", 4),
    ("finetune-with-data", 4),
];
/// The example whose logs are shown.
const LOGGED_EXAMPLE: &str = "two-gpus";
/// The example for which too few whole nodes are free then, and its number of pods.
const WAITING_EXAMPLE: (&str, usize) = ("pretrain-64", 8);
/// The example whose deletion frees nodes for the waiting one.
const DELETED_EXAMPLE: &str = "finetune-with-data";

/// Runs all steps.
///
/// # Errors
///
/// When a step does not have its announced result; the error has the observed state.
pub(crate) async fn run_all(control_plane: &ControlPlane) -> Result<()> {
    for (name, pods) in FITTING_EXAMPLES {
        print_step(&format!("{name}: all pods or none"));
        apply_example(control_plane, name).await?;
        wait_until_running(control_plane, name, pods).await?;
    }
    run_kubectl(control_plane, &["get", "tj", "-A"]).await?;

    print_step("logs, by rank");
    run_trellis(
        control_plane,
        &["logs", LOGGED_EXAMPLE, "--all", "--tail", "1"],
    )
    .await?;

    print_step(&format!(
        "{}: does not fit, and says why",
        WAITING_EXAMPLE.0
    ));
    apply_example(control_plane, WAITING_EXAMPLE.0).await?;
    wait_until_pending(control_plane, WAITING_EXAMPLE.0).await?;
    run_trellis(control_plane, &["explain", WAITING_EXAMPLE.0]).await?;
    run_trellis(control_plane, &["queue"]).await?;

    print_step("room is made, and it starts");
    run_kubectl(control_plane, &["delete", "tj", DELETED_EXAMPLE]).await?;
    wait_until_job_and_pods_are_deleted(control_plane, DELETED_EXAMPLE).await?;
    wait_until_running(control_plane, WAITING_EXAMPLE.0, WAITING_EXAMPLE.1).await?;
    run_kubectl(control_plane, &["get", "tj", "-A"]).await
}

/// Applies `examples/<name>.yaml`.
pub(crate) async fn apply_example(control_plane: &ControlPlane, name: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../examples/{name}.yaml"));
    let yaml =
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    print_line(&format!("$ kubectl apply -f examples/{name}.yaml"));
    control_plane.apply_yaml(&yaml).await?;
    Ok(())
}

/// Waits until the whole gang runs, and shows its objects and its nodes.
pub(crate) async fn wait_until_running(
    control_plane: &ControlPlane,
    name: &str,
    expected: usize,
) -> Result<()> {
    let status = wait_for_status(control_plane, name, |s| {
        s.phase == Some(JobPhase::Running) && s.compiled.iter().all(|c| c.ready)
    })
    .await?;
    print_line("compiled into");
    for object in &status.compiled {
        print_line(&format!("  {:<14} {}", object.kind, object.name));
    }
    let pods = list_pods(control_plane, name).await?;
    ensure!(
        pods.len() == expected,
        "\"{name}\" runs with {} pods, not {expected}",
        pods.len()
    );
    let mut placed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in pods {
        let name = pod.name_any();
        let phase = pod.status.and_then(|s| s.phase).unwrap_or_default();
        ensure!(phase == "Running", "pod \"{name}\" is {phase}");
        let node = pod.spec.and_then(|s| s.node_name);
        let node = node.with_context(|| format!("pod \"{name}\" has no node"))?;
        placed.entry(node).or_default().push(name);
    }
    print_line("placed on");
    for (node, pods) in placed {
        print_line(&format!("  {node:<14} {}", pods.join(" ")));
    }
    Ok(())
}

/// Waits until the status names the shortage, and shows that no pod exists.
async fn wait_until_pending(control_plane: &ControlPlane, name: &str) -> Result<()> {
    let status = wait_for_status(control_plane, name, |s| {
        s.phase == Some(JobPhase::Queued)
            && s.message
                .as_ref()
                .is_some_and(|m| m.contains(char::is_numeric))
    })
    .await?;
    run_kubectl(control_plane, &["get", "tj", name]).await?;
    let reason = status.reason.map_or("", trellis_api::Reason::as_str);
    ensure!(
        reason == "InsufficientCapacity" || reason == "Fragmented",
        "\"{name}\" waits for another reason than capacity: {reason}"
    );
    print_line(&format!("{reason}: {}", status.message.unwrap_or_default()));
    check_no_pods(control_plane, name).await
}

/// Checks that a job that waits has no pods.
pub(crate) async fn check_no_pods(control_plane: &ControlPlane, name: &str) -> Result<()> {
    let pods = list_pods(control_plane, name).await?.len();
    ensure!(pods == 0, "\"{name}\" waits and has {pods} pods");
    print_line("pods of it: 0");
    Ok(())
}

/// Waits until the job and all its pods are gone.
async fn wait_until_job_and_pods_are_deleted(
    control_plane: &ControlPlane,
    name: &str,
) -> Result<()> {
    wait_until_deleted(&jobs_api(control_plane), name, SOON).await?;
    eventually(SOON, || async {
        let remaining = list_pods(control_plane, name).await?.len();
        ensure!(remaining == 0, "{remaining} pods of \"{name}\" still exist");
        Ok(())
    })
    .await
}

pub(crate) async fn wait_for_status(
    control_plane: &ControlPlane,
    name: &str,
    condition: impl Fn(&TrainingJobStatus) -> bool,
) -> Result<TrainingJobStatus> {
    wait_for_status_within(SOON, control_plane, name, condition).await
}

pub(crate) async fn wait_for_status_within(
    timeout: Duration,
    control_plane: &ControlPlane,
    name: &str,
    condition: impl Fn(&TrainingJobStatus) -> bool,
) -> Result<TrainingJobStatus> {
    let jobs = jobs_api(control_plane);
    let job = wait_for(&jobs, name, timeout, |job: &TrainingJob| {
        job.status.as_ref().is_some_and(&condition)
    })
    .await?;
    job.status
        .with_context(|| format!("\"{name}\" has no status"))
}

fn jobs_api(control_plane: &ControlPlane) -> Api<TrainingJob> {
    Api::namespaced(control_plane.client(), "default")
}

async fn list_pods(control_plane: &ControlPlane, job: &str) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(control_plane.client(), "default");
    let params = ListParams::default().labels(&format!("trellis.dev/job={job}"));
    Ok(api.list(&params).await?.items)
}
