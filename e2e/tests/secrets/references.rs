//! A job is placed only after the objects that its pods refer to exist in its namespace.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{message, reason};

use super::{NO_CHANGE_TIME, create_site_without_permits, operator_program, shared_control_plane};

fn named_object<K: serde::de::DeserializeOwned>(name: &str) -> K {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// Returns the message of a job that waits for a missing object. Checks that it has no pod.
async fn wait_for_missing_object(site: &TestSite, for_what: &str) -> String {
    let words = format!("{for_what} does not exist: create it or name another");
    let waiting = site.wait_for_status("j", |s| s.full_message().contains(&words));
    let waiting = waiting.await;
    assert_eq!(reason(&waiting), "ReferenceNotFound");
    assert_eq!(site.list_pods("j").await.len(), 0);
    message(&waiting)
}

#[tokio::test]
async fn job_waits_for_its_config_map_and_service_account() {
    let site = create_site_without_permits("refs").await;
    let mut job = site.job("j", 1, 8);
    job["spec"]["serviceAccountName"] = json!("trainer");
    job["spec"]["taskGroups"][0]["mounts"] =
        json!([{"configMapName": "settings", "path": "/settings"}]);
    // The operator has no right to read Secrets, so a job does not wait for one.
    job["spec"]["taskGroups"][0]["env"] =
        json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "nobody-looks", "key": "k"}}}]);
    site.create(job).await.unwrap();
    let status_message = wait_for_missing_object(&site, "ConfigMap \"settings\"").await;
    assert!(
        status_message.starts_with("task group \"worker\", spec.volumes["),
        "{status_message}"
    );
    let post = PostParams::default();
    let maps: Api<ConfigMap> = site.api();
    maps.create(&post, &named_object("settings")).await.unwrap();
    wait_for_missing_object(&site, "ServiceAccount \"trainer\"").await;
    let accounts: Api<ServiceAccount> = site.api();
    accounts
        .create(&post, &named_object("trainer"))
        .await
        .unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
}

/// Grants the rights of docs/secrets.md in the site's namespace.
fn secret_rights(site: &TestSite) -> String {
    let document = include_str!("../../../docs/secrets.md");
    let blocks = document.split("```yaml\n").skip(1);
    let mut blocks = blocks.filter_map(|block| block.split("```").next());
    let block = blocks
        .find(|block| block.contains("kind: RoleBinding"))
        .unwrap();
    block.replace("namespace: team-a", &format!("namespace: {}", site.name()))
}

#[tokio::test]
async fn secrets_are_checked_only_where_the_operator_has_the_right() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "looked", NodeTemplate::new(1).gpus(8)).await;
    control_plane
        .apply_yaml(&secret_rights(&site))
        .await
        .unwrap();
    let kubeconfig = operator::kubeconfig(&control_plane, operator::POD)
        .await
        .unwrap();
    let launch = LaunchOptions::with_name("operator")
        .lease_seconds(60)
        .argument(&format!("--look-for-secrets-in=other,{}", site.name()));
    let _operator =
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &launch)
            .unwrap();
    let mut job = site.job("j", 1, 8);
    job["spec"]["secrets"] = json!([{"name": "token"}]);
    site.create(job).await.unwrap();
    let status_message = wait_for_missing_object(&site, "Secret \"token\"").await;
    assert!(
        status_message.starts_with("spec.secrets[0]: "),
        "{status_message}"
    );
    tokio::time::sleep(NO_CHANGE_TIME).await;
    assert_eq!(site.list_pods("j").await.len(), 0);
    let secrets: Api<Secret> = site.api();
    secrets
        .create(&PostParams::default(), &named_object("token"))
        .await
        .unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
}

#[tokio::test]
async fn operator_may_read_no_secret_by_default() {
    let control_plane = shared_control_plane().await;
    let client = control_plane
        .service_account_client(operator::NAMESPACE, operator::SERVICE_ACCOUNT)
        .await
        .unwrap();
    let is_forbidden = |error: kube::Error| matches!(&error, kube::Error::Api(s) if s.code == 403);
    let all: Api<Secret> = Api::all(client.clone());
    assert!(is_forbidden(
        all.list(&ListParams::default()).await.unwrap_err()
    ));
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    assert!(is_forbidden(secrets.get("any").await.unwrap_err()));
    // The operator creates keys of MPI jobs, and cannot read them again.
    let key = named_object::<Secret>("x");
    secrets.create(&PostParams::default(), &key).await.unwrap();
    assert!(is_forbidden(secrets.get("x").await.unwrap_err()));
}
