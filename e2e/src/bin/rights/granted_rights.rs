//! The rights that the chart's files grant the operator.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use trellis_api::document;

use crate::Right;

/// The roles of the operator. The roles of users are in other files.
const ROLE_FILES: [&str; 6] = [
    "rbac.yaml",
    "rbac-provisioning.yaml",
    "rbac-secrets.yaml",
    "rbac-visibility.yaml",
    "rbac-endpoint.yaml",
    "rbac-webhook.yaml",
];

pub(super) fn read_granted_rights() -> Result<BTreeSet<Right>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/trellis/files");
    let mut rights = BTreeSet::new();
    for file in ROLE_FILES {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("{path:?}"))?;
        for object in document::split(&text)? {
            let object: Value = object.decode()?;
            for rule in object["rules"].as_array().into_iter().flatten() {
                add_rule(rule, &mut rights);
            }
        }
    }
    ensure!(!rights.is_empty(), "no role of {folder:?} has rules");
    Ok(rights)
}

fn add_rule(rule: &Value, rights: &mut BTreeSet<Right>) {
    let words = |field: &str| {
        let all = rule[field].as_array().cloned().unwrap_or_default();
        all.iter()
            .filter_map(|w| w.as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    for group in words("apiGroups") {
        for resource in words("resources") {
            for verb in words("verbs") {
                rights.insert((group.clone(), resource.clone(), verb));
            }
        }
    }
}
