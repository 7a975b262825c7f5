//! Histories in which a journal is written wrongly, or a gang leaves its place in vain. The rule about
//! it must report each.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use super::gang_history::{
    GangHistory, Kind, any_options, any_options_of_one_attempt, leader_term, lease,
};
use super::write_filters::{
    choose, is_created_for_good, is_placed, leaves, name, phase, plan, run_for_long,
};
use crate::{Health, Rule};

proptest! {
    #[test]
    fn journal_write_after_the_term_of_its_leader_is_reported(
        options in any_options(),
        index in any::<Index>(),
    ) {
        let mut history = GangHistory::new(options);
        let place = choose(&history, index, is_placed);
        let write = |time: &str| json!([
            {"manager": "trellis-scheduler", "operation": "Update", "subresource": "status",
             "time": time},
        ]);
        // The write of this gang's journal before it.
        let name = history.writes[place].object["metadata"]["name"].clone();
        let before = history.find(|write| {
            write.kind == Kind::Group && write.object["metadata"]["name"] == name
        });
        let before = before.into_iter().rfind(|before| *before < place).unwrap();
        history.writes[before].object["metadata"]["managedFields"] = write("2026-01-01T00:00:00Z");
        history.writes[place].object["metadata"]["managedFields"] = write("2026-01-01T00:00:01Z");
        history.insert(place, [
            (Kind::Lease, lease(1)),
            (Kind::LeaderTerm, leader_term(2)),
            (Kind::Lease, lease(1)),
        ]);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::StaleJournal), "{:?}", broken);
    }

    #[test]
    fn journal_whose_epoch_falls_is_reported(options in any_options(), index in any::<Index>()) {
        let mut history = GangHistory::new(options);
        let place = choose(&history, index, is_placed);
        history.writes[place].object["status"]["epoch"] = json!(0);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::StaleJournal), "{:?}", broken);
    }

    #[test]
    fn plan_that_is_never_closed_is_reported(mut options in any_options_of_one_attempt()) {
        options.restarts_pod = false;
        let mut history = GangHistory::new(options);
        history.writes.retain(|write| !is_placed(write));
        run_for_long(&mut history);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::StuckPlan), "{:?}", broken);
    }

    #[test]
    fn gang_that_leaves_in_vain_is_reported(mut options in any_options_of_one_attempt()) {
        options.is_preempted = true;
        let mut history = GangHistory::new(options);
        let preemptor = history.find(|write| name(write) == "k" && phase(write) == "Committing")[0];
        history.writes.truncate(preemptor);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::Victim), "{:?}", broken);
    }

    #[test]
    fn gang_that_leaves_twice_for_a_waiting_gang_is_reported(
        mut options in any_options_of_one_attempt(),
    ) {
        options.is_preempted = true;
        let mut history = GangHistory::new(options);
        let nominated = history.find(|write| name(write) == "k" && phase(write) == "Nominated")[0];
        let leaving = *history.find(leaves).last().unwrap();
        let committing = history.find(|write| name(write) == "k" && phase(write) == "Committing")[0];
        let again = [nominated, leaving].map(|place| {
            let mut write = history.writes[place].clone();
            write.second = history.writes[committing].second;
            let status = &mut write.object["status"];
            match place == nominated {
                true => status["victims"][0]["plan"] = json!("plan-of-the-next-attempt"),
                false => status["plan"]["hash"] = json!("plan-of-the-next-attempt"),
            }
            write
        });
        history.writes.truncate(committing);
        history.writes.extend(again);
        let findings = history.judge(Health::Healthy);
        let mut messages = findings.iter().map(|finding| &finding.message);
        prop_assert!(messages.any(|m| m.contains("had to leave for it again")), "{findings:?}");
    }

    #[test]
    fn gang_that_leaves_within_its_minimum_runtime_is_reported(
        mut options in any_options_of_one_attempt(),
    ) {
        options.is_preempted = true;
        let mut history = GangHistory::new(options);
        history.set_min_runtime(3600);
        prop_assert_eq!(history.broken_rules(), [Rule::EarlyVictim]);
    }

    #[test]
    fn gang_that_is_placed_before_its_last_pod_is_reported(mut options in any_options()) {
        // The pods of a later stage are created after the gang is placed.
        options.has_stages = false;
        let mut history = GangHistory::new(options);
        let created = history.find(|write| is_created_for_good(write) && plan(write) == "plan-1");
        let placed = history.find(|write| is_placed(write) && name(write) == "j")[0];
        let last = created.into_iter().rfind(|place| *place < placed).unwrap();
        let pod = history.writes.remove(last);
        history.writes.insert(placed, pod);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::HastyJournal), "{:?}", broken);
    }

    #[test]
    fn plan_that_is_dropped_while_its_pods_run_is_reported(
        mut options in any_options_of_one_attempt(),
    ) {
        options.is_preempted = true;
        let mut history = GangHistory::new(options);
        let leaving = history.find(leaves)[0];
        let mut dropped = history.writes[leaving].clone();
        dropped.object["status"]["phase"] = json!("Pending");
        dropped.object["status"].as_object_mut().unwrap().remove("plan");
        history.writes.insert(leaving + 1, dropped);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::HastyJournal), "{:?}", broken);
    }
}
