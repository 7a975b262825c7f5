//! Rendering the chart twice gives the same objects, and these equal the plain files.

pub(super) mod golden;
pub(super) mod labels;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use trellis_e2e::helm::{Helm, chart_folder};

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

pub(crate) fn test_plain_files(helm: &Helm) -> Result<()> {
    let rendered = helm.render_objects(OTHER_NAMESPACE, &json!({}))?;
    let rendered: BTreeMap<String, Value> = rendered
        .into_iter()
        .map(|object| (object_key(&object), without_chart_metadata(object)))
        .collect();
    let folder = chart_folder().join("files");
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
        found += compare_with_file(&rendered, &folder.join(format!("{name}.yaml")))?;
    }
    for file in folder.join("crds").read_dir()? {
        found += compare_with_file(&rendered, &file?.path())?;
    }
    ensure!(found > 25, "only {found} objects");
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
