//! Rendering the chart twice gives the same objects, and these equal the plain files.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use trellis_e2e::helm::{Helm, chart};

use crate::scene::{NAMESPACE, called, everything};

pub(crate) fn lint(helm: &Helm) -> Result<()> {
    let chart = chart().display().to_string();
    helm.ok(&["lint", "--strict", &chart])?;
    let about = helm.ok(&["show", "chart", &chart])?;
    let about: Value = serde_saphyr::from_str(&about)?;
    let version = env!("CARGO_PKG_VERSION");
    ensure!(about["version"] == version && about["appVersion"] == version);
    Ok(())
}

pub(crate) fn twice(helm: &Helm) -> Result<()> {
    for values in [json!({}), everything()] {
        let render = || helm.chart("template", NAMESPACE, &values, &[]);
        let first = render()?;
        ensure!(first == render()?, "twice is not the same: {values}");
        // An upgrade renders the same objects: nothing depends on the state of a cluster.
        let upgrade = helm.chart("template", NAMESPACE, &values, &["--is-upgrade"])?;
        ensure!(first == upgrade, "an upgrade is not the same: {values}");
    }
    Ok(())
}

/// Removes what the chart adds to the plain files: labels and annotations.
fn bare(mut object: Value) -> Value {
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

pub(crate) fn files(helm: &Helm) -> Result<()> {
    let rendered = helm.objects(NAMESPACE, &json!({}))?;
    let rendered: BTreeMap<String, Value> = rendered
        .into_iter()
        .map(|object| (called(&object), bare(object)))
        .collect();
    let folder = chart().join("files");
    let mut found = 0;
    for name in [
        "rbac",
        "rbac-visibility",
        "rbac-endpoint",
        "rbac-webhook",
        "visibility",
        "admission",
        "webhook",
        "queue",
        "policies",
        "roles",
    ] {
        found += compare(&rendered, &folder.join(format!("{name}.yaml")))?;
    }
    for file in folder.join("crds").read_dir()? {
        found += compare(&rendered, &file?.path())?;
    }
    ensure!(found > 25, "only {found} objects");
    Ok(())
}

/// Checks that each object of a file is rendered unchanged.
fn compare(rendered: &BTreeMap<String, Value>, file: &Path) -> Result<usize> {
    let text = std::fs::read_to_string(file)?;
    let text = text.replace(
        "namespace: trellis-system",
        &format!("namespace: {NAMESPACE}"),
    );
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    for object in &objects {
        let name = called(object);
        let same = rendered
            .get(&name)
            .with_context(|| format!("{name} is not rendered"))?;
        ensure!(*same == bare(object.clone()), "{name}: {same:#}");
    }
    Ok(objects.len())
}
