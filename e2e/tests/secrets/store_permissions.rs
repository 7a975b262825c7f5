//! Policies decide which jobs may read which keys of a store. By default, no job may.

use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use trellis_api::ClusterJobPolicy;
use trellis_api::external_secret::ExternalSecret;
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::{message, reason};

use super::{
    create_site, create_site_without_permits, job_with_secret, permit_store, secret_entry,
    shared_control_plane, wait_for_external_secret, wait_until_deleted,
};

#[tokio::test]
async fn job_without_a_permit_is_denied_and_reads_no_secret() {
    let site = create_site_without_permits("denied").await;
    site.create(job_with_secret(&site)).await.unwrap();
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    let words = format!(
        "the job reads \"ml/wandb\" of ClusterSecretStore {:?}",
        site.name()
    );
    assert!(message(&refused).contains(&words), "{}", message(&refused));
    let all = site.api::<ExternalSecret>();
    assert!(
        all.list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );

    permit_store(shared_control_plane().await, &site).await;
    let waiting = site.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waiting), "SecretNotReady");
    wait_for_external_secret(&site, "j-wandb").await;

    // The permission is removed before the job runs, so its ExternalSecret is deleted.
    let policies: Api<ClusterJobPolicy> = Api::all(shared_control_plane().await.client());
    policies
        .delete(site.name(), &DeleteParams::default())
        .await
        .unwrap();
    site.wait_for_phase("j", JobPhase::Refused).await;
    wait_until_deleted::<ExternalSecret>(&site, "j-wandb").await;
    assert_eq!(site.list_pods("j").await.len(), 0);
}

#[tokio::test]
async fn single_forbidden_path_denies_the_job() {
    let site = create_site("path").await;
    let mut job = job_with_secret(&site);
    let data = json!({"api-key": "ml/wandb", "other": "hr/salaries"});
    job["spec"]["secrets"] = json!([secret_entry(&site, data)]);
    site.create(job).await.unwrap();
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert!(message(&refused).contains("\"hr/salaries\""), "{refused:?}");
    assert!(!message(&refused).contains("\"ml/wandb\""), "{refused:?}");
}
