//! The steps: the examples run, one waits, room is made, it runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::ListParams};
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::wait::{eventually, wait_for, wait_gone};

use crate::screen::{kubectl, say, step, trellis};

/// How long a change may take to show. Far more than it takes on an idle machine.
const SOON: Duration = Duration::from_secs(90);

/// Examples that have room beside each other, and their number of pods.
const FIT: [(&str, usize); 4] = [
    ("cpu-only", 2),
    ("two-gpus", 2),
    ("master-workers", 4),
    ("finetune-with-data", 4),
];
/// The example whose logs are shown.
const LOGGED: &str = "two-gpus";
/// The example for which too few whole nodes are then free, and its number of pods.
const TOO_BIG: (&str, usize) = ("pretrain-64", 8);
/// The example that is deleted to free nodes for it.
const IN_THE_WAY: &str = "finetune-with-data";

/// Runs all steps.
///
/// # Errors
///
/// When a step does not have the result that it announces, with the observed state.
pub(crate) async fn all(control_plane: &ControlPlane) -> Result<()> {
    for (name, pods) in FIT {
        step(&format!("{name}: all pods or none"));
        apply(control_plane, name).await?;
        runs(control_plane, name, pods).await?;
    }
    kubectl(control_plane, &["get", "tj", "-A"]).await?;

    step("logs, by rank");
    trellis(control_plane, &["logs", LOGGED, "--all", "--tail", "1"]).await?;

    step(&format!("{}: does not fit, and says why", TOO_BIG.0));
    apply(control_plane, TOO_BIG.0).await?;
    waits(control_plane, TOO_BIG.0).await?;
    trellis(control_plane, &["explain", TOO_BIG.0]).await?;
    trellis(control_plane, &["queue"]).await?;

    step("room is made, and it starts");
    kubectl(control_plane, &["delete", "tj", IN_THE_WAY]).await?;
    gone(control_plane, IN_THE_WAY).await?;
    runs(control_plane, TOO_BIG.0, TOO_BIG.1).await?;
    kubectl(control_plane, &["get", "tj", "-A"]).await
}

async fn apply(control_plane: &ControlPlane, name: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../examples/{name}.yaml"));
    let yaml =
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    say(&format!("$ kubectl apply -f examples/{name}.yaml"));
    control_plane.apply_yaml(&yaml).await?;
    Ok(())
}

/// Waits until the whole gang runs, and shows what it was compiled into and where it is.
pub(crate) async fn runs(control_plane: &ControlPlane, name: &str, expected: usize) -> Result<()> {
    let status = reaches(control_plane, name, |s| {
        s.phase == Some(JobPhase::Running) && s.compiled.iter().all(|c| c.ready)
    })
    .await?;
    say("compiled into");
    for object in &status.compiled {
        say(&format!("  {:<14} {}", object.kind, object.name));
    }
    let pods = pods(control_plane, name).await?;
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
    say("placed on");
    for (node, pods) in placed {
        say(&format!("  {node:<14} {}", pods.join(" ")));
    }
    Ok(())
}

/// Waits until the job says what it lacks, and shows that no part of it exists.
async fn waits(control_plane: &ControlPlane, name: &str) -> Result<()> {
    let status = reaches(control_plane, name, |s| {
        s.phase == Some(JobPhase::Queued)
            && s.message
                .as_ref()
                .is_some_and(|m| m.contains(char::is_numeric))
    })
    .await?;
    kubectl(control_plane, &["get", "tj", name]).await?;
    let reason = status.reason.map_or("", trellis_api::Reason::as_str);
    ensure!(
        reason == "InsufficientCapacity" || reason == "Fragmented",
        "\"{name}\" waits for another reason than room: {reason}"
    );
    say(&format!("{reason}: {}", status.message.unwrap_or_default()));
    let pods = pods(control_plane, name).await?.len();
    ensure!(pods == 0, "\"{name}\" waits and has {pods} pods");
    say("pods of it: 0");
    Ok(())
}

/// Waits until neither the job nor a pod of it is left.
async fn gone(control_plane: &ControlPlane, name: &str) -> Result<()> {
    wait_gone(&jobs(control_plane), name, SOON).await?;
    eventually(SOON, || async {
        let left = pods(control_plane, name).await?.len();
        ensure!(left == 0, "{left} pods of \"{name}\" are left");
        Ok(())
    })
    .await
}

pub(crate) async fn reaches(
    control_plane: &ControlPlane,
    name: &str,
    wanted: impl Fn(&TrainingJobStatus) -> bool,
) -> Result<TrainingJobStatus> {
    let job = wait_for(&jobs(control_plane), name, SOON, |job: &TrainingJob| {
        job.status.as_ref().is_some_and(&wanted)
    })
    .await?;
    job.status
        .with_context(|| format!("\"{name}\" has no status"))
}

fn jobs(control_plane: &ControlPlane) -> Api<TrainingJob> {
    Api::namespaced(control_plane.client(), "default")
}

async fn pods(control_plane: &ControlPlane, job: &str) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(control_plane.client(), "default");
    let params = ListParams::default().labels(&format!("trellis.dev/job={job}"));
    Ok(api.list(&params).await?.items)
}
