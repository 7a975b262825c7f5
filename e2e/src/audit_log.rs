//! The audit logs that API servers write with `TRELLIS_AUDIT=FOLDER`.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// The fields that are read from an audit log entry (`audit.k8s.io/v1` Event).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// The verb, such as `create`.
    pub verb: String,
    /// The path and the query of the request.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// The user of the request.
    pub user: AuditedUser,
    /// The object of the request. None for a request to no resource.
    pub object_ref: Option<AuditedObject>,
    /// None: the request was not answered.
    pub response_status: Option<AuditedStatus>,
    /// The body of the request, if the policy records it.
    pub request_object: Option<Value>,
    /// The body of the answer, if the policy records it.
    pub response_object: Option<Value>,
    /// When the answer was complete.
    pub stage_timestamp: Timestamp,
}

/// A user of the Kubernetes API.
#[derive(Debug, Deserialize)]
pub struct AuditedUser {
    /// Name of the user.
    #[serde(default)]
    pub username: String,
    /// Groups of the user.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// The object of a request. Empty fields were not in the request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct AuditedObject {
    /// API group.
    pub api_group: String,
    /// The kind in the plural.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name. Empty for a create.
    pub name: String,
}

/// The status of an answer.
#[derive(Debug, Deserialize)]
pub struct AuditedStatus {
    /// The HTTP code.
    #[serde(default)]
    pub code: u16,
}

/// Returns the logs of a folder: one for each API server.
///
/// # Errors
/// If the folder has no logs.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = || {
        format!(
            "{folder:?}: run the tests with TRELLIS_AUDIT={}",
            folder.display()
        )
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(failed)? {
        files.push(entry?.path());
    }
    ensure!(!files.is_empty(), failed());
    files.sort();
    Ok(files)
}

/// Reads a log. The last record of a killed server may be incomplete, and is left out.
///
/// # Errors
/// If the file cannot be read.
pub fn read(file: &Path) -> Result<impl Iterator<Item = AuditRecord> + use<>> {
    let opened = File::open(file).with_context(|| format!("{file:?}"))?;
    let lines = BufReader::new(opened).lines().map_while(Result::ok);
    Ok(lines.filter_map(|line| serde_json::from_str(&line).ok()))
}
