//! Certificates of a real cert-manager: operators on real nodes show them, the API server trusts
//! them as cert-manager's CA injector tells it to, and renewals leave no gap.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use libtest_mimic::Trial;
use serde_json::json;
use trellis_e2e::cert_manager;
use trellis_e2e::helm::{Helm, RELEASE};
use trellis_e2e::operator::{self, NAMESPACE};
use trellis_e2e::wait::eventually;

use crate::asked::{Watch, is_asked};
use crate::certificates::{AUTHORITY, Certificates, SIGNED};
use crate::install;
use crate::nodes::{self, LONG, Nodes, WAIT};

pub(crate) fn trial() -> Trial {
    let name = "on_real_nodes_certificates_of_cert_manager_are_renewed_without_a_gap";
    nodes::trial_with(name, cert_manager::unable, test)
}

async fn test(helm: Helm) -> Result<()> {
    let nodes = Nodes::start(cert_manager::crds()?).await?;
    let control_plane = &nodes.control_plane;
    let mut issues = cert_manager::start(control_plane).await?;
    let helm = helm.on(control_plane);
    let values = json!({"certificates": {"source": "certManager"}});
    nodes.install(&helm, &values).await?;
    operator::takes_jobs(control_plane).await?;
    nodes.runs("first").await?;
    let certificates = Certificates::of(&nodes);
    certificates.are_ready().await?;
    certificates.are_shown().await?;
    eventually(LONG, || is_asked(control_plane)).await?;

    let before = containers(&nodes).await?;
    let watch = Watch::begin(control_plane)?;
    renewed(&certificates).await?;
    renewed_with_authority(&certificates).await?;
    authority_lost(&certificates).await?;
    watch.end().await?;
    forgotten(&helm, &nodes, &certificates).await?;
    ensure!(containers(&nodes).await? == before, "operators began anew");

    upgraded(&helm, &nodes, &certificates).await?;
    nodes.runs("second").await?;
    ensure!(issues.ended()?.is_none(), "{}", issues.last_words());
    helm.ok(&["uninstall", RELEASE, "--namespace", NAMESPACE, "--wait"])?;
    // The Secrets belong to cert-manager, and remain.
    certificates.secret(AUTHORITY).await?;
    Ok(())
}

/// By its condition, and by the loss of its Secret.
async fn renewed(certificates: &Certificates<'_>) -> Result<()> {
    let [webhook, endpoint] = SIGNED.map(|signed| signed.name);
    let webhook = certificates.renew(webhook).await?;
    let endpoint = certificates.lose(endpoint).await?;
    for (before, after) in [webhook, endpoint] {
        ensure!(before.get("ca.crt")? == after.get("ca.crt")?);
        ensure!(before.get("tls.key")? != after.get("tls.key")?);
    }
    certificates.are_shown().await
}

/// The authority keeps its key.
async fn renewed_with_authority(certificates: &Certificates<'_>) -> Result<()> {
    let (before, after) = certificates.renew(AUTHORITY).await?;
    ensure!(before.get("tls.key")? == after.get("tls.key")?);
    signed_anew(certificates).await
}

/// Another has taken the place of the authority: what the old one has signed goes on until then.
async fn authority_lost(certificates: &Certificates<'_>) -> Result<()> {
    let (before, after) = certificates.lose(AUTHORITY).await?;
    ensure!(before.get("tls.key")? != after.get("tls.key")?);
    certificates.are_shown().await?;
    signed_anew(certificates).await
}

async fn signed_anew(certificates: &Certificates<'_>) -> Result<()> {
    let authority = certificates.secret(AUTHORITY).await?;
    for signed in SIGNED {
        let (_, renewed) = certificates.renew(signed.name).await?;
        ensure!(renewed.get("ca.crt")? == authority.get("tls.crt")?);
    }
    certificates.are_shown().await
}

/// Each authority stays trusted until it expires, or until an administrator removes it as the docs
/// describe.
async fn forgotten(helm: &Helm, nodes: &Nodes, certificates: &Certificates<'_>) -> Result<()> {
    certificates.are_trusted_of(3).await?;
    let forget = install::block("kubectl patch validatingwebhookconfiguration")?;
    install::by_reader(helm, &nodes.control_plane, &forget)?;
    eventually(LONG, || certificates.are_trusted_of(1)).await?;
    eventually(LONG, || is_asked(&nodes.control_plane)).await
}

/// An upgrade keeps what cert-manager has injected into the chart's objects. During a change from
/// the operator's own certificates to cert-manager's, the API server trusts both.
async fn upgraded(helm: &Helm, nodes: &Nodes, certificates: &Certificates<'_>) -> Result<()> {
    let upgrade = async |source| {
        let labels = json!({"team": "platform"});
        let values = json!({"commonLabels": labels, "certificates": {"source": source}});
        helm.chart("upgrade", NAMESPACE, &values, &WAIT)?;
        eventually(LONG, || is_asked(&nodes.control_plane)).await
    };
    upgrade("certManager").await?;
    certificates.are_trusted_of(1).await?;
    upgrade("operator").await?;
    upgrade("certManager").await?;
    certificates.are_shown().await?;
    certificates.are_trusted_of(2).await
}

/// How often the operators' containers began, by the ids of their pods.
async fn containers(nodes: &Nodes) -> Result<BTreeMap<String, i32>> {
    let count = |pod: Pod| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        let restarts = statuses.iter().map(|status| status.restart_count).sum();
        Some((pod.uid()?, restarts))
    };
    let pods = nodes.operators().await?;
    let counted: Option<_> = pods.into_iter().map(count).collect();
    counted.context("a pod without containers")
}
