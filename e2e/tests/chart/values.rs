//! values.yaml and its table in docs/install.md.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use trellis_e2e::helm::{Helm, chart};

/// One value.
pub(crate) struct Row {
    pub(crate) path: String,
    pub(crate) default: String,
    what: String,
}

/// All that there are.
pub(crate) fn all() -> Result<Vec<Row>> {
    rows(&std::fs::read_to_string(chart().join("values.yaml"))?)
}

/// The values that are on one line each, with the comment above them.
fn rows(text: &str) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut sections: Vec<(usize, &str)> = Vec::new();
    let mut comment = String::new();
    for line in text.lines() {
        let bare = line.trim_start();
        if bare.is_empty() {
            comment.clear();
        } else if let Some(said) = bare.strip_prefix("# ") {
            comment = format!("{comment} {said}").trim().to_owned();
        } else {
            let indent = line.len() - bare.len();
            sections.retain(|(deep, _)| *deep < indent);
            let (key, value) = bare.split_once(':').context(line.to_owned())?;
            if value.is_empty() {
                ensure!(comment.is_empty(), "{key} is a section, and has a comment");
                sections.push((indent, key));
                continue;
            }
            let path: Vec<&str> = sections.iter().map(|(_, key)| *key).chain([key]).collect();
            let path = path.join(".");
            ensure!(!comment.is_empty(), "{path} has no comment");
            ensure!(!comment.contains('|'), "{path}: {comment}");
            rows.push(Row {
                path,
                default: value.trim().to_owned(),
                what: std::mem::take(&mut comment),
            });
        }
    }
    Ok(rows)
}

pub(crate) fn table(_: &Helm) -> Result<()> {
    let rows = all()?;
    ensure!(rows.len() > 30, "only {} values", rows.len());
    let mut table = String::from("| value | default | what |\n|---|---|---|\n");
    for Row {
        path,
        default,
        what,
    } in rows
    {
        table.push_str(&format!("| `{path}` | `{default}` | {what} |\n"));
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/install.md");
    let docs = std::fs::read_to_string(docs)?;
    ensure!(
        docs.contains(&table),
        "docs/install.md should have:\n{table}"
    );
    Ok(())
}
