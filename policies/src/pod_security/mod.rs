//! Privileges that a final pod asks for, found by walking over the whole object.
//!
//! [`field_rules`] knows every field. The other files here check the fields that it marks as
//! judged, by the level "restricted" of Kubernetes' Pod Security Standards.

mod container;
mod field_rules;
mod field_walk;
mod findings;
mod pod_spec;
mod security_context;
mod volume_kind;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use crate::Privilege;
use findings::PrivilegeFindings;
pub use findings::UnlistedField;

/// Every privilege that the pod asks for beyond "restricted", in all of its
/// containers, init containers and ephemeral containers, with the first field that
/// asks for it.
#[must_use]
pub fn privileges_with_fields(pod: &Pod) -> BTreeMap<Privilege, String> {
    let mut found = PrivilegeFindings::default();
    security_context::check_annotations(&pod.metadata, &mut found);
    if let Some(spec) = &pod.spec {
        pod_spec::check_spec(spec, &mut found);
    }
    found.0
}

/// The privileges that the pod asks for, without the fields.
#[must_use]
pub fn privileges(pod: &Pod) -> BTreeSet<Privilege> {
    privileges_with_fields(pod).into_keys().collect()
}

/// Every field of the pod that no privilege allows: unlisted fields, and listed ones that pods of
/// jobs may not have.
#[must_use]
pub fn unlisted_fields(pod: &Pod) -> Vec<UnlistedField> {
    let mut found = Vec::new();
    match serde_json::to_value(pod) {
        Ok(tree) => field_walk::collect_unlisted(&tree, field_rules::POD, "", &mut found),
        Err(error) => found.push(UnlistedField {
            path: "pod".to_owned(),
            remedy: format!("it cannot be written: {error}"),
        }),
    }
    found
}
