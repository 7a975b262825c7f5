//! The steps: a job waits, Karpenter buys its nodes, the gang runs and ends, and the nodes go.

use std::time::Duration;

use anyhow::{Result, ensure};
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::karpenter::TestNodePool;
use trellis_e2e::kubelet;
use trellis_e2e::operator::PLACEHOLDER_NAMESPACE;
use trellis_e2e::wait::eventually;

use super::POOL;
use super::progress::Progress;
use crate::screen::{print_line, print_step, run_kubectl, run_trellis, run_trellis_with_status};
use crate::steps::{apply_example, check_no_pods, wait_for_status, wait_until_running};

/// The example of the demo.
pub(super) const EXAMPLE: &str = "queues/autoscaled";
/// The job of the example.
pub(super) const JOB: &str = "pretrain-128";
/// Number of pods of the job. Each pod needs all GPUs of a node.
const NODES: usize = 16;

/// Longest time until Karpenter has removed the NodeClaim of a node that is gone.
const CLAIM_REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs all steps.
///
/// # Errors
///
/// When a step does not have its announced result; the error has the observed state.
pub(super) async fn run_all(control_plane: &ControlPlane, pool: &TestNodePool) -> Result<()> {
    print_step("an empty pool, and a job of 16 nodes");
    show_none(control_plane, &["nodes"]).await?;
    show_plan(control_plane).await?;
    apply_example(control_plane, EXAMPLE).await?;
    let progress = Progress::start(control_plane, JOB);

    print_step("the job waits for 16 new nodes");
    wait_for_order(control_plane, pool, &progress).await?;

    print_step("the nodes come one by one, and the last one starts the gang");
    wait_for_start(control_plane, &progress).await?;

    print_step("the training ends, and the pool shrinks");
    end_training(control_plane).await?;
    progress.print_node_counts_until_none().await?;

    print_step("what was bought");
    check_purchase(control_plane, pool).await
}

/// Shows the output of `trellis plan` before the submission: the job must wait for its new nodes.
async fn show_plan(control_plane: &ControlPlane) -> Result<()> {
    let file = format!("examples/{EXAMPLE}.yaml");
    // Exit status 1 means that the job would wait.
    let plan = run_trellis_with_status(control_plane, 1, &["plan", "-f", &file]).await?;
    let expected = format!("the job would start with {NODES} new nodes of flavor \"{POOL}\"");
    ensure!(plan.contains(&expected), "the plan has no new nodes");
    Ok(())
}

/// Waits until Karpenter has bought the nodes, and shows what the waiting user reads.
async fn wait_for_order(
    control_plane: &ControlPlane,
    pool: &TestNodePool,
    progress: &Progress<'_>,
) -> Result<()> {
    progress
        .print_messages_until(|status| status.reason == Some(Reason::Provisioning))
        .await?;
    let expected = format!("Provisioning: waits for {NODES} new nodes of flavor \"{POOL}\"");
    let messages = progress.messages();
    let is_ordered = messages.iter().any(|text| text.starts_with(&expected));
    ensure!(is_ordered, "the messages of the job: {messages:?}");
    run_kubectl(control_plane, &["get", "tj", JOB]).await?;
    run_trellis(control_plane, &["explain", JOB]).await?;
    check_no_pods(control_plane, JOB).await?;
    pool.wait_for_claims(NODES).await?;
    run_kubectl(control_plane, &["get", "jobs", "-n", PLACEHOLDER_NAMESPACE]).await?;
    run_kubectl(control_plane, &["get", "nodeclaims"]).await
}

/// Waits until the gang runs. The message of the job must count the nodes that are ready.
async fn wait_for_start(control_plane: &ControlPlane, progress: &Progress<'_>) -> Result<()> {
    progress
        .print_messages_until(|status| status.phase == Some(JobPhase::Running))
        .await?;
    let messages = progress.messages();
    let is_counted = (1..NODES).any(|ready| {
        let verb = if ready == 1 { "is" } else { "are" };
        let count = format!(": {ready} {verb} ready;");
        messages.iter().any(|message| message.contains(&count))
    });
    ensure!(is_counted, "no message counts ready nodes: {messages:?}");
    wait_until_running(control_plane, JOB, NODES).await?;
    run_trellis(control_plane, &["status", JOB]).await?;
    show_none(control_plane, &["jobs,pods", "-n", PLACEHOLDER_NAMESPACE]).await
}

/// Ends all pods with exit code 0.
async fn end_training(control_plane: &ControlPlane) -> Result<()> {
    let selector = format!("trellis.dev/job={JOB}");
    let exit = format!("{}=0", kubelet::EXIT);
    let arguments = ["annotate", "pods", "-l", &selector, &exit];
    print_line(&format!("$ kubectl {}", arguments.join(" ")));
    control_plane.kubectl_ok(&arguments).await?;
    wait_for_status(control_plane, JOB, |status| {
        status.phase == Some(JobPhase::Complete)
    })
    .await?;
    run_kubectl(control_plane, &["get", "tj", JOB]).await
}

/// Checks that Karpenter has bought each node once, and has removed all of them.
async fn check_purchase(control_plane: &ControlPlane, pool: &TestNodePool) -> Result<()> {
    eventually(CLAIM_REMOVAL_TIMEOUT, || {
        check_none(control_plane, &["nodeclaims"])
    })
    .await?;
    show_none(control_plane, &["nodes,nodeclaims"]).await?;
    let bought = pool.claims().len();
    print_line(&format!("NodeClaims that Karpenter created: {bought}"));
    ensure!(
        bought == NODES,
        "Karpenter created {bought} NodeClaims for a job of {NODES} nodes"
    );
    Ok(())
}

/// Shows that `kubectl get` with these arguments lists no object.
async fn show_none(control_plane: &ControlPlane, arguments: &[&str]) -> Result<()> {
    run_kubectl(control_plane, &[&["get"], arguments].concat()).await?;
    check_none(control_plane, arguments).await
}

async fn check_none(control_plane: &ControlPlane, arguments: &[&str]) -> Result<()> {
    let get = [&["get", "--output=name"], arguments].concat();
    let names = control_plane.kubectl_ok(&get).await?;
    ensure!(names.is_empty(), "these objects still exist: {names}");
    Ok(())
}
