//! A gang that waits after another gang has ended.

use serde_json::{Value, json};

use super::objects::{group, node, set_phase};
use super::{GangHistory, HistoryOptions, Kind};

/// Returns the history of a gang that ran and ended, and of a later gang that fits and is not
/// placed. `change` changes the job and the PodGroup of the later gang.
pub(in crate::tests) fn waiting_gang(
    pods: usize,
    change: impl Fn(&mut WaitingGang),
) -> GangHistory {
    let mut history = GangHistory::new(HistoryOptions::plain(pods));
    // The time is beyond the end of the first gang.
    let mut gang = WaitingGang {
        job: json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "later", "namespace": "ns", "uid": "uid-later", "generation": 1},
            "spec": {"taskGroups": [
                {"name": "worker", "replicas": pods, "image": "registry.example/train:1.0"},
            ]},
        }),
        group: group(HistoryOptions::plain(pods), 1, "", "Pending"),
        nodes: (0..pods).map(node).collect(),
    };
    set_phase(&mut gang.job, "Queued", 1);
    let status = &mut gang.job["status"];
    status["reason"] = json!("InsufficientCapacity");
    status["queue"] = json!("research");
    status["queuedTime"] = json!("2026-01-01T00:00:00Z");
    gang.group["status"] = json!({});
    let metadata = &mut gang.group["metadata"];
    metadata["name"] = json!("later");
    metadata["uid"] = json!("uid-group-later");
    metadata["ownerReferences"][0]["uid"] = json!("uid-later");
    change(&mut gang);
    history.pass(60);
    for node in gang.nodes {
        history.write(Kind::Node, node);
    }
    history.write(Kind::Job, gang.job);
    history.write(Kind::Group, gang.group);
    history
}

/// A gang that waits for its place.
pub(in crate::tests) struct WaitingGang {
    pub(in crate::tests) job: Value,
    pub(in crate::tests) group: Value,
    /// The nodes, as they are then.
    pub(in crate::tests) nodes: Vec<Value>,
}
