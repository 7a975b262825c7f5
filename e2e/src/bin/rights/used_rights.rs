//! The rights that tests have used, from the audit logs of their API servers.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::Right;

/// The fields that are read from an audit log entry (`audit.k8s.io/v1` Event).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditRecord {
    verb: String,
    #[serde(default)]
    object_ref: Option<AuditedObject>,
    #[serde(default)]
    response_status: Option<AuditedStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditedObject {
    #[serde(default)]
    api_group: String,
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
}

#[derive(Deserialize)]
struct AuditedStatus {
    #[serde(default)]
    code: u16,
}

/// Returns the rights of all requests that were not forbidden.
pub(super) fn read_used_rights(folder: &Path) -> Result<BTreeSet<Right>> {
    let failed = || {
        format!(
            "{folder:?}: run the tests with TRELLIS_AUDIT={}",
            folder.display()
        )
    };
    let mut rights = BTreeSet::new();
    for entry in std::fs::read_dir(folder).with_context(failed)? {
        let file = File::open(entry?.path())?;
        for line in BufReader::new(file).lines() {
            // The last line of a killed server may be incomplete.
            let Ok(record) = serde_json::from_str::<AuditRecord>(&line?) else {
                continue;
            };
            rights.extend(record_right(record));
        }
    }
    ensure!(!rights.is_empty(), failed());
    Ok(rights)
}

fn record_right(record: AuditRecord) -> Option<Right> {
    let object = record.object_ref?;
    let forbidden = record
        .response_status
        .is_some_and(|status| status.code == 403);
    let resource = match object.subresource.as_str() {
        "" => object.resource,
        sub => format!("{}/{sub}", object.resource),
    };
    (!forbidden).then_some((object.api_group, resource, record.verb))
}
