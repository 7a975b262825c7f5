//! Generic ephemeral volumes: the claims that are created with each pod (KEP-1698).

use k8s_openapi::api::core::v1::{
    EphemeralVolumeSource, PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate,
};

use super::TemplateViolations;
use crate::names::is_reserved_key;
use crate::{Quantity, rules};

/// `PersistentVolumeAccessMode` of core/v1.
const ACCESS_MODES: [&str; 4] = [
    "ReadWriteOnce",
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOncePod",
];

/// Prefixes of annotations that volume controllers write on a claim.
const BINDING_PREFIXES: [&str; 3] = [
    "volume.kubernetes.io/",
    // The legacy annotation for the class, which takes precedence over storageClassName.
    "volume.beta.kubernetes.io/",
    "pv.kubernetes.io/",
];

/// Checks a source. `path` is the path of `ephemeral`.
pub(super) fn check_source(
    source: &EphemeralVolumeSource,
    path: &str,
    found: &mut TemplateViolations,
) {
    let path = format!("{path}.volumeClaimTemplate");
    match &source.volume_claim_template {
        Some(template) => check_template(template, &path, found),
        None => found.add(path, "is required: say what the claim of each pod asks for"),
    }
}

fn check_template(
    template: &PersistentVolumeClaimTemplate,
    path: &str,
    found: &mut TemplateViolations,
) {
    if let Some(metadata) = &template.metadata {
        let taken = |key: &&String| {
            is_reserved_key(key)
                || BINDING_PREFIXES
                    .iter()
                    .any(|prefix| key.starts_with(prefix))
        };
        for (kind, keys) in [
            ("labels", &metadata.labels),
            ("annotations", &metadata.annotations),
        ] {
            for key in keys.iter().flat_map(|keys| keys.keys()).filter(taken) {
                let message = "is set by those who bind the claim, or Trellis': leave it out";
                found.add(format!("{path}.metadata.{kind}[{key}]"), message);
            }
        }
    }
    check_claim_spec(&template.spec, &format!("{path}.spec"), found);
}

fn check_claim_spec(spec: &PersistentVolumeClaimSpec, path: &str, found: &mut TemplateViolations) {
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    if modes.is_empty() {
        let message = format!("is required: one of {}", ACCESS_MODES.join(", "));
        found.add(format!("{path}.accessModes"), message);
    }
    for (at, mode) in modes.iter().enumerate() {
        if !ACCESS_MODES.contains(&mode.as_str()) {
            let message = format!("{mode:?} is none of {}", ACCESS_MODES.join(", "));
            found.add(format!("{path}.accessModes[{at}]"), message);
        }
    }
    let requests = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    let at = format!("{path}.resources.requests.storage");
    match requests.and_then(|requests| requests.get("storage")) {
        Some(size) => found.add_result(at, rules::memory(&Quantity::new(size.0.as_str()), &())),
        None => found.add(at, "is required: how large the volume is, such as 100Gi"),
    }
    // Policies evaluate the claims that a job mounts. They would not see the claims that it copies.
    let copies = "begins with the data of another volume: leave it out, and mount the claim that has the data";
    let given = [
        ("dataSource", spec.data_source.is_some(), copies),
        ("dataSourceRef", spec.data_source_ref.is_some(), copies),
        (
            "volumeName",
            spec.volume_name.is_some(),
            "would be one volume for all pods: leave it out, or mount a claim",
        ),
    ];
    for (field, _, message) in given.into_iter().filter(|(_, is_given, _)| *is_given) {
        found.add(format!("{path}.{field}"), message);
    }
}
