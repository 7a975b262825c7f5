//! Kinds of volumes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Volume;
use serde_json::Value;

use crate::Privilege;

/// The kinds that "restricted" allows.
const ALLOWED: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// A volume is its name and one field that is its kind: what is not on the
/// list, a kind that does not exist yet among them, is a privilege.
pub(super) fn privileges(volume: &Volume, found: &mut BTreeSet<Privilege>) {
    let unknown = || Privilege::Volume("of unknown kind".to_owned());
    let Ok(Value::Object(fields)) = serde_json::to_value(volume) else {
        found.insert(unknown());
        return;
    };
    let mut kinds = fields.keys().filter(|key| *key != "name").peekable();
    if kinds.peek().is_none() {
        found.insert(unknown());
    }
    found.extend(
        kinds
            .filter(|kind| !ALLOWED.contains(&kind.as_str()))
            .map(|kind| match kind.as_str() {
                "hostPath" => Privilege::HostPath,
                _ => Privilege::Volume(kind.clone()),
            }),
    );
}
