//! Events of a watch, as kube-apiserver writes them: one JSON object in each line. Pure.

use axum::body::Bytes;
use jiff::Timestamp;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use trellis_api::visibility;

use super::cache::{Change, ChangeKind, Version, VersionedRow};
use super::feed::WatchableRow;
use crate::callers::Failure;
use crate::endpoint::visibility::table::{Format, render_table};

/// Annotation of the bookmark after the initial events (KEP-3157).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Writes the event of a change.
pub(super) fn write_change<T: WatchableRow>(
    change: &Change<T>,
    format: Format,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let write = || to_line(&event(change.kind, &change.row, format)?);
    match format {
        Format::Json => match change.json.get() {
            Some(json) => out.extend_from_slice(json),
            None => {
                let json = write()?;
                out.extend_from_slice(change.json.get_or_init(|| json));
            }
        },
        Format::Table(_) => out.extend(write()?),
    }
    Ok(())
}

/// Writes a row of a reader that has none yet.
pub(super) fn write_initial<T: WatchableRow>(
    row: &VersionedRow<T>,
    format: Format,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    out.extend(to_line(&event(ChangeKind::Added, row, format)?)?);
    Ok(())
}

/// Writes a bookmark: the reader has had all changes up to this version.
pub(super) fn write_bookmark<T: WatchableRow>(
    format: Format,
    version: Version,
    ends_initial_events: bool,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let end = (INITIAL_EVENTS_END.to_owned(), "true".to_owned());
    let metadata = ObjectMeta {
        annotations: ends_initial_events.then(|| [end].into()),
        resource_version: Some(version.to_string()),
        ..ObjectMeta::default()
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

fn event<T: WatchableRow>(
    kind: ChangeKind,
    row: &VersionedRow<T>,
    format: Format,
) -> Result<Value, Failure> {
    let mut object = (*row.row).clone();
    object.metadata_mut().resource_version = Some(row.version.to_string());
    let object = match format {
        Format::Json => serde_json::to_value(&object).map_err(|_| Failure::unavailable())?,
        Format::Table(include) => {
            let now = Timestamp::from_microsecond(row.version).unwrap_or_default();
            render_table(std::iter::once(&object), include, now, row.version)?
        }
    };
    Ok(json!({"type": kind, "object": object}))
}

fn to_line(event: &Value) -> Result<Bytes, Failure> {
    let mut line = serde_json::to_vec(event).map_err(|_| Failure::unavailable())?;
    line.push(b'\n');
    Ok(Bytes::from(line))
}
