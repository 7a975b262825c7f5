//! Compares all rendered objects with a reviewed copy, so that a review shows each change.

use anyhow::{Result, ensure};
use serde_json::json;
use trellis_e2e::helm::Helm;

use crate::fixtures::{OTHER_NAMESPACE, all_enabled_values};

/// Templates of plain files. Another test compares these files, so the golden file only has their
/// heads.
const PLAIN_TEMPLATES: [&str; 7] = [
    "admission",
    "crds",
    "dashboard",
    "defaults",
    "prometheusrule",
    "rbac",
    "roles",
];

pub(crate) fn test_rendered_objects(helm: &Helm) -> Result<()> {
    for (name, values) in [("default", json!({})), ("everything", all_enabled_values())] {
        let text = helm.run_chart_command("template", OTHER_NAMESPACE, &values, &[])?;
        let objects: Vec<String> = text.split("---\n").map(snapshot_text).collect();
        ensure!(objects.len() > 30, "only {} objects", objects.len());
        // Each object contains the version.
        let text = objects
            .join("")
            .replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(name, text);
    }
    Ok(())
}

fn snapshot_text(object: &str) -> String {
    if object.trim().is_empty() {
        return String::new();
    }
    let is_plain = PLAIN_TEMPLATES.iter().any(|template| {
        let source = format!("# Source: trellis/templates/{template}.yaml\n");
        object.starts_with(&source)
    });
    match is_plain {
        true => format!("---\n{}  ...\n", metadata_head(object)),
        false => format!("---\n{object}"),
    }
}

/// Returns an object up to its metadata.
fn metadata_head(object: &str) -> String {
    let is_head = |line: &&str| {
        let of_head = ["# Source", "apiVersion:", "kind:", "metadata:", "  "];
        let name = line.split(' ').next().unwrap_or_default();
        of_head.iter().any(|start| line.starts_with(start)) || name == "#"
    };
    let lines = object.lines().take_while(is_head);
    lines.map(|line| format!("{line}\n")).collect()
}
