//! Histories without a fault, and faults that no rule may count.

use proptest::prelude::*;
use serde_json::json;

use super::story::{Kind, Story, any_plot, lease};
use crate::Health;

proptest! {
    #[test]
    fn history_without_a_fault_has_no_findings(plot in any_plot()) {
        let findings = Story::new(plot).judge(Health::Healthy);
        prop_assert_eq!(findings, Vec::new());
    }

    #[test]
    fn change_of_the_leader_is_no_fault(plot in any_plot(), place in any::<prop::sample::Index>()) {
        let mut story = Story::new(plot);
        let place = place.index(story.writes.len());
        let mut takeover = story.writes[place].clone();
        takeover.kind = Kind::Lease;
        takeover.is_deletion = false;
        takeover.object = lease(1);
        story.writes.insert(place, takeover);
        for write in &mut story.writes[place..] {
            if write.kind == Kind::Group {
                write.object["status"]["epoch"] = 2.into();
            }
        }
        prop_assert_eq!(story.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn deletion_of_the_namespace_is_no_fault(plot in any_plot()) {
        let mut story = Story::new(plot);
        // The pods go first, and the job stays in its phase.
        let running = story.find(|write| write.object["status"]["phase"] == "Running")[0];
        let mut namespace = story.writes[running].clone();
        namespace.kind = Kind::Namespace;
        namespace.object = json!({"metadata": {
            "name": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z",
        }});
        story.writes.truncate(running + 1);
        let pods = story.find(|write| write.kind == Kind::Pod);
        let gone: Vec<_> = pods.into_iter().map(|place| story.writes[place].clone()).collect();
        story.writes.push(namespace);
        story.writes.extend(gone.into_iter().map(|mut pod| {
            pod.is_deletion = true;
            pod
        }));
        prop_assert_eq!(story.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn lasting_fault_does_not_count_while_the_cluster_is_unhealthy(plot in any_plot()) {
        let mut story = Story::new(plot);
        // No plan is closed.
        let is_closing = |phase: &serde_json::Value| phase == "Placed";
        story.writes.retain(|write| !is_closing(&write.object["status"]["phase"]));
        prop_assert_eq!(story.judge(Health::Unhealthy), Vec::new());
    }
}
