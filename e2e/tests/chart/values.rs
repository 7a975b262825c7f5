//! values.yaml and its table in docs/install.md.

pub(super) mod effects;
pub(super) mod schema;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use trellis_e2e::helm::{Helm, chart_folder};

/// One value.
pub(crate) struct ValueRow {
    pub(crate) path: String,
    pub(crate) default: String,
    description: String,
}

/// Returns all values.
pub(crate) fn read_rows() -> Result<Vec<ValueRow>> {
    parse_rows(&std::fs::read_to_string(
        chart_folder().join("values.yaml"),
    )?)
}

/// Returns the values that fit on one line, with the comments above them.
fn parse_rows(text: &str) -> Result<Vec<ValueRow>> {
    let mut rows = Vec::new();
    let mut sections: Vec<(usize, &str)> = Vec::new();
    let mut comment = String::new();
    for line in text.lines() {
        let bare = line.trim_start();
        if bare.is_empty() {
            comment.clear();
        } else if let Some(comment_text) = bare.strip_prefix("# ") {
            comment = format!("{comment} {comment_text}").trim().to_owned();
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
            rows.push(ValueRow {
                path,
                default: value.trim().to_owned(),
                description: std::mem::take(&mut comment),
            });
        }
    }
    Ok(rows)
}

pub(crate) fn test_table_of_docs(_: &Helm) -> Result<()> {
    let rows = read_rows()?;
    ensure!(rows.len() > 30, "only {} values", rows.len());
    let mut table = String::from("| value | default | what |\n|---|---|---|\n");
    for ValueRow {
        path,
        default,
        description: what,
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
