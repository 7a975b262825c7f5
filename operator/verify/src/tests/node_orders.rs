//! Histories in which placeholders exist too early or for too long.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use super::gang_history::{GangHistory, HistoryOptions, Kind, Write, any_options};
use super::write_filters::{choose, is_created, phase};
use crate::{Health, Rule};

fn with_orders(options: HistoryOptions) -> GangHistory {
    GangHistory::new(HistoryOptions {
        has_orders: true,
        ..options
    })
}

fn is_placeholder(write: &Write) -> bool {
    write.object["spec"]["schedulerName"] == "trellis.dev-placeholder"
}

fn is_new_placeholder(write: &Write) -> bool {
    is_placeholder(write) && !write.is_deletion
}

fn is_order(write: &Write) -> bool {
    write.kind == Kind::Group && phase(write) == "Provisioning"
}

proptest! {
    #[test]
    fn placeholder_that_is_older_than_its_order_is_reported(
        options in any_options(),
        index in any::<Index>(),
    ) {
        let mut history = with_orders(options);
        let ordered = choose(&history, index, is_order);
        let mut order = history.writes.remove(ordered);
        order.second = history.writes[ordered].second;
        history.writes.insert(ordered + 1, order);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::UnorderedPlaceholder), "{:?}", broken);
    }

    #[test]
    fn placeholder_of_no_order_is_reported(options in any_options(), index in any::<Index>()) {
        let mut history = with_orders(options);
        let place = choose(&history, index, is_new_placeholder);
        let label = "capacity.trellis.dev/order";
        history.writes[place].object["metadata"]["labels"][label] = json!("unknown");
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::UnorderedPlaceholder), "{:?}", broken);
    }

    /// A part of the histories ends with the deletion of the job.
    #[test]
    fn placeholder_that_stays_after_its_order_is_reported(
        options in any_options(),
        index in any::<Index>(),
    ) {
        let mut history = with_orders(options);
        let place = choose(&history, index, |write| is_placeholder(write) && write.is_deletion);
        history.writes.remove(place);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::LeftPlaceholder), "{:?}", broken);
    }

    #[test]
    fn pod_that_is_created_beside_a_placeholder_is_reported(
        options in any_options(),
        index in any::<Index>(),
    ) {
        let mut history = with_orders(options);
        let place = choose(&history, index, |write| is_placeholder(write) && write.is_deletion);
        let gone = history.writes.remove(place);
        let later = history.writes[place..].iter().position(is_created).unwrap();
        let second = history.writes[place + later].second;
        history.writes.insert(place + later + 1, Write { second, ..gone });
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::SecondPurchase), "{:?}", broken);
    }

    /// Autoscalers ignore a pod that has ended. The Job controller deletes it later.
    #[test]
    fn placeholder_that_has_ended_breaks_no_rule(options in any_options(), index in any::<Index>()) {
        let mut history = with_orders(options);
        let place = choose(&history, index, |write| is_placeholder(write) && write.is_deletion);
        history.writes[place].is_deletion = false;
        history.writes[place].object["status"]["phase"] = json!("Failed");
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    /// The journal had the order when the list was made, and the watch of PodGroups is late.
    #[test]
    fn listed_placeholder_breaks_no_rule(options in any_options(), index in any::<Index>()) {
        let mut history = with_orders(options);
        let ordered = choose(&history, index, is_order);
        let mut order = history.writes.remove(ordered);
        order.second = history.writes[ordered].second;
        history.writes[ordered].is_listed = true;
        history.writes.insert(ordered + 1, order);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn order_that_ends_without_a_plan_breaks_no_rule(options in any_options(), index in any::<Index>()) {
        let mut history = with_orders(options);
        let ordered = choose(&history, index, is_order);
        // The same order is made, ends, and is made again under another hash.
        let mut journal = history.writes[ordered].object.clone();
        journal["status"]["provisioning"]["hash"] = json!("given-up");
        let mut placeholder = history.writes[ordered + 1].object.clone();
        placeholder["metadata"]["labels"]["capacity.trellis.dev/order"] = json!("given-up");
        placeholder["metadata"]["name"] = json!("given-up");
        let mut ended = journal.clone();
        ended["status"]["phase"] = json!("Pending");
        ended["status"].as_object_mut().unwrap().remove("provisioning");
        let writes = [
            (Kind::Group, journal),
            (Kind::Pod, placeholder.clone()),
            (Kind::Group, ended),
            (Kind::Pod, placeholder),
        ];
        history.insert(ordered, writes);
        history.writes[ordered + 3].is_deletion = true;
        for write in &mut history.writes[ordered + 3..] {
            write.second += 50;
        }
        history.pass(50);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }
}
