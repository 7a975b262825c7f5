//! Plans of jobs, as kubectl asks for them.

use anyhow::ensure;
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::{VisibilityFixture, shared_fixture};

/// Asks with kubectl what happens to these jobs.
async fn ask(
    scene: &VisibilityFixture,
    site: &TestSite,
    kubeconfig: &std::path::Path,
    jobs: &[Value],
) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.json");
    let object = json!({"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "Plan",
        "spec": {"jobs": jobs}});
    std::fs::write(&file, object.to_string()).unwrap();
    let file = file.display().to_string();
    let arguments = ["create", "-n", site.name(), "-f", &file, "-o", "json"];
    scene.run_kubectl(kubeconfig, &arguments).await
}

/// Returns the nodes of the first task group in a planned job.
fn node_names(planned: &Value) -> Vec<&str> {
    let nodes = planned["taskGroups"][0]["nodes"].as_array();
    let nodes = nodes.into_iter().flatten();
    nodes.map(|on| on["node"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_who_may_edit_jobs_plans_them_and_gets_what_was_planned() {
    let scene = shared_fixture().await;
    let site = scene.create_site("planned", 2).await;
    scene.create_queue(&site, 32).await;
    let viewer = scene.viewer_kubeconfig(&site).await;
    let job = |name: &str, pods: u32| {
        let mut job = site.job(name, pods, 8);
        job["spec"]["queueName"] = json!(site.name());
        job
    };
    let (ok, output) = ask(scene, &site, &viewer, &[job("llm", 1)]).await;
    assert!(
        !ok && output.contains("cannot create resource \"plans\""),
        "{output}"
    );

    scene.grant_role(&site, "edit").await;
    let planned = async |jobs: &[Value]| {
        let answer = eventually(SOON, || async {
            let (ok, output) = ask(scene, &site, &viewer, jobs).await;
            ensure!(ok, "{output}");
            Ok(serde_json::from_str::<Value>(&output)?)
        });
        answer.await.unwrap()["status"]["jobs"].clone()
    };
    // Two jobs share the room. The user may not read nodes, so the answer has only their number.
    let jobs = planned(&[job("first", 1), job("second", 2)]).await;
    assert_eq!(jobs[0]["verdict"], "Runs", "{jobs}");
    assert_eq!(
        (&jobs[0]["nodes"], node_names(&jobs[0]).len()),
        (&json!(1), 0),
        "{jobs}"
    );
    assert_eq!(jobs[1]["verdict"], "Waits", "{jobs}");
    assert_eq!(jobs[1]["explanation"]["taskGroups"][0]["room"], 1, "{jobs}");
    let shape = &jobs[1]["smallerShapes"][0];
    assert_eq!(shape["field"], "spec.taskGroups[worker].replicas", "{jobs}");
    let (ok, stored) = scene
        .run_kubectl(&viewer, &["get", "tj", "-n", site.name()])
        .await;
    assert!(ok && stored.contains("No resources found"), "{stored}");

    // A user with the platform role also sees the nodes, and the job gets exactly these.
    scene.grant_platform_role(&site).await;
    let mut jobs = Value::Null;
    for _ in 0..30 {
        jobs = planned(&[job("llm", 1)]).await;
        if !node_names(&jobs[0]).is_empty() {
            break;
        }
    }
    let promised: Vec<String> = node_names(&jobs[0]).iter().map(|&n| n.to_owned()).collect();
    assert_eq!(promised.len(), 1, "{jobs}");
    site.create(job("llm", 1)).await.unwrap();
    site.wait_for_phase("llm", JobPhase::Running).await;
    let pods = site.list_pods("llm").await;
    let nodes: Vec<String> = pods
        .iter()
        .filter_map(|pod| pod.spec.clone()?.node_name)
        .collect();
    assert_eq!(nodes, promised);

    // The running job keeps its place, and a change of it may use its own nodes.
    let jobs = planned(&[job("llm", 1)]).await;
    assert_eq!(
        jobs[0]["notes"],
        json!(["it holds these nodes already"]),
        "{jobs}"
    );
    assert_eq!(node_names(&jobs[0]), promised);
    assert_eq!(planned(&[job("llm", 2)]).await[0]["verdict"], "Runs");
    let waits = planned(&[job("next", 2)]).await;
    assert_eq!(waits[0]["verdict"], "Waits", "{waits}");
    assert_eq!(waits[0]["smallerShapes"][0]["value"], "1", "{waits}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_question_is_refused_with_the_path_of_its_field() {
    let scene = shared_fixture().await;
    let site = scene.create_site("misplanned", 1).await;
    let viewer = scene.viewer_kubeconfig(&site).await;
    scene.grant_role(&site, "edit").await;
    let mut large = site.job("llm", 1, 8);
    large["spec"]["taskGroups"][0]["replicas"] = json!(5000);
    let mut unknown = site.job("llm", 1, 8);
    unknown["spec"]["taskGroups"][0]["replica"] = json!(2);
    let mut foreign = site.job("llm", 1, 8);
    foreign["metadata"]["namespace"] = json!("default");
    for (jobs, words) in [
        (vec![], "spec.jobs: has 0 jobs"),
        (
            vec![large],
            "spec.jobs[0].spec.taskGroups[0].replicas: must be 1 to 4096",
        ),
        (
            vec![unknown],
            "spec.jobs[0].spec.taskGroups[0].replica: is no known field",
        ),
        (
            vec![foreign],
            "spec.jobs[0].metadata.namespace: \"default\" is not the namespace",
        ),
        (
            vec![json!({"kind": "Pod", "apiVersion": "v1"})],
            "spec.jobs[0]: is a Pod of v1",
        ),
    ] {
        eventually(SOON, || async {
            let (ok, output) = ask(scene, &site, &viewer, &jobs).await;
            ensure!(!ok && output.contains(words), "{output}");
            Ok(())
        })
        .await
        .unwrap();
    }
    // kubectl knows the fields.
    let explained = ["explain", "plans.status.jobs.smallerShapes"];
    let (ok, output) = scene.run_kubectl(&viewer, &explained).await;
    assert!(ok && output.contains("value"), "{output}");
}
