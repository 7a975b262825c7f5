//! Who submitted a job, as the cluster has stamped it.

use kube::api::ObjectMeta;
use serde::Deserialize;
use trellis_api::names;
use trellis_policies::cedar::Requester;

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
