//! The API server and the library refuse a broken rule with the same message.

use serde_json::{Value, json};
use trellis_api::rules::{SECRET_DATA, SECRET_NAME, SECRET_REFRESH, SECRET_SOURCE};
use trellis_api::{TrainingJob, ValidatedJob};

use super::{create_site, job_with_secret, secret_entry};

#[tokio::test]
async fn api_server_and_library_refuse_invalid_secrets_alike() {
    let site = create_site("refused").await;
    let good = || secret_entry(&site, json!({"k": "ml/wandb"}));
    let job_with = |key: &str, value: Value| {
        let mut secret = good();
        match value {
            Value::Null => drop(secret.as_object_mut().unwrap().remove(key)),
            value => secret[key] = value,
        }
        json!([secret])
    };
    let data = |key: &str, path: &str| job_with("data", json!({key: path}));
    let cases = [
        (job_with("name", json!("Wandb")), SECRET_NAME.message()),
        (job_with("name", json!("a".repeat(64))), "63"),
        (job_with("data", Value::Null), SECRET_SOURCE.message()),
        (job_with("store", Value::Null), SECRET_SOURCE.message()),
        (
            json!([{"name": "a", "refreshSeconds": 60}]),
            SECRET_SOURCE.message(),
        ),
        (data("a b", "ml/wandb"), SECRET_DATA.message()),
        (data("..", "ml/wandb"), SECRET_DATA.message()),
        (data("k", ""), SECRET_DATA.message()),
        (data("k", "#token"), SECRET_DATA.message()),
        (data("k", "ml/wandb#"), SECRET_DATA.message()),
        (data("k", "ml/\u{7}"), SECRET_DATA.message()),
        (data("k", "ml/../hr/pay"), SECRET_DATA.message()),
        (data("k", "./ml"), SECRET_DATA.message()),
        (data("k", "ml/..#token"), SECRET_DATA.message()),
        (data("k", "ml//wandb"), SECRET_DATA.message()),
        (data("k", "ml/"), SECRET_DATA.message()),
        (data("k", "//ml"), SECRET_DATA.message()),
        (
            job_with("refreshSeconds", json!(59)),
            SECRET_REFRESH.message(),
        ),
    ];
    for (secrets, words) in cases {
        let mut object = job_with_secret(&site);
        object["metadata"]["name"] = json!("refused");
        object["spec"]["secrets"] = secrets.clone();
        let refused = site
            .create(object.clone())
            .await
            .expect_err(words)
            .to_string();
        assert!(refused.contains(words), "{secrets}: {refused}");
        let object: TrainingJob = serde_json::from_value(object).unwrap();
        let library_error = ValidatedJob::try_from(object).expect_err(words).to_string();
        assert!(library_error.contains(words), "{secrets}: {library_error}");
        assert!(
            library_error.contains("spec.secrets[0]"),
            "{secrets}: {library_error}"
        );
    }
    // Both accept valid Secrets.
    for secrets in [
        json!([good()]),
        json!([{"name": "there-before"}]),
        json!([secret_entry(&site, json!({"k": "/prod/..db/x.y#a..b"}))]),
        json!([secret_entry(
            &site,
            json!({"a.b_c-1": "a b/c:d#users.0.x#y"})
        )]),
    ] {
        let mut object = job_with_secret(&site);
        object["metadata"] = json!({"generateName": "good-"});
        object["spec"]["secrets"] = secrets.clone();
        let job = site.create(object).await.unwrap();
        assert!(ValidatedJob::try_from(job).is_ok(), "{secrets}");
    }
}
