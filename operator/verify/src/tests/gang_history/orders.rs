//! Orders of new nodes in a history.

use serde_json::{Value, json};

use super::objects::pending_group;
use super::{GangHistory, HistoryOptions, JOB, Kind};

/// Seconds until the nodes of an order come.
const ARRIVAL: i64 = 100;

impl GangHistory {
    /// Orders nodes, and waits until they have come. Returns the placeholders.
    pub(super) fn order(
        &mut self,
        options: HistoryOptions,
        attempt: i64,
        plan: &str,
    ) -> Vec<Value> {
        let order = format!("order-of-{plan}");
        let mut journal = pending_group(options);
        journal["status"]["phase"] = json!("Provisioning");
        journal["status"]["provisioning"] = json!({
            "hash": order, "attempt": attempt, "compiled": "",
            "nodes": [{"flavor": "default", "count": options.pods}],
            "since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:30:00Z",
        });
        self.pass(1).write(Kind::Group, journal);
        let placeholders: Vec<Value> = (0..options.pods)
            .map(|index| placeholder(&order, index))
            .collect();
        for placeholder in &placeholders {
            self.pass(1).write(Kind::Pod, placeholder.clone());
        }
        self.pass(ARRIVAL);
        placeholders
    }
}

fn placeholder(order: &str, index: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("{order}-{index}"), "namespace": "capacity",
            "uid": format!("uid-{order}-{index}"),
            "labels": {
                "capacity.trellis.dev/order": order, "capacity.trellis.dev/job-uid": JOB,
            },
        },
        "spec": {"schedulerName": "trellis.dev-placeholder", "containers": []},
        "status": {"phase": "Pending"},
    })
}
