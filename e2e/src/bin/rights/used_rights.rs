//! The rights that tests have used, from the audit logs of their API servers.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use trellis_e2e::audit_log::{self, AuditRecord};
use trellis_e2e::operator::OPERATOR_USER;

use crate::Right;

/// Returns the rights of all requests of the operator that were not forbidden.
pub(super) fn read_used_rights(folder: &Path) -> Result<BTreeSet<Right>> {
    let mut rights = BTreeSet::new();
    for file in audit_log::files(folder)? {
        let records = audit_log::read(&file)?;
        let records = records.filter(|record| record.user.username == OPERATOR_USER);
        rights.extend(records.filter_map(record_right));
    }
    ensure!(
        !rights.is_empty(),
        "{folder:?} has no request of the operator"
    );
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
