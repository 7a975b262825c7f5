//! Certificates of a real cert-manager. Operators on real nodes serve them, the API server trusts
//! them through cert-manager's CA injector, and renewals cause no outage.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use libtest_mimic::Trial;
use serde_json::json;
use trellis_e2e::cert_manager;
use trellis_e2e::helm::{Helm, RELEASE_NAME};
use trellis_e2e::operator::{self, NAMESPACE};
use trellis_e2e::wait::eventually;

use crate::availability::{AvailabilityMonitor, check_both_roles};
use crate::certificates::{AUTHORITY_NAME, ReleaseCertificates, SIGNED_CERTIFICATES};
use crate::install;
use crate::real_cluster::{self, ChartCluster, READY_TIMEOUT, WAIT_FLAGS};

pub(crate) fn trial() -> Trial {
    let name = "cert_manager_certificates_are_renewed_on_real_nodes_without_a_gap";
    real_cluster::trial_with(
        name,
        cert_manager::unavailable_reason,
        test_certificate_renewal,
    )
}

async fn test_certificate_renewal(helm: Helm) -> Result<()> {
    let nodes = ChartCluster::start(cert_manager::crds()?).await?;
    let control_plane = &nodes.control_plane;
    let mut issues = cert_manager::start(control_plane).await?;
    let helm = helm.with_control_plane(control_plane);
    let values = json!({"certificates": {"source": "certManager"}});
    nodes.install(&helm, &values).await?;
    operator::wait_until_jobs_accepted(control_plane).await?;
    nodes.run_gang("first").await?;
    let certificates = ReleaseCertificates::for_release(&nodes);
    certificates.check_ready().await?;
    certificates.wait_until_served().await?;
    eventually(READY_TIMEOUT, || check_both_roles(control_plane)).await?;

    let before = container_restarts(&nodes).await?;
    let watch = AvailabilityMonitor::start(control_plane)?;
    renew_leaf_certificates(&certificates).await?;
    renew_authority(&certificates).await?;
    replace_authority(&certificates).await?;
    watch.stop_and_check().await?;
    remove_old_authorities(&helm, &nodes, &certificates).await?;
    ensure!(
        container_restarts(&nodes).await? == before,
        "containers of the operators restarted"
    );

    upgrade_chart(&helm, &nodes, &certificates).await?;
    nodes.run_gang("second").await?;
    ensure!(issues.try_wait()?.is_none(), "{}", issues.log_tail());
    helm.run_ok(&[
        "uninstall",
        RELEASE_NAME,
        "--namespace",
        NAMESPACE,
        "--wait",
    ])?;
    // The Secrets belong to cert-manager and remain.
    certificates.read_secret(AUTHORITY_NAME).await?;
    Ok(())
}

/// Renews a certificate by its condition, and by the deletion of its Secret.
async fn renew_leaf_certificates(certificates: &ReleaseCertificates<'_>) -> Result<()> {
    let [webhook, endpoint] = SIGNED_CERTIFICATES.map(|signed| signed.name);
    let webhook = certificates.renew_certificate(webhook).await?;
    let endpoint = certificates.delete_secret(endpoint).await?;
    for (before, after) in [webhook, endpoint] {
        ensure!(before.get("ca.crt")? == after.get("ca.crt")?);
        ensure!(before.get("tls.key")? != after.get("tls.key")?);
    }
    certificates.wait_until_served().await
}

/// Renews the certificate of the authority, which keeps its key.
async fn renew_authority(certificates: &ReleaseCertificates<'_>) -> Result<()> {
    let (before, after) = certificates.renew_certificate(AUTHORITY_NAME).await?;
    ensure!(before.get("tls.key")? == after.get("tls.key")?);
    renew_under_authority(certificates).await
}

/// Replaces the authority. Certificates of the old authority work until then.
async fn replace_authority(certificates: &ReleaseCertificates<'_>) -> Result<()> {
    let (before, after) = certificates.delete_secret(AUTHORITY_NAME).await?;
    ensure!(before.get("tls.key")? != after.get("tls.key")?);
    certificates.wait_until_served().await?;
    renew_under_authority(certificates).await
}

async fn renew_under_authority(certificates: &ReleaseCertificates<'_>) -> Result<()> {
    let authority = certificates.read_secret(AUTHORITY_NAME).await?;
    for signed in SIGNED_CERTIFICATES {
        let (_, renewed) = certificates.renew_certificate(signed.name).await?;
        ensure!(renewed.get("ca.crt")? == authority.get("tls.crt")?);
    }
    certificates.wait_until_served().await
}

/// An authority stays trusted until it expires, or until an administrator removes it as the
/// documentation describes.
async fn remove_old_authorities(
    helm: &Helm,
    nodes: &ChartCluster,
    certificates: &ReleaseCertificates<'_>,
) -> Result<()> {
    certificates.check_authority_count(3).await?;
    let forget = install::install_block("kubectl patch validatingwebhookconfiguration")?;
    install::run_commands(helm, &nodes.control_plane, &forget)?;
    eventually(READY_TIMEOUT, || certificates.check_authority_count(1)).await?;
    eventually(READY_TIMEOUT, || check_both_roles(&nodes.control_plane)).await
}

/// An upgrade keeps what cert-manager has injected into the chart's objects. During a change from
/// the operator's own certificates to cert-manager's, the API server trusts both.
async fn upgrade_chart(
    helm: &Helm,
    nodes: &ChartCluster,
    certificates: &ReleaseCertificates<'_>,
) -> Result<()> {
    let upgrade = async |source| {
        let labels = json!({"team": "platform"});
        let values = json!({"commonLabels": labels, "certificates": {"source": source}});
        helm.run_chart_command("upgrade", NAMESPACE, &values, &WAIT_FLAGS)?;
        eventually(READY_TIMEOUT, || check_both_roles(&nodes.control_plane)).await
    };
    upgrade("certManager").await?;
    certificates.check_authority_count(1).await?;
    upgrade("operator").await?;
    upgrade("certManager").await?;
    certificates.wait_until_served().await?;
    certificates.check_authority_count(2).await
}

/// Returns the number of container restarts of the operators, by pod uid.
async fn container_restarts(nodes: &ChartCluster) -> Result<BTreeMap<String, i32>> {
    let count = |pod: Pod| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        let restarts = statuses.iter().map(|status| status.restart_count).sum();
        Some((pod.uid()?, restarts))
    };
    let pods = nodes.operator_pods().await?;
    let counted: Option<_> = pods.into_iter().map(count).collect();
    counted.context("a pod without containers")
}
