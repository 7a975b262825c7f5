//! ExternalSecrets of jobs, and of others.

use trellis_gang::observed::SlimExternalSecret;

use super::*;

fn object(
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

impl Case {
    fn external_secret(&self, object: SlimExternalSecret) {
        self.watched.apply(Key::of(object.meta()), object);
    }

    fn of(&self, job: &str) -> Vec<String> {
        let all = self.context.cache.external_secrets.of(&Key::new("a", job));
        all.iter().map(|(key, _)| key.name.to_string()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn the_job_that_owns_one_hears_of_it_when_something_is_new() {
    let case = Case::new();
    case.jobs(&[("a", "j", &[]), ("a", "k", &[])]).await;
    case.external_secret(object("j-x", "x", 1, Some("j"), "False"));
    case.external_secret(object("k-y", "y", 2, Some("k"), "False"));
    case.external_secret(object("theirs", "z", 3, None, "False"));
    assert_eq!(case.looked_at().await, ["a/j", "a/k"]);
    assert_eq!(
        (case.of("j"), case.of("k")),
        (vec!["j-x".to_owned()], vec!["k-y".to_owned()])
    );
    // Read again by its controller, as each hour.
    case.external_secret(object("j-x", "x", 4, Some("j"), "False"));
    assert!(case.looked_at().await.is_empty());
    case.external_secret(object("j-x", "x", 5, Some("j"), "True"));
    assert_eq!(case.looked_at().await, ["a/j"]);
    // Its owner is taken away.
    case.external_secret(object("j-x", "x", 6, None, "True"));
    assert_eq!(case.looked_at().await, ["a/j"]);
    assert!(case.of("j").is_empty());
    Sink::<SlimExternalSecret>::delete(case.watched.as_ref(), &Key::new("a", "k-y"), "y");
    assert_eq!(case.looked_at().await, ["a/k"]);
    assert!(case.of("k").is_empty());
}

#[tokio::test(start_paused = true)]
async fn whether_the_cluster_knows_the_kind_is_news_to_jobs_with_stores_alone() {
    let case = Case::new();
    case.jobs(&[("a", "plain", &[])]).await;
    let store = json!({"kind": "SecretStore", "name": "vault"});
    let stored: TrainingJob = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "stored", "namespace": "a", "uid": "u"},
        "spec": {"taskGroups": [], "secrets": [{"name": "x", "store": store, "data": {"k": "p"}}]},
    }));
    case.watched.apply(Key::of(stored.meta()), stored);
    case.sync();
    case.looked_at().await;
    let sink = || case.watched.as_ref();
    assert!(!case.context.cache.external_secrets.is_known());
    Sink::<SlimExternalSecret>::synced(sink());
    assert_eq!(case.looked_at().await, ["a/stored"]);
    assert!(case.context.cache.external_secrets.is_known());
    Sink::<SlimExternalSecret>::synced(sink());
    assert!(case.looked_at().await.is_empty());
    Sink::<SlimExternalSecret>::unknown(sink());
    assert_eq!(case.looked_at().await, ["a/stored"]);
}
