//! An empty pool grows for one job, and shrinks after it. A real Karpenter buys the nodes.

mod device_plugins;
mod progress;
mod steps;

use anyhow::{Context as _, Result};
use trellis_e2e::admission::wait_for_stamping;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::karpenter::{self, Karpenter, NodePoolTemplate};
use trellis_e2e::kubelet;
use trellis_e2e::operator::{self, PLACEHOLDER_NAMESPACE};

use crate::screen::{print_line, print_step, run_kubectl};
use crate::{install_and_start_operator, simulation_options, wait_for_user};

/// The name of the NodePool and of the flavor of its nodes.
const POOL: &str = "h100";
/// Time from the purchase of a node to its Node object.
const REGISTRATION_DELAY: &str = "15s";
/// Time after which Karpenter removes an empty node. docs/autoscaling.md recommends a minute or
/// more. The demo takes less, so that its user waits less.
const CONSOLIDATE_AFTER: &str = "30s";

/// Runs the demo of autoscaling.
///
/// # Errors
///
/// When a step does not have its announced result.
pub(crate) async fn run(once: bool) -> Result<()> {
    print_step("a control plane (etcd, kube-apiserver, kube-controller-manager, kwok), no nodes");
    let mut options = simulation_options()?;
    let crds = tokio::task::spawn_blocking(karpenter::crds).await??;
    options.manifests.extend(crds);
    let control_plane = ControlPlane::start(options).await?;

    print_step("charts/trellis with provisioning.enabled, and the operator");
    operator::install_placeholder_objects(&control_plane).await?;
    let namespace = format!("--placeholder-namespace={PLACEHOLDER_NAMESPACE}");
    let mut operator = install_and_start_operator(&control_plane, &[&namespace]).await?;

    print_step("Karpenter, and a NodePool of simulated nodes with 8 GPUs");
    let karpenter = Karpenter::start(&control_plane, &[]).await?;
    let pool = node_pool().create(&control_plane).await?;
    print_line(&format!(
        "a node joins {REGISTRATION_DELAY} after its purchase, and Karpenter removes it after {CONSOLIDATE_AFTER} without pods"
    ));
    let is_ready = [
        "wait",
        "--for=condition=Ready",
        "--timeout=60s",
        "nodepools",
        POOL,
    ];
    control_plane.kubectl_ok(&is_ready).await?;
    run_kubectl(&control_plane, &["get", "nodepools"]).await?;
    wait_for_stamping(&control_plane).await;

    let demo = async {
        steps::run_all(&control_plane, &pool)
            .await
            .with_context(|| format!("Karpenter: {}", karpenter.log_tail()))
            .with_context(|| format!("operator: {}", operator.log_tail()))?;
        wait_for_user(&control_plane, &mut operator, once, &hints()).await
    };
    tokio::select! {
        result = demo => result,
        () = device_plugins::start_on_new_nodes(&pool) => Ok(()),
    }
}

/// Returns a NodePool with the taints and the limit that docs/autoscaling.md recommends.
fn node_pool() -> NodePoolTemplate {
    NodePoolTemplate::new(POOL)
        .taint("trellis.dev/dedicated", "true", "NoSchedule")
        .startup_taint(device_plugins::TAINT, "true", "NoSchedule")
        .limit("nvidia.com/gpu", "256")
        .registration_delay(REGISTRATION_DELAY)
        .consolidate_after(CONSOLIDATE_AFTER)
}

fn hints() -> [String; 3] {
    let (example, job, exit) = (steps::EXAMPLE, steps::JOB, kubelet::EXIT);
    [
        format!(
            "to run it again: kubectl delete tj {job}; kubectl apply --server-side -f examples/{example}.yaml; trellis status {job} --watch"
        ),
        "other jobs: with `queueName: pretraining` they get new nodes, 32 at most; kubectl get nodeclaims --watch"
            .to_owned(),
        format!("to end a job: kubectl annotate pods -l trellis.dev/job={job} {exit}=0"),
    ]
}
