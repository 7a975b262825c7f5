//! Secrets that change while a job is suspended, and objects that do not belong to the job.

use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::{Value, json};
use trellis_api::external_secret::ExternalSecret;
use trellis_api::job::JobPhase;
use trellis_e2e::external_secrets::create_secret;
use trellis_e2e::site::jobs::{message, reason};

use super::{
    create_site, job_with_secret, secret_entry, wait_for_external_secret, wait_until_deleted,
};

#[tokio::test]
async fn resumed_job_reads_secrets_changed_during_suspension() {
    let site = create_site("edit").await;
    let mut first = job_with_secret(&site);
    let mut second_entry = secret_entry(&site, json!({"k": "ml/more"}));
    second_entry["name"] = json!("more");
    first["spec"]["secrets"]
        .as_array_mut()
        .unwrap()
        .push(second_entry);
    site.create(first).await.unwrap();
    for name in ["j-wandb", "j-more"] {
        wait_for_external_secret(&site, name).await;
        create_secret(&site, name).await.unwrap();
    }
    site.wait_for_phase("j", JobPhase::Running).await;
    let other = json!({"spec": {"secrets": [secret_entry(&site, json!({"api-key": "ml/other"}))]}});
    let refused = site
        .patch("j", other.clone())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("changes only while the job is suspended"),
        "{refused}"
    );
    let suspend = |suspend: bool| json!({"spec": {"suspend": suspend}});
    site.patch("j", suspend(true)).await.unwrap();
    site.wait_for_phase("j", JobPhase::Suspended).await;
    site.patch("j", other).await.unwrap();
    wait_until_deleted::<ExternalSecret>(&site, "j-more").await;
    site.patch("j", suspend(false)).await.unwrap();
    // The ExternalSecret is Ready for its previous version only.
    let waiting = site.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waiting), "SecretNotReady");
    assert!(
        message(&waiting).contains("is being read anew"),
        "{waiting:?}"
    );
    let now = wait_for_external_secret(&site, "j-wandb").await;
    assert_eq!(now.spec.data[0].remote_ref.key, "ml/other");
    create_secret(&site, "j-wandb").await.unwrap();
    site.wait_for_running_attempt("j", 2).await;
}

#[tokio::test]
async fn foreign_external_secret_is_not_changed() {
    let site = create_site("foreign").await;
    let all = site.api::<ExternalSecret>();
    let foreign = |name: &str| -> ExternalSecret {
        let spec: Value = json!({
            "secretStoreRef": {"kind": "ClusterSecretStore", "name": "theirs"},
            "refreshInterval": "1h0m0s",
            "target": {"name": name, "creationPolicy": "Owner", "deletionPolicy": "Retain"},
            "data": [],
        });
        serde_json::from_value(json!({
            "apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret",
            "metadata": {"name": name}, "spec": spec,
        }))
        .unwrap()
    };
    let foreign_objects = all
        .create(&PostParams::default(), &foreign("j-wandb"))
        .await
        .unwrap();
    site.create(job_with_secret(&site)).await.unwrap();
    let blocked = site.wait_for_phase("j", JobPhase::Blocked).await;
    assert_eq!(reason(&blocked), "NameConflict");
    let words = "ExternalSecret \"j-wandb\" is there and is not this job's";
    assert!(message(&blocked).contains(words), "{}", message(&blocked));
    let now = all.get("j-wandb").await.unwrap();
    assert_eq!(
        (now.uid(), now.resource_version()),
        (foreign_objects.uid(), foreign_objects.resource_version())
    );
    // After the foreign object is deleted, the job continues by itself.
    site.delete::<ExternalSecret>("j-wandb").await;
    site.wait_for_phase("j", JobPhase::Waiting).await;
    create_secret(&site, "j-wandb").await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
}
