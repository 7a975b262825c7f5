//! Objects for scripts.

use anyhow::Context as _;
use serde::Serialize;
use trellis_api::document::to_yaml;

/// How something is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
    /// As a table with more columns.
    Wide,
}

/// An object for scripts. None: the format is for people.
///
/// # Errors
/// If it cannot be written so.
pub fn object(format: Option<Format>, object: &impl Serialize) -> anyhow::Result<Option<String>> {
    Ok(match format {
        Some(Format::Json) => {
            let mut text = serde_json::to_string_pretty(object).context("as JSON")?;
            text.push('\n');
            Some(text)
        }
        Some(Format::Yaml) => Some(to_yaml(object).context("as YAML")?),
        Some(Format::Wide) | None => None,
    })
}
