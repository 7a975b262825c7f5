//! The owner of an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Returns the TrainingJob that controls an object. A job that owns the object without controlling
/// it (for garbage collection only) does not count.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
/// use trellis_api::owner::controlling_job;
///
/// let mut owner = OwnerReference {
///     api_version: "trellis.dev/v1alpha1".to_owned(),
///     kind: "TrainingJob".to_owned(),
///     name: "llm".to_owned(),
///     controller: Some(true),
///     ..OwnerReference::default()
/// };
/// let of = |owner: &OwnerReference| ObjectMeta {
///     owner_references: Some(vec![owner.clone()]),
///     ..ObjectMeta::default()
/// };
/// assert_eq!(controlling_job(&of(&owner)), Some(&owner));
/// owner.controller = None;
/// assert_eq!(controlling_job(&of(&owner)), None);
/// ```
#[must_use]
pub fn controlling_job(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = meta.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers
        .find(|owner| owner.kind == "TrainingJob" && owner.api_version.starts_with("trellis.dev/"))
}
