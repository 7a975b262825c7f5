//! The real controller of External Secrets Operator, with the store that it has for tests.

use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::external_secret::ExternalSecret;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::external_secrets::{crds, fake_store, start};
use trellis_e2e::jobs::{message, reason};
use trellis_e2e::operator;
use trellis_e2e::site::Site;

use super::{external, gone, job, launch, permit, secret};

#[tokio::test]
async fn the_real_controller_reads_a_store_and_the_job_runs() {
    let mut options = operator::options().unwrap();
    options.manifests.extend(crds().unwrap());
    let control_plane = trellis_e2e::control_plane::ControlPlane::start(options)
        .await
        .unwrap();
    let Some(_controller) = start(&control_plane).unwrap() else {
        return;
    };
    operator::install(&control_plane).await.unwrap();
    let _operator = launch(&control_plane).await;
    let site = Site::new(&control_plane, "real", Nodes::new(1).gpus(8)).await;
    permit(&control_plane, &site).await;
    let mut job = job(&site);
    let pull = json!({".dockerconfigjson": "ml/pull"});
    let mut pull = secret(&site, pull);
    pull["name"] = json!("pull");
    job["spec"]["secrets"].as_array_mut().unwrap().push(pull);
    job["spec"]["taskGroups"][0]["imagePullSecrets"] = json!([{"name": "pull"}]);
    site.create(job).await.unwrap();
    // There is no such store yet: its own words.
    let waiting = site
        .becomes("j", |s| {
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
    assert_eq!(site.pods("j").await.len(), 0);
    let values = [
        ("ml/wandb", r#"{"token": "from the store"}"#),
        ("ml/pull", r#"{"auths": {}}"#),
    ];
    fake_store(&control_plane, site.name(), &values).await;
    let runs = site.reaches("j", JobPhase::Running).await;
    assert!(
        runs.status
            .unwrap()
            .compiled
            .iter()
            .all(|o| o.problem.is_none())
    );
    let made = external(&site, "j-wandb").await.spec.target.name;
    let secrets = site.api::<Secret>();
    let data = secrets.get(&made).await.unwrap().data.unwrap();
    assert_eq!(data["api-key"].0, b"from the store");
    let pull = external(&site, "j-pull").await.spec.target.name;
    let pull = secrets.get(&pull).await.unwrap();
    assert_eq!(
        pull.type_.as_deref(),
        Some("kubernetes.io/dockerconfigjson")
    );
    // Nothing is written again and again by two that disagree.
    let generation = external(&site, "j-wandb").await.metadata.generation;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let after = external(&site, "j-wandb").await.metadata.generation;
    assert_eq!((generation, after), (Some(1), Some(1)));
    site.delete::<TrainingJob>("j").await;
    gone::<ExternalSecret>(&site, "j-wandb").await;
    gone::<Secret>(&site, &made).await;
}
