//! Kinds of volumes.

use k8s_openapi::api::core::v1::Volume;
use serde_json::Value;

use super::findings::PrivilegeFindings;
use crate::Privilege;

/// Volume kinds that "restricted" allows. It also allows csi, whose drivers take orders from the
/// pod: policies must permit each driver.
const ALLOWED_KINDS: [&str; 7] = [
    "configMap",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// A volume is a name and one field for its kind. An unlisted kind, such as one of a newer
/// Kubernetes, is a privilege.
pub(super) fn check_volume(volume: &Volume, path: &str, found: &mut PrivilegeFindings) {
    let unknown = || Privilege::Volume("of unknown kind".to_owned());
    let Ok(Value::Object(fields)) = serde_json::to_value(volume) else {
        found.add(unknown(), path);
        return;
    };
    let mut kinds = fields.keys().filter(|key| *key != "name").peekable();
    if kinds.peek().is_none() {
        found.add(unknown(), path);
    }
    for kind in kinds.filter(|kind| !ALLOWED_KINDS.contains(&kind.as_str())) {
        let driver = volume.csi.as_ref().map(|csi| csi.driver.clone());
        let privilege = match kind.as_str() {
            "hostPath" => Privilege::HostPath,
            "csi" => Privilege::Csi(driver.unwrap_or_default()),
            _ => Privilege::Volume(kind.clone()),
        };
        found.add(privilege, format!("{path}.{kind}"));
    }
    let sources = volume
        .projected
        .iter()
        .flat_map(|p| p.sources.iter().flatten());
    for (at, source) in sources.enumerate() {
        found.add_if(
            source.pod_certificate.is_some(),
            Privilege::Volume("podCertificate".to_owned()),
            || format!("{path}.projected.sources[{at}].podCertificate"),
        );
    }
}
