//! Trellis in pods, as platform teams run it: its image on real nodes, installed by Helm, with pods
//! that kube-scheduler places. A TrainingJob runs to its end.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use libtest_mimic::Trial;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::helm::Helm;
use trellis_e2e::operator::{self, LEASE_NAME, NAMESPACE};
use trellis_e2e::wait::eventually;

use crate::availability::check_both_roles;
use crate::real_cluster::{self, ChartCluster, READY_TIMEOUT, WAIT_FLAGS};

pub(crate) fn trial() -> Trial {
    real_cluster::trial(
        "operators_in_pods_run_a_job_on_real_nodes",
        test_operator_in_pods,
    )
}

async fn test_operator_in_pods(helm: Helm) -> Result<()> {
    let nodes = ChartCluster::start(Vec::new()).await?;
    let control_plane = &nodes.control_plane;
    let helm = helm.with_control_plane(control_plane);
    let output = nodes.install(&helm, &json!({})).await?;
    let on: BTreeSet<_> = nodes
        .operator_pods()
        .await?
        .iter()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
        .collect();
    ensure!(on.len() == 2, "both operators are on {on:?}");

    operator::wait_until_jobs_accepted(control_plane).await?;
    nodes.run_gang("first").await?;
    // The example job that Helm prints after the installation.
    let hello = output
        .split_once("<<END\n")
        .context("the output has no example job")?
        .1;
    let hello = hello.split("  END").next().unwrap_or_default();
    control_plane.apply_yaml(hello).await?;
    nodes.run_job("hello").await?;

    check_leader_label(control_plane).await?;
    eventually(READY_TIMEOUT, || check_both_roles(control_plane)).await?;
    // The leader is deleted, and the other replica takes over.
    let before = lease_holder(control_plane).await?;
    let pods: Api<Pod> = Api::namespaced(control_plane.client(), NAMESPACE);
    let leading = nodes.operator_pods().await?;
    let leading = leading
        .iter()
        .find(|pod| before.starts_with(&pod.name_any()));
    let leading = leading.with_context(|| format!("{before} is no pod"))?;
    pods.delete(&leading.name_any(), &DeleteParams::default())
        .await?;
    eventually(READY_TIMEOUT, || async {
        let now = lease_holder(control_plane).await?;
        ensure!(!now.is_empty() && now != before, "{now} leads");
        Ok(())
    })
    .await?;
    check_leader_label(control_plane).await?;
    nodes.run_gang("second").await?;

    let values = json!({"operator": {"logFormat": "human"}});
    helm.run_chart_command("upgrade", NAMESPACE, &values, &WAIT_FLAGS)?;
    nodes.run_gang("third").await?;

    helm.run_ok(&["uninstall", "trellis", "--namespace", NAMESPACE, "--wait"])?;
    let jobs: Api<TrainingJob> = Api::namespaced(control_plane.client(), "default");
    ensure!(jobs.list(&ListParams::default()).await?.items.len() == 4);
    Ok(())
}

async fn lease_holder(control_plane: &ControlPlane) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(control_plane.client(), NAMESPACE);
    let lease = leases.get(LEASE_NAME).await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    Ok(holder.unwrap_or_default())
}

/// The Service that the API server calls selects the leader and no other replica.
async fn check_leader_label(control_plane: &ControlPlane) -> Result<()> {
    let slices: Api<EndpointSlice> = Api::namespaced(control_plane.client(), NAMESPACE);
    let params = ListParams::default().labels("kubernetes.io/service-name=trellis-visibility");
    eventually(READY_TIMEOUT, || async {
        let leader = lease_holder(control_plane).await?;
        let slices = slices.list(&params).await?.items;
        let endpoints = slices
            .into_iter()
            .flat_map(|slice| slice.endpoints.unwrap_or_default());
        let backends: Vec<String> = endpoints
            .filter_map(|endpoint| endpoint.target_ref?.name)
            .collect();
        let is_leader = matches!(backends.as_slice(), [one] if leader.starts_with(one.as_str()));
        ensure!(is_leader, "{leader} leads, and {backends:?} is asked");
        Ok(())
    })
    .await
}
