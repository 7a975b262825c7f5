//! Changes of a job's own request with which it would start now, in the form of the API.

use trellis_api::visibility::RequestChange;
use trellis_gang::external;
use trellis_gang::key::Key;
use trellis_scheduler::{ChangedRequest, TopologyRequest};

/// Describes a change of a TrainingJob, or of the PodGroup of external pods.
pub(super) fn describe(job: &Key, change: &trellis_scheduler::RequestChange) -> RequestChange {
    let groups = match external::is_external(job) {
        true => "groups",
        false => "taskGroups",
    };
    let owner = match &change.group {
        Some(group) => format!("spec.{groups}[{group}]"),
        None => "spec".to_owned(),
    };
    let (field, value) = match &change.value {
        ChangedRequest::Topology(topology) => ("topology", describe_topology(topology)),
        ChangedRequest::PreferredSlices => ("topology.slicePolicy", "Preferred".to_owned()),
        ChangedRequest::Flavor(flavor) => ("flavors", format!("[{flavor}]")),
    };
    RequestChange {
        field: format!("{owner}.{field}"),
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
