//! The real controller of External Secrets Operator, with its provider for tests.

use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::external_secret::ExternalSecret;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::external_secrets::{apply_fake_store, crds, start};
use trellis_e2e::operator;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{message, reason};

use super::{
    job_with_secret, launch_operator, permit_store, secret_entry, wait_for_external_secret,
    wait_until_deleted,
};

#[tokio::test]
async fn job_runs_with_a_secret_from_the_real_controller() {
    let mut options = operator::control_plane_options().unwrap();
    options.manifests.extend(crds().unwrap());
    let control_plane = trellis_e2e::control_plane::ControlPlane::start(options)
        .await
        .unwrap();
    let Some(_controller) = start(&control_plane).unwrap() else {
        return;
    };
    operator::install_chart_objects(&control_plane)
        .await
        .unwrap();
    let _operator = launch_operator(&control_plane).await;
    let site = TestSite::new(&control_plane, "real", NodeTemplate::new(1).gpus(8)).await;
    permit_store(&control_plane, &site).await;
    let mut job = job_with_secret(&site);
    let pull = json!({".dockerconfigjson": "ml/pull"});
    let mut pull = secret_entry(&site, pull);
    pull["name"] = json!("pull");
    job["spec"]["secrets"].as_array_mut().unwrap().push(pull);
    job["spec"]["taskGroups"][0]["imagePullSecrets"] = json!([{"name": "pull"}]);
    site.create(job).await.unwrap();
    // The store does not exist yet. The message is that of the controller.
    let waiting = site
        .wait_for_status("j", |s| {
            s.message
                .as_deref()
                .is_some_and(|m| m.contains("SecretSyncedError"))
        })
        .await;
    assert_eq!(reason(&waiting), "SecretNotReady");
    assert!(
        message(&waiting).starts_with("spec.secrets["),
        "{waiting:?}"
    );
    assert_eq!(site.list_pods("j").await.len(), 0);
    let values = [
        ("ml/wandb", r#"{"token": "from the store"}"#),
        ("ml/pull", r#"{"auths": {}}"#),
    ];
    apply_fake_store(&control_plane, site.name(), &values).await;
    let running = site.wait_for_phase("j", JobPhase::Running).await;
    assert!(
        running
            .status
            .unwrap()
            .compiled
            .iter()
            .all(|o| o.problem.is_none())
    );
    let created = wait_for_external_secret(&site, "j-wandb")
        .await
        .spec
        .target
        .name;
    let secrets = site.api::<Secret>();
    let data = secrets.get(&created).await.unwrap().data.unwrap();
    assert_eq!(data["api-key"].0, b"from the store");
    let pull = wait_for_external_secret(&site, "j-pull")
        .await
        .spec
        .target
        .name;
    let pull = secrets.get(&pull).await.unwrap();
    assert_eq!(
        pull.type_.as_deref(),
        Some("kubernetes.io/dockerconfigjson")
    );
    // The operator and the controller do not overwrite each other's fields repeatedly.
    let generation = wait_for_external_secret(&site, "j-wandb")
        .await
        .metadata
        .generation;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let after = wait_for_external_secret(&site, "j-wandb")
        .await
        .metadata
        .generation;
    assert_eq!((generation, after), (Some(1), Some(1)));
    site.delete::<TrainingJob>("j").await;
    wait_until_deleted::<ExternalSecret>(&site, "j-wandb").await;
    wait_until_deleted::<Secret>(&site, &created).await;
}
