//! Policies decide which jobs may read which keys of a store. By default none may.

use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use trellis_api::ClusterJobPolicy;
use trellis_api::external_secret::ExternalSecret;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::{message, reason};

use super::{external, forbidden_site, gone, job, permit, secret, shared, site};

#[tokio::test]
async fn what_nobody_permits_is_denied_and_nothing_is_read_for_it() {
    let site = forbidden_site("denied").await;
    site.create(job(&site)).await.unwrap();
    let refused = site.reaches("j", JobPhase::Refused).await;
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

    permit(shared().await, &site).await;
    let waiting = site.reaches("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waiting), "SecretNotReady");
    external(&site, "j-wandb").await;

    // The permission is removed before the job runs, so its ExternalSecret is deleted.
    let policies: Api<ClusterJobPolicy> = Api::all(shared().await.client());
    policies
        .delete(site.name(), &DeleteParams::default())
        .await
        .unwrap();
    site.reaches("j", JobPhase::Refused).await;
    gone::<ExternalSecret>(&site, "j-wandb").await;
    assert_eq!(site.pods("j").await.len(), 0);
}

#[tokio::test]
async fn one_path_that_is_not_permitted_denies_the_job() {
    let site = site("path").await;
    let mut job = job(&site);
    let data = json!({"api-key": "ml/wandb", "other": "hr/salaries"});
    job["spec"]["secrets"] = json!([secret(&site, data)]);
    site.create(job).await.unwrap();
    let refused = site.reaches("j", JobPhase::Refused).await;
    assert!(message(&refused).contains("\"hr/salaries\""), "{refused:?}");
    assert!(!message(&refused).contains("\"ml/wandb\""), "{refused:?}");
}
