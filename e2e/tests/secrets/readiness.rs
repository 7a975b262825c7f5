//! A job waits until its Secrets exist, and reports the reason.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::external_secret::ExternalSecret;
use trellis_api::job::{CompiledObject, JobPhase};
use trellis_e2e::cluster::{NodeTemplate, SCOPE_LABEL};
use trellis_e2e::external_secrets::{create_secret, report_failure};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message, reason};

use super::{
    NO_CHANGE_TIME, create_site, job_with_secret, shared_control_plane, wait_for_external_secret,
    wait_until_deleted,
};

/// Returns the ExternalSecret in the job's status.
fn secret_in_status(job: &TrainingJob) -> CompiledObject {
    let compiled = &job.status.as_ref().unwrap().compiled;
    let found = compiled.iter().find(|o| o.kind == "ExternalSecret");
    found.unwrap_or_else(|| panic!("{compiled:?}")).clone()
}

#[tokio::test]
async fn pods_are_created_only_after_their_secret_exists() {
    let site = create_site("ready").await;
    site.create(job_with_secret(&site)).await.unwrap();
    let waiting = site.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waiting), "SecretNotReady");
    let object = wait_for_external_secret(&site, "j-wandb").await;
    let uid = waiting.uid().unwrap();
    let owner = &object.owner_references()[0];
    assert_eq!((owner.kind.as_str(), &owner.uid), ("TrainingJob", &uid));
    assert_eq!(object.labels()["app.kubernetes.io/managed-by"], "trellis");
    let spec = serde_json::to_value(&object.spec).unwrap();
    assert_eq!(spec["secretStoreRef"]["name"], site.name());
    assert_eq!(spec["refreshInterval"], "1h0m0s");
    let data = &spec["data"][0];
    assert_eq!(data["secretKey"], "api-key");
    assert_eq!(data["remoteRef"]["key"], "ml/wandb");
    assert_eq!(data["remoteRef"]["property"], "token");

    // The message is that of the controller until the Secret exists.
    let problem = "could not get secret data from provider";
    report_failure(&site, "j-wandb", problem).await.unwrap();
    let words = format!("ExternalSecret \"j-wandb\" is not ready: SecretSyncedError: {problem}");
    let waiting = site
        .wait_for_status("j", |s| s.full_message().contains(&words))
        .await;
    assert!(
        message(&waiting).starts_with("spec.secrets[0]: "),
        "{waiting:?}"
    );
    let entry = secret_in_status(&waiting);
    assert!(!entry.ready && entry.problem.unwrap().contains(problem));
    tokio::time::sleep(NO_CHANGE_TIME).await;
    assert_eq!(site.list_pods("j").await.len(), 0);

    create_secret(&site, "j-wandb").await.unwrap();
    let running = site.wait_for_phase("j", JobPhase::Running).await;
    let entry = secret_in_status(&running);
    assert!(entry.ready && entry.problem.is_none());
    let pod = site.list_pods("j").await.remove(0).spec.unwrap();
    let main = &pod.containers[0];
    let find_variable = |name: &str| {
        let variable = main.env.iter().flatten().find(|v| v.name == name).unwrap();
        let source = variable.value_from.clone().unwrap();
        source.secret_key_ref.unwrap().name
    };
    let key_variable = find_variable("WANDB_API_KEY");
    assert!(key_variable.starts_with("j-wandb-"), "{key_variable}");
    assert_eq!(find_variable("OTHER"), "there-before");
    let volumes = pod.volumes.unwrap();
    let mounted = volumes.iter().find_map(|v| v.secret.clone()).unwrap();
    assert_eq!(mounted.secret_name, Some(key_variable.clone()));
    assert_eq!(
        wait_for_external_secret(&site, "j-wandb")
            .await
            .spec
            .target
            .name,
        key_variable
    );
    let secrets = site.api::<Secret>();
    assert!(secrets.get(&key_variable).await.is_ok());

    // The running job keeps running while the store is unavailable.
    report_failure(&site, "j-wandb", "the store is away")
        .await
        .unwrap();
    let running = site.wait_for_status("j", |s| s.compiled.iter().any(|o| o.problem.is_some()));
    assert_eq!(running.await.status.unwrap().phase, Some(JobPhase::Running));
    assert_eq!(site.wait_for_whole_gang("j", 1).await.len(), 1);

    site.delete::<TrainingJob>("j").await;
    wait_until_deleted::<ExternalSecret>(&site, "j-wandb").await;
    wait_until_deleted::<Secret>(&site, &key_variable).await;
}

#[tokio::test]
async fn changed_external_secret_of_a_job_is_repaired() {
    let site = create_site("drift").await;
    site.create(job_with_secret(&site)).await.unwrap();
    let before = wait_for_external_secret(&site, "j-wandb").await;
    let api = site.api::<ExternalSecret>();
    let change = |spec: Value| {
        let (api, patch) = (api.clone(), Patch::Merge(json!({"spec": spec})));
        async move {
            api.patch("j-wandb", &PatchParams::default(), &patch)
                .await
                .unwrap()
        }
    };
    let other = json!({"data": [{"secretKey": "api-key", "remoteRef": {"key": "hr/salaries"}}]});
    change(other).await;
    let find = json!({"dataFrom": [{"find": {"name": {"regexp": ".*"}}}]});
    change(find).await;
    let right = trellis_e2e::wait::eventually(SOON, || async {
        let now: kube::api::DynamicObject = {
            let resource = kube::api::ApiResource::erase::<ExternalSecret>(&());
            let all = kube::Api::namespaced_with(
                super::shared_control_plane().await.client(),
                site.name(),
                &resource,
            );
            all.get("j-wandb").await?
        };
        anyhow::ensure!(now.data["spec"]["dataFrom"].is_null(), "{:?}", now.data);
        Ok(api.get("j-wandb").await?)
    });
    assert_eq!(right.await.unwrap().spec, before.spec);
    // The operator creates a deleted ExternalSecret again.
    site.delete::<ExternalSecret>("j-wandb").await;
    let anew = kube::runtime::wait::await_condition(
        api.clone(),
        "j-wandb",
        |o: Option<&ExternalSecret>| o.is_some_and(|o| o.uid() != before.uid()),
    );
    tokio::time::timeout(SOON, anew).await.unwrap().unwrap();
}

#[tokio::test]
async fn secrets_example_runs() {
    let control_plane = shared_control_plane().await;
    let site = TestSite::new(control_plane, "example", NodeTemplate::new(2).gpus(8)).await;
    let nodes = format!(
        "- name: worker\n    nodeSelector: {{{SCOPE_LABEL}: {}}}\n",
        site.name()
    );
    let example = include_str!("../../../examples/secrets/wandb.yaml")
        .replace("namespace: default", &format!("namespace: {}", site.name()))
        .replace("- name: worker\n", &nodes);
    control_plane.apply_yaml(&example).await.unwrap();
    for name in ["with-token-wandb", "with-token-registry"] {
        wait_for_external_secret(&site, name).await;
        create_secret(&site, name).await.unwrap();
    }
    site.wait_for_phase("with-token", JobPhase::Running).await;
    assert_eq!(site.wait_for_whole_gang("with-token", 2).await.len(), 2);
}
