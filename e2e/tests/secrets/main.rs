//! Secrets of external stores: no job is placed before its Secrets exist. The control plane is real
//! and has the CRDs of External Secrets Operator. The tests act as its controller; one test runs
//! the controller itself, if it is installed.

mod controller;
mod missing_operator;
mod readiness;
mod references;
mod refusals;
mod secret_changes;
mod store_permissions;

use std::path::Path;
use std::time::Duration;

use kube::Api;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use trellis_api::ClusterJobPolicy;
use trellis_api::external_secret::ExternalSecret;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_for};

/// Time after which an unwanted change would be visible.
const NO_CHANGE_TIME: Duration = Duration::from_secs(1);

/// The operator under test.
fn operator_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}

/// The control plane of these tests, with one operator on it.
async fn shared_control_plane() -> &'static ControlPlane {
    static OPERATOR: OnceCell<Operator> = OnceCell::const_new();
    let options = || {
        let mut options: ControlPlaneOptions = operator::control_plane_options().unwrap();
        let crds = trellis_e2e::external_secrets::crds().unwrap();
        options.manifests.extend(crds);
        options
    };
    let control_plane = ControlPlane::shared_with(options).await.unwrap();
    let start = async || {
        operator::install_chart_objects(control_plane)
            .await
            .unwrap();
        launch_operator(control_plane).await
    };
    OPERATOR.get_or_init(start).await;
    control_plane
}

/// An operator that keeps its lease on a busy machine.
async fn launch_operator(control_plane: &ControlPlane) -> Operator {
    let kubeconfig = operator::kubeconfig(control_plane, operator::POD)
        .await
        .unwrap();
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    Operator::launch_with_options(control_plane, operator_program(), &kubeconfig, &launch).unwrap()
}

/// Creates a site with one node, whose jobs may read the store with the name of the site.
async fn create_site(prefix: &str) -> TestSite {
    let site = create_site_without_permits(prefix).await;
    permit_store(shared_control_plane().await, &site).await;
    site
}

/// Creates a site with one node and without a policy about stores.
async fn create_site_without_permits(prefix: &str) -> TestSite {
    TestSite::new(
        shared_control_plane().await,
        prefix,
        NodeTemplate::new(1).gpus(8),
    )
    .await
}

/// Permits jobs to read keys below `ml/` in the store with the name of the site.
async fn permit_store(control_plane: &ControlPlane, site: &TestSite) {
    let cedar = format!(
        "permit(principal, action == Trellis::Action::\"UseSecret\", resource) \
         when {{ resource has store && resource.store.name == {:?} && resource.store.path like \"ml/*\" }};",
        site.name()
    );
    let policy = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": site.name()}, "spec": {"cedar": cedar},
    });
    control_plane.apply_yaml(&policy.to_string()).await.unwrap();
    let api: Api<ClusterJobPolicy> = Api::all(control_plane.client());
    let active = wait_for(&api, site.name(), SOON, |policy: &ClusterJobPolicy| {
        let conditions = policy.status.iter().flat_map(|s| &s.conditions);
        conditions
            .into_iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    });
    active.await.unwrap();
}

/// Returns an entry `wandb` of the site's store.
fn secret_entry(site: &TestSite, data: Value) -> Value {
    json!({
        "name": "wandb", "store": {"kind": "ClusterSecretStore", "name": site.name()}, "data": data,
    })
}

/// Returns a job of one pod with a Secret `wandb` in its environment and in a file.
fn job_with_secret(site: &TestSite) -> Value {
    let mut job = site.job("j", 1, 8);
    job["spec"]["secrets"] = json!([secret_entry(site, json!({"api-key": "ml/wandb#token"}))]);
    let group = &mut job["spec"]["taskGroups"][0];
    group["env"] = json!([
        {"name": "WANDB_API_KEY", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "api-key"}}},
        {"name": "OTHER", "valueFrom": {"secretKeyRef": {"name": "there-before", "key": "k"}}},
    ]);
    group["mounts"] = json!([{"secretName": "wandb", "path": "/wandb"}]);
    job
}

/// Waits until the ExternalSecret exists.
async fn wait_for_external_secret(site: &TestSite, name: &str) -> ExternalSecret {
    let api: Api<ExternalSecret> = site.api();
    let existing = wait_for(&api, name, SOON, |_: &ExternalSecret| true);
    existing.await.unwrap()
}

/// Waits until the object does not exist.
async fn wait_until_deleted<K>(site: &TestSite, name: &str)
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    let api: Api<K> = site.api();
    eventually(SOON, || async {
        let existing = api.get_opt(name).await?;
        anyhow::ensure!(existing.is_none(), "{name} still exists");
        Ok(())
    })
    .await
    .unwrap();
}
