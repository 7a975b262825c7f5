//! Rendering the chart twice gives the same objects, and these equal the plain files.

pub(super) mod golden;
pub(super) mod labels;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use trellis_e2e::binaries::KubernetesVersion;
use trellis_e2e::helm::{Helm, chart_folder};
use trellis_e2e::operator;

use crate::fixtures::{OTHER_NAMESPACE, all_enabled_values, object_key};

pub(crate) fn test_lint(helm: &Helm) -> Result<()> {
    let chart = chart_folder().display().to_string();
    helm.run_ok(&["lint", "--strict", &chart])?;
    let about = helm.run_ok(&["show", "chart", &chart])?;
    let about: Value = serde_saphyr::from_str(&about)?;
    let version = env!("CARGO_PKG_VERSION");
    ensure!(about["version"] == version && about["appVersion"] == version);
    Ok(())
}

pub(crate) fn test_repeated_rendering(helm: &Helm) -> Result<()> {
    for values in [json!({}), all_enabled_values()] {
        let render = || helm.run_chart_command("template", OTHER_NAMESPACE, &values, &[]);
        let first = render()?;
        ensure!(first == render()?, "two renderings differ: {values}");
        // An upgrade renders the same objects, because no template depends on the state of a
        // cluster.
        let upgrade =
            helm.run_chart_command("template", OTHER_NAMESPACE, &values, &["--is-upgrade"])?;
        ensure!(
            first == upgrade,
            "an upgrade renders other objects: {values}"
        );
    }
    Ok(())
}

/// Removes the labels and annotations that the chart adds to the plain files.
fn without_chart_metadata(mut object: Value) -> Value {
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("annotations");
        let labels = meta.get_mut("labels").and_then(Value::as_object_mut);
        if let Some(labels) = labels {
            labels.retain(|key, _| key.starts_with("rbac."));
            if labels.is_empty() {
                meta.remove("labels");
            }
        }
    }
    object
}

fn rendered_by_name(helm: &Helm, values: &Value) -> Result<BTreeMap<String, Value>> {
    let rendered = helm.render_objects(OTHER_NAMESPACE, values)?;
    let by_name = |object| (object_key(&object), without_chart_metadata(object));
    Ok(rendered.into_iter().map(by_name).collect())
}

/// The chart chooses what writes the requester stamp by the version of the cluster.
pub(crate) fn test_requester_stamp(helm: &Helm) -> Result<()> {
    let writers = |values: Value, flags: &[&str]| -> Result<Vec<String>> {
        let text = helm.run_chart_command("template", OTHER_NAMESPACE, &values, flags)?;
        let kinds = text.lines().filter_map(|line| line.strip_prefix("kind: "));
        let kinds = kinds.filter(|kind| kind.starts_with("Mutating"));
        Ok(kinds.map(str::to_owned).collect())
    };
    let stamp = |by: &str| json!({"admission": {"requesterStamp": by}});
    let policy = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"];
    let webhook = ["MutatingWebhookConfiguration"];
    let (old, new) = ("--kube-version=v1.35.2-gke.100", "--kube-version=1.36.0");
    // A cluster names all its kinds, as Helm and Argo CD pass them on.
    let lacks_kind: &[&str] = &[new, "--api-versions=v1/Pod"];
    let cases: [(Value, &[&str], &[&str]); 7] = [
        (json!({}), &[new], &policy),
        (json!({}), &[old], &webhook),
        (json!({}), lacks_kind, &webhook),
        (json!({"webhook": {"enabled": false}}), &[old], &[]),
        (stamp("webhook"), &[new], &webhook),
        (stamp("policy"), &[new], &policy),
        (stamp("none"), &[new], &[]),
    ];
    for (values, flags, expected) in cases {
        let found = writers(values.clone(), flags)?;
        ensure!(found == expected, "{values} {flags:?}: {found:?}");
    }
    for (values, flags, message) in [
        (
            stamp("policy"),
            [old],
            "admission.requesterStamp=policy needs MutatingAdmissionPolicy in v1",
        ),
        (
            json!({"admission": {"requesterStamp": "webhook"}, "webhook": {"enabled": false}}),
            [new],
            "admission.requesterStamp=webhook needs the webhook; set webhook.enabled to true",
        ),
        (
            json!({}),
            ["--kube-version=1.32.9"],
            "chart requires kubeVersion: >=1.33.0-0",
        ),
    ] {
        let Err(error) = writers(values.clone(), &flags) else {
            anyhow::bail!("{values} is accepted");
        };
        ensure!(error.to_string().contains(message), "{error:#}");
    }
    Ok(())
}

/// The end-to-end tests on Kubernetes 1.33 install CRDs as the chart renders them for it.
pub(crate) fn test_crds_of_1_33(helm: &Helm) -> Result<()> {
    let version = KubernetesVersion::V1_33;
    let flags = [
        "--show-only=templates/crds.yaml",
        &format!("--kube-version={}", version.release()),
    ];
    let text = helm.run_chart_command("template", OTHER_NAMESPACE, &json!({}), &flags)?;
    let rendered: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    let rendered = rendered.into_iter().map(without_chart_metadata);
    let rendered: Vec<Value> = rendered.collect();
    let installed = operator::chart_crds(version)?;
    ensure!(rendered.len() == installed.len(), "{}", rendered.len());
    let mut changed = 0;
    for crd in &installed {
        let crd = without_chart_metadata(serde_saphyr::from_str(crd)?);
        ensure!(
            rendered.contains(&crd),
            "{} differs",
            crd["metadata"]["name"]
        );
        changed += crd.to_string().matches("\"rule\":\"true\"").count();
        let mut rules = cel_rules(&crd).into_iter();
        let costly = rules.find(|rule| rule.contains(".all(") && rule.contains("uantity("));
        ensure!(
            costly.is_none(),
            "its cost exceeds the budget of 1.33: {costly:?}"
        );
    }
    ensure!(changed == 7, "{changed} rules hold always");
    Ok(())
}

/// Returns the CEL rules of a CRD.
fn cel_rules(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(values) => values.iter().flat_map(cel_rules).collect(),
        Value::Object(fields) => {
            let own = fields.get("rule").and_then(Value::as_str);
            let nested = fields.values().flat_map(cel_rules);
            own.into_iter().chain(nested).collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn test_plain_files(helm: &Helm) -> Result<()> {
    let rendered = rendered_by_name(helm, &json!({}))?;
    let folder = chart_folder().join("files");
    let mut found = 0;
    for name in [
        "rbac",
        "rbac-visibility",
        "rbac-endpoint",
        "rbac-webhook",
        "visibility",
        "admission",
        "requester-policy",
        "webhook",
        "queue",
        "policies",
        "roles",
    ] {
        found += compare_with_file(&rendered, &folder.join(format!("{name}.yaml")))?;
    }
    for file in folder.join("crds").read_dir()? {
        found += compare_with_file(&rendered, &file?.path())?;
    }
    ensure!(found > 25, "only {found} objects");
    let values = json!({"admission": {"requesterStamp": "webhook"}});
    let rendered = rendered_by_name(helm, &values)?;
    compare_with_file(&rendered, &folder.join("requester-webhook.yaml"))?;
    let policy = "MutatingAdmissionPolicy /trellis-requested-by";
    ensure!(!rendered.contains_key(policy), "two parts write the stamp");
    Ok(())
}

/// Checks that each object of a file is rendered unchanged.
fn compare_with_file(rendered: &BTreeMap<String, Value>, file: &Path) -> Result<usize> {
    let text = std::fs::read_to_string(file)?;
    let text = text.replace(
        "namespace: trellis-system",
        &format!("namespace: {OTHER_NAMESPACE}"),
    );
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    for object in &objects {
        let name = object_key(object);
        let counterpart = rendered
            .get(&name)
            .with_context(|| format!("{name} is not rendered"))?;
        ensure!(
            *counterpart == without_chart_metadata(object.clone()),
            "{name}: {counterpart:#}"
        );
    }
    Ok(objects.len())
}
