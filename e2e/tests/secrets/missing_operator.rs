//! A cluster without External Secrets Operator.

use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::external_secrets::{crds, create_secret};
use trellis_e2e::operator;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{message, reason};

use super::{job_with_secret, launch_operator, permit_store, wait_for_external_secret};

#[tokio::test]
async fn jobs_wait_until_external_secrets_is_installed() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut operator = launch_operator(&control_plane).await;
    let site = TestSite::new(&control_plane, "absent", NodeTemplate::new(1).gpus(8)).await;
    permit_store(&control_plane, &site).await;
    site.create(job_with_secret(&site)).await.unwrap();
    let waiting = site.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waiting), "SecretNotReady");
    let words = "spec.secrets[0].store: the cluster does not know ExternalSecret";
    assert!(
        message(&waiting).starts_with(words),
        "{}",
        message(&waiting)
    );
    // A job without such Secrets does not wait.
    site.submit("plain", 1, 0).await;
    site.wait_for_phase("plain", JobPhase::Running).await;
    for crd in crds().unwrap() {
        control_plane.apply_yaml(&crd).await.unwrap();
    }
    // The operator is not started again.
    wait_for_external_secret(&site, "j-wandb").await;
    create_secret(&site, "j-wandb").await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    operator.assert_runs();
}
