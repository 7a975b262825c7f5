//! ExternalSecrets of jobs and of other owners.

use trellis_gang::observed::SlimExternalSecret;

use super::*;

fn new_external_secret(
    name: &str,
    uid: &str,
    version: u64,
    job: Option<&str>,
    ready: &str,
) -> SlimExternalSecret {
    let owner = job.map(|job| {
        json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": job,
            "uid": format!("a-{job}"), "controller": true})
    });
    decoded(json!({
        "metadata": {"name": name, "namespace": "a", "uid": uid, "generation": 1,
            "resourceVersion": version.to_string(),
            "ownerReferences": owner.into_iter().collect::<Vec<_>>()},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }))
}

impl ContextFixture {
    fn external_secret(&self, object: SlimExternalSecret) {
        self.sink.apply(Key::from_meta(object.meta()), object);
    }

    fn secrets_of_job(&self, job: &str) -> Vec<String> {
        let secrets = self
            .context
            .cache
            .external_secrets
            .for_job(&Key::new("a", job));
        secrets
            .iter()
            .map(|(key, _)| key.name.to_string())
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn job_is_requeued_when_its_external_secret_changes() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "j", &[]), ("a", "k", &[])]).await;
    case.external_secret(new_external_secret("j-x", "x", 1, Some("j"), "False"));
    case.external_secret(new_external_secret("k-y", "y", 2, Some("k"), "False"));
    case.external_secret(new_external_secret("theirs", "z", 3, None, "False"));
    assert_eq!(case.requeued_jobs().await, ["a/j", "a/k"]);
    assert_eq!(
        (case.secrets_of_job("j"), case.secrets_of_job("k")),
        (vec!["j-x".to_owned()], vec!["k-y".to_owned()])
    );
    // The controller of ExternalSecrets refreshes the object every hour.
    case.external_secret(new_external_secret("j-x", "x", 4, Some("j"), "False"));
    assert!(case.requeued_jobs().await.is_empty());
    case.external_secret(new_external_secret("j-x", "x", 5, Some("j"), "True"));
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
    // The owner reference is removed.
    case.external_secret(new_external_secret("j-x", "x", 6, None, "True"));
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
    assert!(case.secrets_of_job("j").is_empty());
    Sink::<SlimExternalSecret>::delete(case.sink.as_ref(), &Key::new("a", "k-y"), "y");
    assert_eq!(case.requeued_jobs().await, ["a/k"]);
    assert!(case.secrets_of_job("k").is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_jobs_with_stores_are_requeued_when_external_secrets_appear() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "plain", &[])]).await;
    let store = json!({"kind": "SecretStore", "name": "vault"});
    let with_store: TrainingJob = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "stored", "namespace": "a", "uid": "u"},
        "spec": {"taskGroups": [], "secrets": [{"name": "x", "store": store, "data": {"k": "p"}}]},
    }));
    case.sink
        .apply(Key::from_meta(with_store.meta()), with_store);
    case.sync();
    case.requeued_jobs().await;
    let sink = || case.sink.as_ref();
    assert!(!case.context.cache.external_secrets.is_known());
    Sink::<SlimExternalSecret>::synced(sink());
    assert_eq!(case.requeued_jobs().await, ["a/stored"]);
    assert!(case.context.cache.external_secrets.is_known());
    Sink::<SlimExternalSecret>::synced(sink());
    assert!(case.requeued_jobs().await.is_empty());
    Sink::<SlimExternalSecret>::kind_unknown(sink());
    assert_eq!(case.requeued_jobs().await, ["a/stored"]);
}
