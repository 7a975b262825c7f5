//! Forecasts after changes of the cluster, as kubectl asks for them.

use anyhow::ensure;
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::shared_fixture;

/// Writes a question into a file, and returns the arguments of kubectl that ask it.
fn question(folder: &std::path::Path, changes: &Value) -> Vec<String> {
    let file = folder.join("forecast.json");
    let object = json!({"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "Forecast",
        "spec": {"changes": changes}});
    std::fs::write(&file, object.to_string()).unwrap();
    let file = file.display().to_string();
    ["create", "-f", &file, "-o", "json"]
        .map(str::to_owned)
        .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_asks_for_forecasts_with_the_right_to_create_them() {
    let scene = shared_fixture().await;
    let site = scene.create_site("asked", 1).await;
    scene.create_queue(&site, 8).await;
    for (name, phase) in [("runs", JobPhase::Running), ("waits", JobPhase::Queued)] {
        let mut job = site.job(name, 1, 8);
        job["spec"]["queueName"] = json!(site.name());
        site.create(job).await.unwrap();
        site.wait_for_phase(name, phase).await;
    }
    let node = site.nodes().names()[0].clone();
    let more_quota = json!({"changeQueue": {"name": site.name(),
        "quotas": [{"resource": "nvidia.com/gpu", "nominal": "16"}]}});
    let changes = json!([{"addNodes": {"like": node, "count": 1}}, more_quota]);
    let folder = tempfile::tempdir().unwrap();
    let asked = question(folder.path(), &changes);
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();

    let viewer = scene.viewer_kubeconfig(&site).await;
    let (ok, output) = scene.run_kubectl(&viewer, &asked).await;
    assert!(
        !ok && output.contains("cannot create resource \"forecasts\""),
        "{output}"
    );

    // A user with the platform role may ask.
    scene.grant_platform_role(&site).await;
    let ask = async |changes: &Value| {
        let asked = question(folder.path(), changes);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        scene.run_kubectl(&viewer, &asked).await
    };
    // Other tests of this control plane start and end jobs all the time.
    let moved = |answer: &Value, name: &str| {
        let jobs = answer["status"]["jobs"].as_array().unwrap();
        let own = |job: &&Value| job["namespace"] == site.name() && job["name"] == name;
        jobs.iter().find(own).cloned().unwrap_or_default()
    };
    let answer = eventually(SOON, || async {
        let (ok, output) = ask(&changes).await;
        ensure!(ok, "{output}");
        let answer: Value = serde_json::from_str(&output)?;
        ensure!(moved(&answer, "waits")["effect"] == "Earlier", "{answer}");
        Ok(answer)
    });
    let answer = answer.await.unwrap();
    let waits = moved(&answer, "waits");
    assert_eq!(
        waits["before"]["start"],
        Value::Null,
        "the other has no known end: {waits}"
    );
    assert_eq!(waits["after"]["start"], answer["status"]["time"], "{waits}");
    assert_eq!(
        (&waits["queue"], &waits["gpus"]),
        (&json!(site.name()), &json!(8))
    );
    assert_eq!(moved(&answer, "runs"), Value::Null, "it does not move");

    // A removed node stops its job, and nothing in the cluster changes.
    let (ok, output) = ask(&json!([{"removeNode": {"name": node}}])).await;
    assert!(ok, "{output}");
    let answer: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(moved(&answer, "runs")["effect"], "Stops", "{answer}");
    site.wait_for_phase("runs", JobPhase::Running).await;

    for (changes, words) in [
        (
            json!([{"removeNode": {"name": "none"}}]),
            "spec.changes[0].removeNode.name: no node is named \"none\"",
        ),
        (
            json!([{"removeNode": {"nome": "none"}}]),
            "unknown field `nome`",
        ),
        (json!([{"explode": {}}]), "unknown variant `explode`"),
    ] {
        let (ok, output) = ask(&changes).await;
        assert!(!ok && output.contains(words), "{output}");
    }
    // kubectl knows the fields.
    let explained = ["explain", "forecasts.spec.changes"];
    let (ok, output) = scene.run_kubectl(&viewer, &explained).await;
    assert!(ok && output.contains("addNodes"), "{output}");
}
