//! A cluster without External Secrets Operator.

use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::external_secrets::{crds, make};
use trellis_e2e::jobs::{message, reason};
use trellis_e2e::operator;
use trellis_e2e::site::Site;

use super::{external, job, launch, permit};

#[tokio::test]
async fn where_nobody_knows_the_kind_jobs_say_so_and_go_on_once_it_is_installed() {
    let control_plane = operator::control_plane().await.unwrap();
    let mut operator = launch(&control_plane).await;
    let site = Site::new(&control_plane, "absent", Nodes::new(1).gpus(8)).await;
    permit(&control_plane, &site).await;
    site.create(job(&site)).await.unwrap();
    let waiting = site.reaches("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waiting), "SecretNotReady");
    let words = "spec.secrets[0].store: the cluster does not know ExternalSecret";
    assert!(
        message(&waiting).starts_with(words),
        "{}",
        message(&waiting)
    );
    // A job without such Secrets does not wait.
    site.submit("plain", 1, 0).await;
    site.reaches("plain", JobPhase::Running).await;
    for crd in crds().unwrap() {
        control_plane.apply_yaml(&crd).await.unwrap();
    }
    // The operator is not started again.
    external(&site, "j-wandb").await;
    make(&site, "j-wandb").await.unwrap();
    site.reaches("j", JobPhase::Running).await;
    operator.assert_runs();
}
