//! All YAML in the documentation is valid: the API server accepts objects, the chart accepts
//! values, and Trellis accepts parts of jobs.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use trellis_api::visibility::{Forecast, Plan};
use trellis_api::{TrainingJob, document};
use trellis_e2e::admission::dry_run::dry_run;
use trellis_e2e::helm::{Helm, chart_folder};
use trellis_e2e::operator::NAMESPACE;
use trellis_e2e::site::namespace::TestNamespace;

use super::{
    blocks, document_files, example_files, files_below, repository_root, shared_control_plane,
};

/// API groups that this API server does not have. Other tests read their objects: the tests of the
/// import, of Argo CD with Kustomize, of `trellis verify` with an audit policy, and with Karpenter.
const EXTERNAL_GROUPS: [&str; 6] = [
    "kueue.x-k8s.io/",
    "batch.volcano.sh/",
    "argoproj.io/",
    "kustomize.config.k8s.io/",
    "audit.k8s.io/",
    "karpenter.sh/",
];

/// The kind of a YAML document.
#[derive(Debug)]
enum YamlDocument {
    /// An object for the API server.
    Object(Box<DynamicObject>),
    /// Values of the chart.
    Values(Value),
    /// A part of a job.
    Job(Value),
    /// Other tests read the document.
    TestedElsewhere,
}

fn parse_documents(text: &str) -> Result<Vec<YamlDocument>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    let documents = documents.into_iter().filter(|d| !d.is_null());
    let all: Result<Vec<YamlDocument>> = documents
        .map(|document| classify_document(document, text))
        .collect();
    let all = all?;
    ensure!(!all.is_empty(), "the document is empty");
    Ok(all)
}

/// Checks a job in a Plan, which may omit its version.
fn check_planned_job(mut job: Value) -> Result<()> {
    job["apiVersion"] = json!("trellis.dev/v1alpha1");
    for document in document::split(&job.to_string())? {
        document.decode_valid::<TrainingJob>()?;
    }
    Ok(())
}

fn classify_document(document: Value, text: &str) -> Result<YamlDocument> {
    if let Some(version) = document["apiVersion"].as_str() {
        if version.starts_with("visibility.trellis.dev/") {
            // No control plane of this test serves the group. The tests of visibility ask it.
            if document["kind"] == "Plan" {
                let plan: Plan = serde_json::from_value(document)?;
                plan.spec.jobs.into_iter().try_for_each(check_planned_job)?;
            } else {
                serde_json::from_value::<Forecast>(document)?;
            }
            return Ok(YamlDocument::TestedElsewhere);
        }
        let kind = document["kind"].as_str();
        let is_trellis_kind = version.starts_with("trellis.dev/");
        // Files that `trellis simulate` and `trellis policy test` read. A Scenario may go unnamed.
        let is_file = is_trellis_kind && matches!(kind, None | Some("Scenario" | "PolicyTests"));
        if is_file
            || EXTERNAL_GROUPS
                .iter()
                .any(|group| version.starts_with(group))
        {
            return Ok(YamlDocument::TestedElsewhere);
        }
        return Ok(YamlDocument::Object(Box::new(serde_json::from_value(
            document,
        )?)));
    }
    // A file of docs/gitops. The tests of GitOps compare and deliver it.
    let named = text.lines().next().and_then(|line| line.strip_prefix("# "));
    if named.is_some_and(|file| repository_root().join("docs/gitops").join(file).is_file()) {
        return Ok(YamlDocument::TestedElsewhere);
    }
    let keys = document.as_object().context("no mapping")?.keys();
    let keys: BTreeSet<&str> = keys.map(String::as_str).collect();
    if keys.is_subset(&["taskGroups", "podTemplate"].into()) {
        return Ok(YamlDocument::Job(complete_job(document)?));
    }
    let values = std::fs::read_to_string(chart_folder().join("values.yaml"))?;
    let values: Value = serde_saphyr::from_str(&values)?;
    if keys.iter().all(|key| values.get(key).is_some()) {
        return Ok(YamlDocument::Values(document));
    }
    bail!("no kind has these keys: {keys:?}")
}

/// Returns a job with this part, and with defaults for other required fields.
fn complete_job(part: Value) -> Result<Value> {
    let minimal = json!({"name": "worker", "image": "registry.example/train:1.0",
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    let groups = match part.get("taskGroups") {
        Some(groups) => groups.as_array().context("no list")?.clone(),
        None => vec![part],
    };
    let groups: Vec<Value> = groups
        .into_iter()
        .map(|group| {
            let mut complete = minimal.clone();
            for (key, value) in group.as_object().into_iter().flatten() {
                complete[key] = value.clone();
            }
            complete
        })
        .collect();
    Ok(
        json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "part"}, "spec": {"taskGroups": groups}}),
    )
}

/// Reads a job as strictly as `trellis submit` does, including the fields below `podTemplate`.
fn check_strict_job(job: &Value) -> Result<()> {
    for document in document::split(&job.to_string())? {
        document.decode_valid::<TrainingJob>()?;
    }
    Ok(())
}

async fn check_rendered(values: Value) -> Result<()> {
    tokio::task::spawn_blocking(move || {
        let helm = Helm::find_or_build()?;
        let (plain, changed) = (
            helm.render_for_cluster(NAMESPACE, &json!({}))?,
            helm.render_for_cluster(NAMESPACE, &values)?,
        );
        // Otherwise the values equal the defaults of the chart, and the block is useless.
        ensure!(changed != plain, "the values equal the defaults");
        Ok(())
    })
    .await?
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_yaml_in_documents_and_examples_is_accepted() {
    let control_plane = shared_control_plane().await;
    let client = control_plane.client();
    let namespace = TestNamespace::create(control_plane, "dry").await.unwrap();
    let mut sources: Vec<(String, String)> = Vec::new();
    let policies = files_below(&repository_root().join("docs/policies"), &[".yaml"]).unwrap();
    for (path, text) in example_files().into_iter().chain(policies) {
        sources.push((path.display().to_string(), text));
    }
    for (path, text) in document_files() {
        for block in blocks::yaml_blocks(&text) {
            let place = format!("{} line {}", path.display(), block.line);
            sources.push((place, block.text));
        }
    }
    let mut wrong = Vec::new();
    // The documents contain objects, values and parts of jobs.
    let mut accepted = [0_usize; 3];
    for (place, text) in sources {
        let all = parse_documents(&text).unwrap_or_else(|error| panic!("{place}: {error:#}"));
        for yaml in all {
            let (kind, result) = match yaml {
                YamlDocument::Object(object) => {
                    let result = dry_run(&client, &object, Some(namespace.name()));
                    (0, result.await)
                }
                YamlDocument::Values(values) => (1, check_rendered(values).await),
                YamlDocument::Job(job) => (2, check_strict_job(&job)),
                YamlDocument::TestedElsewhere => continue,
            };
            accepted[kind] += 1;
            wrong.extend(result.err().map(|error| format!("{place}: {error:#}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(accepted[0] > example_files().len(), "only {accepted:?}");
    assert!(accepted[1] >= 1 && accepted[2] >= 2, "only {accepted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_yaml_is_rejected() {
    let control_plane = shared_control_plane().await;
    let client = control_plane.client();
    let namespace = TestNamespace::create(control_plane, "dry").await.unwrap();
    let (_, good) = example_files().pop_first().unwrap();
    let YamlDocument::Object(mut job) = parse_documents(&good).unwrap().remove(0) else {
        panic!("{good}");
    };
    let result = dry_run(&client, &job, Some(namespace.name())).await;
    result.unwrap();
    job.data["spec"]["taskGroups"][0]["gpu"] = json!(1);
    let error = dry_run(&client, &job, Some(namespace.name())).await;
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("gpu"), "{error}");
    // Objects of Kubernetes itself.
    let role =
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\nrule: []";
    let YamlDocument::Object(role) = parse_documents(role).unwrap().remove(0) else {
        panic!("{role}");
    };
    let error = dry_run(&client, &role, Some(namespace.name())).await;
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("rule"), "{error}");
    // A part of a job.
    for part in [
        "taskGroups: [{name: a, gpu: 1}]",
        "podTemplate: {spec: {volume: []}}",
    ] {
        let YamlDocument::Job(job) = parse_documents(part).unwrap().remove(0) else {
            panic!("{part}");
        };
        let error = format!("{:#}", check_strict_job(&job).unwrap_err());
        assert!(error.contains("gpu") || error.contains("volume"), "{error}");
    }
    // Values whose first key the chart knows.
    for part in ["metrics: {reader: []}", "metrics: {readers: []}"] {
        let YamlDocument::Values(values) = parse_documents(part).unwrap().remove(0) else {
            panic!("{part}");
        };
        check_rendered(values).await.unwrap_err();
    }
    let error = parse_documents("metric: {readers: []}").unwrap_err();
    assert!(error.to_string().contains("metric"), "{error}");
}
