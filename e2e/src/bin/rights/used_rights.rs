//! The rights that tests have used, from the audit logs of their API servers.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use trellis_e2e::audit_log;
use trellis_e2e::operator::OPERATOR_USER;
use trellis_verify::AuditEvent;

use crate::Right;

/// Returns the rights of all requests of the operator that were not forbidden.
pub(super) fn read_used_rights(folder: &Path) -> Result<BTreeSet<Right>> {
    let mut rights = BTreeSet::new();
    for file in audit_log::files(folder)? {
        let events = audit_log::read(&file)?.into_iter();
        let events = events.filter(|event| event.user.username == OPERATOR_USER);
        rights.extend(events.filter_map(used_right));
    }
    ensure!(
        !rights.is_empty(),
        "{folder:?} has no request of the operator"
    );
    Ok(rights)
}

fn used_right(event: AuditEvent) -> Option<Right> {
    let object = event.object_ref?;
    let forbidden = event
        .response_status
        .is_some_and(|status| status.code == 403);
    let resource = match object.subresource.as_str() {
        "" => object.resource,
        sub => format!("{}/{sub}", object.resource),
    };
    (!forbidden).then_some((object.api_group, resource, event.verb))
}
