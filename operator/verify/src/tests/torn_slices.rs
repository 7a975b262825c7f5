//! Slices outside the gang have all their pods or none.

use proptest::prelude::*;
use serde_json::json;

use super::gang_history::{GangHistory, HistoryOptions, Kind, any_options_of_one_attempt};
use super::write_filters::{is_created_for_good, is_placed, name, run_for_long};
use crate::Rule;

/// Returns a history whose job has a second slice outside the gang, with pods of these numbers after
/// those of the gang.
fn history_with_slice(mut options: HistoryOptions, surplus: &[usize]) -> GangHistory {
    options.restarts_pod = false;
    options.has_stages = false;
    options.has_surplus = false;
    let gang = options.pods;
    let mut history = GangHistory::new(options);
    for write in &mut history.writes {
        let object = &mut write.object;
        match write.kind {
            Kind::Job => {
                let group = &mut object["spec"]["taskGroups"][0];
                group["replicas"] = json!(2 * gang);
                group["minReplicas"] = json!(gang);
                group["topology"] = json!({"slices": [{"level": "rack", "pods": gang}]});
            }
            Kind::Group if object["status"]["plan"].is_object() => {
                let elastic = json!([{"name": "worker", "replicas": 2 * gang}]);
                object["status"]["plan"]["elastic"] = elastic;
            }
            _ => {}
        }
    }
    let placed = history.find(is_placed)[0];
    let first = history.find(is_created_for_good)[0];
    let model = history.writes[first].clone();
    for number in surplus {
        let mut write = model.clone();
        let index = gang + number;
        write.second = history.writes[placed].second;
        write.object["metadata"]["name"] = json!(format!("j-worker-{index}"));
        write.object["metadata"]["uid"] = json!(format!("surplus-{index}"));
        write.object["metadata"]["labels"][trellis_api::names::INDEX] = json!(index.to_string());
        write.object["metadata"]["annotations"][trellis_api::names::EPOCH] = json!("1");
        history.writes.insert(placed + 1, write);
    }
    run_for_long(&mut history);
    history
}

proptest! {
    #[test]
    fn slice_without_one_of_its_pods_is_torn(mut options in any_options_of_one_attempt()) {
        options.pods = options.pods.max(2);
        let all: Vec<usize> = (0..options.pods).collect();
        let whole = history_with_slice(options, &all);
        prop_assert!(!whole.broken_rules().contains(&Rule::Torn), "{:?}", whole.broken_rules());
        let torn = history_with_slice(options, &all[1..]);
        prop_assert!(torn.broken_rules().contains(&Rule::Torn), "{:?}", torn.broken_rules());
        let first = torn.writes.iter().find(|write| name(write) == "j-worker-0");
        prop_assert!(first.is_some(), "the gang is whole");
    }
}
