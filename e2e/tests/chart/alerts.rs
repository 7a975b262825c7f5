//! Alerts and dashboard ask for what there is.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use trellis_e2e::helm::{Helm, chart};

pub(crate) fn names(_: &Helm) -> Result<()> {
    let table = trellis::telemetry::markdown();
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = std::fs::read_to_string(chart().join("files").join(file))?;
        let asked = metrics(&text);
        ensure!(asked.len() > 5, "{file}: {asked:?}");
        for metric in asked {
            // Of a histogram it is its buckets that are asked for.
            let name = metric.trim_end_matches("_bucket");
            let is_there = table.contains(&format!("`{name}`"));
            ensure!(is_there, "{file}: nobody tells {metric}");
        }
    }
    Ok(())
}

fn metrics(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("trellis_"))
        .collect()
}
