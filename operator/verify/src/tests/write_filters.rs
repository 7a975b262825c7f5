//! Finds writes of a history, and delays them.

use proptest::sample::Index;
use serde_json::Value;

use super::gang_history::{GangHistory, Kind, Write};

/// Chooses one of the writes for which `matches` is true.
pub(super) fn choose(
    history: &GangHistory,
    index: Index,
    matches: impl Fn(&Write) -> bool,
) -> usize {
    let places = history.find(matches);
    places[index.index(places.len())]
}

pub(super) fn phase(write: &Write) -> &Value {
    &write.object["status"]["phase"]
}

pub(super) fn name(write: &Write) -> &Value {
    &write.object["metadata"]["name"]
}

pub(super) fn is_created(write: &Write) -> bool {
    write.kind == Kind::Pod
        && write.object["metadata"]["annotations"]["trellis.dev/epoch"].is_null()
        && phase(write) == "Running"
        && write.object["metadata"]["deletionTimestamp"].is_null()
        && !write.is_deletion
}

/// The first write of a pod of the last stage, of a plan that is carried out.
pub(super) fn is_created_for_good(write: &Write) -> bool {
    is_created(write)
        && plan(write)
            .as_str()
            .is_some_and(|plan| plan.starts_with("plan-"))
}

pub(super) fn plan(write: &Write) -> &Value {
    &write.object["metadata"]["annotations"]["trellis.dev/plan"]
}

pub(super) fn is_placed(write: &Write) -> bool {
    write.kind == Kind::Group && phase(write) == "Placed"
}

/// The write by which the gang `j` begins to leave its place.
pub(super) fn leaves(write: &Write) -> bool {
    write.kind == Kind::Group && name(write) == "j" && phase(write) == "Unwinding"
}

/// Gives the gang the time after its placement that a rule allows.
pub(super) fn run_for_long(history: &mut GangHistory) {
    let end = history.find(|write| write.kind == Kind::Pod && phase(write) == "Succeeded")[0];
    for write in &mut history.writes[end..] {
        write.second += 1000;
    }
}
