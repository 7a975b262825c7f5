use serde_json::json;
use trellis_api::names;
use trellis_api::topology::TopologySpec;

use super::*;

fn spec(groups: serde_json::Value) -> TrainingJobSpec {
    let mut groups = groups;
    for group in groups.as_array_mut().unwrap() {
        group["image"] = json!("i");
    }
    serde_json::from_value(json!({"taskGroups": groups})).unwrap()
}

fn plan(runs: &[(&str, &str, i64)]) -> Plan {
    let run = |(group, node, count): &(&str, &str, i64)| json!({"group": group, "node": node, "count": count});
    let runs: Vec<_> = runs.iter().map(run).collect();
    serde_json::from_value(json!({
        "hash": "p", "attempt": 1, "generation": 1, "compiled": "c", "assignments": runs,
    }))
    .unwrap()
}

fn pod(group: &str, index: u32, node: Option<&str>) -> PodView {
    let pod = json!({"metadata": {
            "labels": {names::JOB: "llm", names::JOB_UID: "mine", names::GROUP: group,
                names::INDEX: index.to_string(), names::ATTEMPT: "1"},
            "annotations": {names::PLAN: "p"}},
        "spec": {"nodeName": node}, "status": {"phase": "Running"}});
    let pod = serde_json::from_value(pod).unwrap();
    PodView::from_pod(&pod).unwrap().1
}

fn hall() -> Vec<Topology> {
    let spec: TopologySpec =
        serde_json::from_value(json!({"levels": [{"nodeLabel": "rack"}]})).unwrap();
    vec![engine::to_engine_topology("hall", &spec)]
}

/// A node `a1` is in rack a. A node `x` has no rack.
fn find_node(name: &str) -> Option<SlimNode> {
    let labels = match name {
        "x" => json!({"zone": "z"}),
        _ => json!({"rack": name.get(..1)?, "zone": "z"}),
    };
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).ok()
}

fn measured(spec: &TrainingJobSpec, placement: &Placement) -> Vec<(String, i64, i64, i64)> {
    let levels = placement_levels(spec, placement, &hall(), find_node).into_iter();
    levels
        .map(|l| (l.level, l.domains, l.crossings, l.least_crossings))
        .collect()
}

fn rack(domains: i64, crossings: i64, least: i64) -> Vec<(String, i64, i64, i64)> {
    vec![("rack".to_owned(), domains, crossings, least)]
}

#[test]
fn groups_are_in_the_order_of_the_ranks() {
    let spec = spec(json!([
        {"name": "worker", "replicas": 3},
        {"name": "watch", "role": "Evaluator"},
        {"name": "chief", "role": "Coordinator"},
    ]));
    let plan = plan(&[
        ("worker", "a1", 1),
        ("worker", "b1", 2),
        ("watch", "c1", 1),
        ("chief", "b2", 1),
    ]);
    let placement = placement_with_surplus(&plan, "mine", [].into_iter());
    // Rank 0 is the chief in rack b, then a, b, b: the evaluator is outside the world.
    assert_eq!(measured(&spec, &placement), rack(2, 2, 2));
}

#[test]
fn surplus_pods_count_with_their_indexes() {
    let spec = spec(json!([{"name": "worker", "replicas": 6, "minReplicas": 2}]));
    let plan = plan(&[("worker", "a1", 1), ("worker", "b1", 1)]);
    let mut other_plan = pod("worker", 5, Some("c1"));
    other_plan.plan = "earlier".to_owned();
    let mut deleting = pod("worker", 4, Some("c1"));
    deleting.deleting = true;
    let pods = [
        pod("worker", 0, Some("a1")),
        pod("worker", 1, Some("b1")),
        pod("worker", 3, Some("b2")),
        pod("worker", 2, Some("a2")),
        deleting,
        other_plan,
    ];
    let placement = placement_with_surplus(&plan, "mine", pods.iter());
    // a, b, a, b
    assert_eq!(measured(&spec, &placement), rack(2, 4, 2));
    let gang = placement_with_surplus(&plan, "mine", [].into_iter());
    assert_eq!(measured(&spec, &gang), rack(2, 2, 2));
    let other_job = placement_with_surplus(&plan, "other", pods.iter());
    assert_eq!(measured(&spec, &other_job), rack(2, 2, 2));
}

#[test]
fn single_pods_and_nodes_without_domains_have_no_levels() {
    let one = spec(json!([{"name": "worker"}, {"name": "watch", "role": "Evaluator"}]));
    let runs = plan(&[("worker", "a1", 1), ("watch", "b1", 1)]);
    let placement = placement_with_surplus(&runs, "mine", [].into_iter());
    assert_eq!(measured(&one, &placement), []);
    let two = spec(json!([{"name": "worker", "replicas": 2}]));
    let together = placement_with_surplus(&plan(&[("worker", "a1", 2)]), "mine", [].into_iter());
    assert_eq!(measured(&two, &together), rack(1, 0, 0));
    for outside in ["x", ""] {
        let runs = plan(&[("worker", "a1", 1), ("worker", outside, 1)]);
        let placement = placement_with_surplus(&runs, "mine", [].into_iter());
        assert_eq!(measured(&two, &placement), [], "{outside:?}");
    }
}
