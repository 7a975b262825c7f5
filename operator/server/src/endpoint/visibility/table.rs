//! Objects as kubectl prints them: the server defines the columns (Table of meta.k8s.io/v1).

use jiff::Timestamp;
use kube::api::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};
use trellis_api::visibility::ServedResource;

use super::watch::Version;
use crate::callers::Failure;

/// Format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    /// Objects as JSON.
    Json,
    /// A table, with this part of each object in its row.
    Table(Include),
}

/// Part of the object in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Include {
    /// Nothing.
    None,
    /// The metadata.
    Metadata,
    /// The whole object.
    Object,
}

impl Format {
    /// Returns the first supported format of an Accept header. An empty header accepts JSON. None:
    /// no format in it is supported.
    pub(super) fn from_accept(header: &str, include: Include) -> Option<Self> {
        if header.trim().is_empty() {
            return Some(Self::Json);
        }
        header.split(',').find_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            if !matches!(kind, "application/json" | "application/*" | "*/*") {
                return None;
            }
            let of = |key: &str| {
                let mut parts = parts.clone();
                parts.find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
            };
            match (of("as"), of("g"), of("v")) {
                (None, ..) => Some(Self::Json),
                (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Some(Self::Table(include)),
                _ => None,
            }
        })
    }

    /// Content type of the format.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Table(_) => "application/json;as=Table;g=meta.k8s.io;v=v1",
        }
    }
}

/// Column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// Header of the column.
    pub(super) name: &'static str,
    /// `string` or `integer`.
    pub(super) kind: &'static str,
    /// Description of the column.
    pub(super) description: &'static str,
    /// Shown only with `-o wide`.
    pub(super) wide: bool,
}

impl Column {
    /// Returns a column of text.
    pub(super) const fn text(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            kind: "string",
            description: about,
            wide: false,
        }
    }

    /// Returns a column of numbers.
    pub(super) const fn number(name: &'static str, about: &'static str) -> Self {
        Self {
            kind: "integer",
            ..Self::text(name, about)
        }
    }

    /// Returns the same column, shown only with `-o wide`.
    pub(super) const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }
}

/// An object that is also a row of a table.
pub(super) trait TableRow: Serialize {
    /// The resource that serves the object.
    const SERVED: &'static ServedResource;
    /// Message if no object has the requested name.
    const ABSENT: &'static str;
    /// Columns of the table.
    const COLUMNS: &'static [Column];

    /// Returns the name and namespace of the object.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns the metadata, to set the version of the object.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// One cell for each column.
    fn cells(&self, now: Timestamp) -> Vec<Value>;
}

/// Returns a table of these rows, whose list has this version.
pub(super) fn render_table<'r, T: TableRow + 'r>(
    rows: impl Iterator<Item = &'r T>,
    include: Include,
    now: Timestamp,
    version: Version,
) -> Result<Value, Failure> {
    let columns = T::COLUMNS.iter().map(|column| {
        json!({
            "name": column.name, "type": column.kind, "format": if column.name == "Name" { "name" } else { "" },
            "description": column.description, "priority": i32::from(column.wide),
        })
    });
    let columns: Vec<Value> = columns.collect();
    let rows = rows.map(|row| {
        let object = match include {
            Include::None => Value::Null,
            Include::Metadata => json!({"kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1", "metadata": row.metadata()}),
            Include::Object => serde_json::to_value(row).map_err(|_| Failure::unavailable())?,
        };
        Ok(json!({"cells": row.cells(now), "object": object}))
    });
    let rows: Vec<Value> = rows.collect::<Result<_, Failure>>()?;
    let version = version.to_string();
    Ok(
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": version},
        "columnDefinitions": columns, "rows": rows}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_supported_format_is_chosen() {
        let table = Some(Format::Table(Include::None));
        for (header, expected) in [
            ("", Some(Format::Json)),
            ("*/*", Some(Format::Json)),
            ("application/json", Some(Format::Json)),
            ("application/json;as=Table;g=meta.k8s.io;v=v1", table),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json;as=Table;v=v1;g=meta.k8s.io",
                table,
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                Some(Format::Json),
            ),
            ("application/vnd.kubernetes.protobuf", None),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some(Format::Json),
            ),
        ] {
            assert_eq!(
                Format::from_accept(header, Include::None),
                expected,
                "{header}"
            );
        }
    }
}
