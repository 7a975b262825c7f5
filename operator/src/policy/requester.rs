//! Who submitted a job, as the cluster has stamped it, or is about to.

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::api::ObjectMeta;
use serde::Deserialize;
use trellis_api::names;
use trellis_policies::cedar::Requester;

/// Characters of all groups, as a stamp lists them, with which there is none: they would be no
/// annotation (`templates/admission.yaml` of the chart).
const GROUPS: usize = 32_768;

#[derive(Deserialize)]
struct Stamp {
    user: String,
    #[serde(default)]
    groups: Vec<String>,
}

/// Who the stamp of an object names. None: there is none, or it does not read as
/// one; then nobody is known.
#[must_use]
pub fn requester(meta: &ObjectMeta) -> Option<Requester> {
    let stamp = meta.annotations.as_ref()?.get(names::REQUESTED_BY)?;
    let stamp: Stamp = serde_json::from_str(stamp).ok()?;
    (!stamp.user.is_empty()).then(|| Requester {
        user: stamp.user,
        groups: stamp.groups.into_iter().collect(),
    })
}

/// Who makes a request, as the stamp on what it writes will name them.
#[must_use]
pub fn requester_of(user: &UserInfo) -> Option<Requester> {
    let name = user.username.as_deref().filter(|name| !name.is_empty())?;
    let groups = user.groups.iter().flatten();
    // Quoted, escaped, and with a comma and a space between them.
    let written = groups.clone().map(|group| {
        let escaped = group
            .chars()
            .map(|c| if matches!(c, '\\' | '"') { 2 } else { 1 });
        escaped.fold(4_usize, usize::saturating_add)
    });
    let written = written.fold(0_usize, usize::saturating_add);
    (written.saturating_sub(2) <= GROUPS).then(|| Requester {
        user: name.to_owned(),
        groups: groups.cloned().collect(),
    })
}
