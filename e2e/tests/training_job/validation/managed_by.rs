//! Jobs that another controller manages.

use kube::api::Api;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, TrainingJob};

use crate::create_site;

#[tokio::test]
async fn job_of_another_manager_is_ignored() {
    let site = create_site("managed", 1).await;
    let mut external_job = site.job("theirs", 1, 8);
    external_job["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
    site.create(external_job.clone()).await.unwrap();
    let mut own_job = site.job("ours", 1, 8);
    own_job["spec"]["managedBy"] = json!("trellis.dev/operator");
    site.create(own_job).await.unwrap();
    site.wait_for_phase("ours", JobPhase::Running).await;

    let jobs: Api<TrainingJob> = site.api();
    assert_eq!(jobs.get("theirs").await.unwrap().status, None);
    assert!(
        site.api::<PodGroup>()
            .get_opt("theirs")
            .await
            .unwrap()
            .is_none()
    );
    // Two controllers of one job would conflict with each other.
    let none = json!({"spec": {"managedBy": null}});
    for patch in [none, json!({"spec": {"managedBy": "trellis.dev/operator"}})] {
        let refused = site.patch("theirs", patch).await.unwrap_err().to_string();
        assert!(
            refused.contains("spec.managedBy: Invalid value"),
            "{refused}"
        );
        assert!(refused.contains("create a new job"), "{refused}");
    }
    external_job["metadata"]["name"] = json!("wrong");
    external_job["spec"]["managedBy"] = json!("another");
    let refused = site.create(external_job).await.unwrap_err().to_string();
    assert!(
        refused.contains("must be a path below a domain"),
        "{refused}"
    );
}
