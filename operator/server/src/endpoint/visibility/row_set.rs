//! All objects of one resource at one moment. Their answers are serialized once for all readers.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::http::StatusCode;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use trellis_api::visibility::{self, GROUP};

use super::encoding::{EncodedBytes, Encoding};
use super::query::SelectedFields;
use super::request::ObjectRequest;
use super::table::{self, Format, TableRow};
use super::watch::Version;
use crate::callers::Failure;

/// Most serialized answers to keep.
const MAX_SERIALIZED: usize = 64;

/// Namespace (None: all), format and encoding.
type AnswerKey = (Option<String>, Format, Encoding);

/// All objects of one resource at one moment.
#[derive(Debug)]
pub(super) struct RowSet<T> {
    at: Timestamp,
    version: Version,
    rows: Vec<T>,
    answers: Mutex<BTreeMap<AnswerKey, EncodedBytes>>,
}

/// A list to serialize.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonList<'r, T> {
    api_version: String,
    kind: String,
    metadata: visibility::ListMeta,
    items: Vec<&'r T>,
}

impl<T: TableRow> RowSet<T> {
    /// Creates a set of these rows, in this order. `at` is the time of the data, and `version` that
    /// of the list.
    pub(super) fn new(at: Timestamp, version: Version, rows: Vec<T>) -> Self {
        Self {
            at,
            version,
            rows,
            answers: Mutex::default(),
        }
    }

    /// Returns the rows that a request selects.
    pub(super) fn list(
        &self,
        request: &ObjectRequest,
        encoding: Encoding,
    ) -> Result<EncodedBytes, Failure> {
        let key = (request.namespace.clone(), request.format, encoding);
        let is_shared = request.selected == SelectedFields::default();
        let answer = self.answers.lock().get(&key).cloned();
        if let Some(answer) = answer.filter(|_| is_shared) {
            return Ok(answer);
        }
        let here = self.rows.iter().filter(|row| request.selects(*row));
        let bytes = match request.format {
            Format::Json => serialize(&JsonList {
                api_version: visibility::api_version(),
                kind: format!("{}List", T::SERVED.kind),
                metadata: visibility::ListMeta {
                    resource_version: self.version.to_string(),
                },
                items: here.collect(),
            }),
            Format::Table(include) => {
                serialize(&table::render_table(here, include, self.at, self.version)?)
            }
        }?;
        let answer = encoding.encode(bytes);
        let mut answers = self.answers.lock();
        if is_shared && answers.len() < MAX_SERIALIZED {
            answers.insert(key, answer.clone());
        }
        Ok(answer)
    }

    /// Returns the row with this name.
    pub(super) fn get(&self, request: &ObjectRequest, name: &str) -> Result<Bytes, Failure> {
        let row = self.rows.iter().find(|row| request.selects(*row));
        serialize_row(row, name, request.format, self.at, self.version)
    }
}

/// Serializes the object with this name.
pub(super) fn serialize_row<T: TableRow>(
    row: Option<&T>,
    name: &str,
    format: Format,
    at: Timestamp,
    version: Version,
) -> Result<Bytes, Failure> {
    let row = row.ok_or_else(|| missing_object_failure::<T>(name))?;
    match format {
        Format::Json => serialize(row),
        Format::Table(include) => serialize(&table::render_table(
            std::iter::once(row),
            include,
            at,
            version,
        )?),
    }
}

/// Returns the API server's error for a missing object.
fn missing_object_failure<T: TableRow>(name: &str) -> Failure {
    let plural = T::SERVED.plural;
    let message = format!("{plural}.{GROUP} {name:?} not found: {}", T::ABSENT);
    Failure::new(StatusCode::NOT_FOUND, message)
}

fn serialize(answer: &impl Serialize) -> Result<Bytes, Failure> {
    let bytes = serde_json::to_vec(answer).map_err(|_| Failure::unavailable())?;
    Ok(Bytes::from(bytes))
}
