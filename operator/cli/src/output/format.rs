//! Serializes objects for scripts.

use anyhow::Context as _;
use serde::Serialize;
use trellis_api::document::to_yaml;

/// Output formats.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
    /// As a table with more columns.
    Wide,
}

/// Serializes an object for scripts. Returns None if the format is for people.
///
/// # Errors
/// If the object cannot be serialized.
pub fn serialize_object(
    format: Option<OutputFormat>,
    object: &impl Serialize,
) -> anyhow::Result<Option<String>> {
    Ok(match format {
        Some(OutputFormat::Json) => {
            let mut text = serde_json::to_string_pretty(object).context("as JSON")?;
            text.push('\n');
            Some(text)
        }
        Some(OutputFormat::Yaml) => Some(to_yaml(object).context("as YAML")?),
        Some(OutputFormat::Wide) | None => None,
    })
}
