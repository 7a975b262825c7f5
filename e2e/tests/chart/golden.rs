//! All rendered objects, compared with a reviewed copy, so that each change of them shows in
//! review.

use anyhow::{Result, ensure};
use serde_json::json;
use trellis_e2e::helm::Helm;

use crate::scene::{NAMESPACE, everything};

/// Templates of plain files, which stand on their own, and are compared: the head is enough.
const PLAIN: [&str; 7] = [
    "admission",
    "crds",
    "dashboard",
    "defaults",
    "prometheusrule",
    "rbac",
    "roles",
];

pub(crate) fn rendered(helm: &Helm) -> Result<()> {
    for (name, values) in [("default", json!({})), ("everything", everything())] {
        let text = helm.chart("template", NAMESPACE, &values, &[])?;
        let objects: Vec<String> = text.split("---\n").map(shown).collect();
        ensure!(objects.len() > 30, "only {} objects", objects.len());
        // The version is in each.
        let text = objects
            .join("")
            .replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(name, text);
    }
    Ok(())
}

fn shown(object: &str) -> String {
    if object.trim().is_empty() {
        return String::new();
    }
    let is_plain = PLAIN.iter().any(|template| {
        let source = format!("# Source: trellis/templates/{template}.yaml\n");
        object.starts_with(&source)
    });
    match is_plain {
        true => format!("---\n{}  ...\n", head(object)),
        false => format!("---\n{object}"),
    }
}

/// As far as its metadata go.
fn head(object: &str) -> String {
    let is_head = |line: &&str| {
        let of_head = ["# Source", "apiVersion:", "kind:", "metadata:", "  "];
        let name = line.split(' ').next().unwrap_or_default();
        of_head.iter().any(|start| line.starts_with(start)) || name == "#"
    };
    let lines = object.lines().take_while(is_head);
    lines.map(|line| format!("{line}\n")).collect()
}
