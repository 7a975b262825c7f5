//! Events of a watch, as kube-apiserver writes them: one JSON object in each line. Pure.

use axum::body::Bytes;
use jiff::Timestamp;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use trellis_api::visibility;

use super::cache::{Change, ChangeKind, Version};
use super::feed::Watched;
use crate::callers::Failure;
use crate::endpoint::visibility::table::{Format, render_table};

/// Annotation of the bookmark after the initial events (KEP-3157).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Writes the events of these changes. The last one has the version of the list, and all before it
/// the version before their change: a reader that has had only some of them gets all of them again.
pub(super) fn write_changes<T: Watched>(
    changes: &[&Change<T>],
    format: Format,
    version: Version,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Some((last, rest)) = changes.split_last() else {
        return Ok(());
    };
    for change in rest {
        match (format, change.json.get()) {
            (Format::Json, Some(json)) => out.extend_from_slice(json),
            (Format::Json, None) => {
                let json = to_line(&event(change.kind, &*change.row, format, change.before)?)?;
                out.extend_from_slice(change.json.get_or_init(|| json));
            }
            (Format::Table(_), _) => {
                out.extend(to_line(&event(
                    change.kind,
                    &*change.row,
                    format,
                    change.before,
                )?)?);
            }
        }
    }
    out.extend(to_line(&event(last.kind, &*last.row, format, version)?)?);
    Ok(())
}

/// Writes the rows of a reader that has none yet.
pub(super) fn write_initial<'r, T: Watched>(
    rows: impl Iterator<Item = &'r T>,
    format: Format,
    version: Version,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    for row in rows {
        out.extend(to_line(&event(ChangeKind::Added, row, format, version)?)?);
    }
    Ok(())
}

/// Writes a bookmark: the reader has had all changes up to this version.
pub(super) fn write_bookmark<T: Watched>(
    format: Format,
    version: Version,
    ends_initial_events: bool,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let end = (INITIAL_EVENTS_END.to_owned(), "true".to_owned());
    let metadata = ObjectMeta {
        annotations: ends_initial_events.then(|| [end].into()),
        ..versioned(&ObjectMeta::default(), version)
    };
    let object = json!({"kind": T::SERVED.kind, "apiVersion": visibility::api_version(),
        "metadata": metadata});
    let object = match format {
        Format::Json => object,
        Format::Table(_) => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata, "columnDefinitions": [],
            "rows": [{"cells": [], "object": object}]}),
    };
    out.extend(to_line(&json!({"type": "BOOKMARK", "object": object}))?);
    Ok(())
}

/// Writes the error that ends a watch.
pub(super) fn write_error(failure: &Failure, out: &mut Vec<u8>) -> Result<(), Failure> {
    out.extend(to_line(
        &json!({"type": "ERROR", "object": failure.status()}),
    )?);
    Ok(())
}

fn event<T: Watched>(
    kind: ChangeKind,
    row: &T,
    format: Format,
    version: Version,
) -> Result<Value, Failure> {
    let row = row.with_version(version);
    let object = match format {
        Format::Json => serde_json::to_value(&row).map_err(|_| Failure::unavailable())?,
        Format::Table(include) => {
            let now = Timestamp::from_millisecond(version).unwrap_or_default();
            render_table(std::iter::once(&row), include, now)?
        }
    };
    Ok(json!({"type": kind, "object": object}))
}

fn to_line(event: &Value) -> Result<Bytes, Failure> {
    let mut line = serde_json::to_vec(event).map_err(|_| Failure::unavailable())?;
    line.push(b'\n');
    Ok(Bytes::from(line))
}

/// Returns metadata with this version.
pub(super) fn versioned(metadata: &ObjectMeta, version: Version) -> ObjectMeta {
    ObjectMeta {
        resource_version: Some(version.to_string()),
        ..metadata.clone()
    }
}
