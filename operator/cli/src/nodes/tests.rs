use serde_json::{Value, json};

use super::*;

fn node(name: &str, rack: &str, [jobs, external, reserved]: [i64; 3], fields: Value) -> NodeState {
    let free = [jobs, external, reserved]
        .iter()
        .fold(8_i64, |free, taken| free.saturating_sub(*taken));
    let mut node = json!({
        "apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "NodeState",
        "metadata": {"name": name}, "schedulable": true, "otherPods": 2,
        "domains": [{"topology": "dc", "level": "zone", "domain": "z1"}, {"topology": "dc", "level": "rack", "domain": rack}],
        "resources": [
            {"resource": "cpu", "allocatable": "96", "jobs": "64", "others": "1", "kept": "0", "free": "31"},
            {"resource": "memory", "allocatable": "1Ti", "jobs": "0", "others": "0", "kept": "0", "free": "1Ti"},
            {"resource": "nvidia.com/gpu", "allocatable": "8", "jobs": jobs.to_string(),
                "others": external.to_string(), "kept": reserved.to_string(), "free": free.to_string()}],
    });
    let fields = fields.as_object().unwrap().clone();
    node.as_object_mut().unwrap().extend(fields);
    serde_json::from_value(node).unwrap()
}

fn hold(name: &str, gpus: &str) -> Value {
    json!({"namespace": "team-a", "name": name, "pods": 1, "state": "Running",
        "devices": [{"resource": "nvidia.com/gpu", "amount": gpus}]})
}

fn cluster() -> Vec<NodeState> {
    let mut starting = hold("bert", "2");
    starting["state"] = json!("Starting");
    let mut reserved = hold("next", "4");
    reserved["expectedStart"] = json!("2026-01-01T13:03:20Z");
    let mut reservation = hold("llm", "2");
    reservation["until"] = json!("2026-01-01T12:01:30Z");
    vec![
        node(
            "gpu-10",
            "r2",
            [0, 0, 0],
            json!({"reservedFor": [reserved], "excludedBy": [{"namespace": "team-a", "name": "llm"}]}),
        ),
        node(
            "gpu-9",
            "r1",
            [4, 2, 2],
            json!({"jobs": [hold("llm", "2"), starting], "keptFor": [reservation]}),
        ),
        node(
            "gpu-2",
            "r1",
            [8, 0, 0],
            json!({"jobs": [hold("a", "2"), hold("b", "2"), hold("c", "1"), hold("d", "1"), hold("e", "2")], "otherPods": 1}),
        ),
        node(
            "gpu-3",
            "r2",
            [3, 0, 0],
            json!({"schedulable": false, "otherPods": 0, "jobs": [hold("x", "3")],
            "reasons": [{"reason": "Unhealthy", "message": "GpuMemWatch: XID 79"}], "taints": ["nvidia.com/gpu=bad:NoSchedule"]}),
        ),
    ]
}

fn sorted(nodes: &[NodeState]) -> Vec<&NodeState> {
    let mut sorted: Vec<_> = nodes.iter().collect();
    sorted.sort_by(|a, b| device_counts::sort_key(a).cmp(&device_counts::sort_key(b)));
    sorted
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

#[test]
fn nodes_list_their_holders() {
    let nodes = cluster();
    let nodes = sorted(&nodes);
    let rows = node_table::render_table(&nodes, now(), false, None);
    insta::assert_snapshot!(plain(&format!(
        "{rows}\n{}",
        device_counts::render_summary(&nodes)
    )));
}

#[test]
fn wide_table_has_all_columns() {
    let nodes = cluster();
    insta::assert_snapshot!(plain(&node_table::render_table(
        &sorted(&nodes),
        now(),
        true,
        None
    )));
}

#[test]
fn map_draws_the_devices() {
    let nodes = cluster();
    insta::assert_snapshot!(plain(&map::render_map(&sorted(&nodes))));
}

#[test]
fn empty_selection_names_the_filter() {
    #[derive(clap::Parser)]
    struct NodesCommandLine {
        #[command(flatten)]
        options: NodesOptions,
    }
    for (arguments, full, message) in [
        (&["nodes", "--bad"][..], false, "no node is bad\n"),
        (&["nodes", "--free"], true, "no node has devices free\n"),
        (&["nodes"], true, "there is no node\n"),
    ] {
        let options = <NodesCommandLine as clap::Parser>::parse_from(arguments).options;
        let well = node("gpu-1", "r1", [8, 0, 0], json!({}));
        let nodes = if full && arguments.len() == 1 {
            vec![]
        } else {
            vec![well]
        };
        let look = build_view(&nodes, &options).unwrap();
        assert_eq!(look.text, message, "{arguments:?}");
    }
}

#[test]
fn node_without_devices_or_domains_has_a_row() {
    let bare = json!({"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "NodeState",
        "metadata": {"name": "cpu-1"}, "schedulable": true, "otherPods": 0});
    let bare: NodeState = serde_json::from_value(bare).unwrap();
    let rows = plain(&node_table::render_table(&[&bare], now(), false, None));
    assert_eq!(
        rows,
        "NODE    STATE   FREE   DEVICES   HELD BY\ncpu-1   Idle    -      -\n"
    );
    assert_eq!(
        plain(&device_counts::render_summary(&[&bare])),
        "no devices\n"
    );
    assert!(plain(&map::render_map(&[&bare])).starts_with("cpu-1  no devices\n"));
    assert!(!device_counts::is_free(&bare));
}
