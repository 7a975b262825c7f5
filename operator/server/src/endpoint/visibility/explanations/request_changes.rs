//! Changes of a job's own request with which it would start now, in the form of the API.

use trellis_api::Reason;
use trellis_api::visibility::RequestChange;
use trellis_gang::key::Key;
use trellis_gang::{engine, external};
use trellis_scheduler::{ChangedRequest, Snapshot, TopologyRequest, find_request_changes};

use super::Explainer;

/// Maximum number of gangs for which one snapshot is searched for changes.
pub(super) const MAX_CHANGE_SEARCHES: usize = 64;

/// Returns true if another request may remove this reason to wait. The order of the queue and limits
/// outside it do not depend on the request.
pub(in super::super) fn may_help(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Fragmented
            | Reason::TopologyFragmented
            | Reason::InsufficientCapacity
            | Reason::ExceedsTopology
            | Reason::ExceedsCluster
            | Reason::QuotaExceeded
            | Reason::ExceedsQuota
    )
}

impl Explainer {
    /// Returns the changes with which the gang would start. After [`MAX_CHANGE_SEARCHES`] gangs, the
    /// rest get none from this snapshot.
    pub(super) fn request_changes(&mut self, job: &Key, snapshot: &Snapshot) -> Vec<RequestChange> {
        let id = engine::gang_id(job);
        self.request_changes.find(&id, || {
            let changes = find_request_changes(&mut self.engine, snapshot, &id);
            changes.iter().map(|change| describe(job, change)).collect()
        })
    }
}

/// Describes a change of a TrainingJob, or of the PodGroup of external pods.
fn describe(job: &Key, change: &trellis_scheduler::RequestChange) -> RequestChange {
    let groups = match external::is_external(job) {
        true => "groups",
        false => "taskGroups",
    };
    let (field, value) = match &change.value {
        ChangedRequest::Topology(topology) => ("topology", describe_topology(topology)),
        ChangedRequest::PreferredSlices => ("topology.slicePolicy", "Preferred".to_owned()),
        ChangedRequest::Flavor(flavor) => ("flavors", format!("[{flavor}]")),
    };
    let fields = match change.groups.as_slice() {
        [] => vec![format!("spec.{field}")],
        names => names
            .iter()
            .map(|name| format!("spec.{groups}[{name}].{field}"))
            .collect(),
    };
    RequestChange {
        field: fields.join(" and "),
        value,
    }
}

fn describe_topology(request: &TopologyRequest) -> String {
    let required = request.required_level().map(|level| ("required", level));
    let preferred = request.preferred_level().map(|level| ("preferred", level));
    let fields = [required, preferred].into_iter().flatten();
    let fields = fields.map(|(name, level)| format!("{name}: {level}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}
