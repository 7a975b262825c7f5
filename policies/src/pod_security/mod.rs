//! Privileges that a final pod asks for, found by walking over the whole object.
//!
//! [`list`] knows every field. The other files here check the fields that it marks as judged, by
//! the level "restricted" of Kubernetes' Pod Security Standards.

mod container;
mod context;
mod found;
mod list;
mod pod;
mod volume;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use crate::Privilege;
use found::Found;
pub use found::Unlisted;

/// Every privilege that the pod asks for beyond "restricted", in all of its
/// containers, init containers and ephemeral containers, with the first field that
/// asks for it.
#[must_use]
pub fn asked(pod: &Pod) -> BTreeMap<Privilege, String> {
    let mut found = Found::default();
    context::annotations(&pod.metadata, &mut found);
    if let Some(spec) = &pod.spec {
        pod::of_spec(spec, &mut found);
    }
    found.0
}

/// The privileges that the pod asks for, without the fields.
#[must_use]
pub fn privileges(pod: &Pod) -> BTreeSet<Privilege> {
    asked(pod).into_keys().collect()
}

/// Every field of the pod that no privilege allows: unlisted fields, and listed ones that pods of
/// jobs may not have.
#[must_use]
pub fn unlisted(pod: &Pod) -> Vec<Unlisted> {
    let mut found = Vec::new();
    match serde_json::to_value(pod) {
        Ok(tree) => walk::walk(&tree, list::POD, "", &mut found),
        Err(error) => found.push(Unlisted {
            path: "pod".to_owned(),
            remedy: format!("it cannot be written: {error}"),
        }),
    }
    found
}
