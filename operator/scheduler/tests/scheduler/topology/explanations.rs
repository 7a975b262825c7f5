//! Tests of the exact sentences that users read if no domain has a place for a gang.

use crate::common::*;
use crate::topology::whole_node_gang;
use trellis_scheduler::{
    Engine, Gang, Node, NodeName, Topology, TopologyLevel, TopologyName, TopologyRequest,
};

fn required(level: &str) -> Option<TopologyRequest> {
    Some(TopologyRequest::required(level))
}

fn hall_node(name: &str, block: &str, rack: &str) -> Node {
    label(label(gpu_node(name, 8), "block", block), "rack", rack)
}

/// Returns an engine with two blocks with racks of 1 and 2 nodes.
fn hall_engine() -> Engine {
    let mut engine = engine([
        hall_node("n0", "block-1", "rack-1"),
        hall_node("n1", "block-1", "rack-2"),
        hall_node("n2", "block-1", "rack-2"),
        hall_node("n3", "block-2", "rack-1"),
    ]);
    engine.apply_topology(Topology {
        name: TopologyName::new("hall"),
        levels: vec![
            TopologyLevel::from_label("block"),
            TopologyLevel::from_label("rack"),
        ],
    });
    engine
}

fn explain_gang(engine: &mut Engine, gang: &Gang) -> String {
    let explanation = trial_explanation(engine, gang);
    format!("{}: {explanation}", explanation.reason)
}

#[test]
fn no_topology_has_the_level() {
    let mut engine = engine(gpu_nodes(1));
    let gang = whole_node_gang(1, Some(TopologyRequest::preferred("row")));
    assert_eq!(
        explain_gang(&mut engine, &gang),
        "TopologyNotFound: topology.preferred: no Topology has a level \"row\": \
         create one that has it (there is none)"
    );
    let mut several = crate::common::gang(
        "w",
        vec![group("a", 1, gpu(1, 1)), group("b", 1, gpu(1, 1))],
    );
    several.groups[1].topology = required("row");
    assert_eq!(
        explain_gang(&mut hall_engine(), &several),
        "TopologyNotFound: group \"b\": topology.required: no Topology has a level \"row\": \
         name one of \"block\", \"rack\", or create a Topology that has it"
    );
}

#[test]
fn preferred_level_is_finer_than_the_required_one_in_its_topology() {
    let mut engine = hall_engine();
    engine.apply_topology(Topology {
        name: TopologyName::new("power"),
        levels: vec![
            TopologyLevel::from_label("block"),
            TopologyLevel::from_label("feed"),
        ],
    });
    // The first topology by name that has the required level counts, and it has no feed.
    for (required, preferred) in [("block", "feed"), ("rack", "block"), ("rack", "rack")] {
        let gang = whole_node_gang(
            1,
            Some(TopologyRequest::required_and_preferred(required, preferred)),
        );
        assert_eq!(
            explain_gang(&mut engine, &gang),
            format!(
                "TopologyNotFound: topology.preferred: {preferred:?} is no finer level than \
                 {required:?} in the same Topology: name a finer one, or remove one of both"
            )
        );
    }
    let gang = whole_node_gang(
        1,
        Some(TopologyRequest::required_and_preferred("block", "row")),
    );
    assert_eq!(
        explain_gang(&mut engine, &gang),
        "TopologyNotFound: topology.preferred: no Topology has a level \"row\": \
         name one of \"block\", \"rack\", \"feed\", or create a Topology that has it"
    );
}

/// Gangs request a level by its name. The label of the level decides the domains of nodes.
#[test]
fn level_is_requested_by_name_and_matched_by_label() {
    let mut engine = hall_engine();
    engine.delete_topology(&TopologyName::new("hall"));
    let level = |name: &str, label: &str| TopologyLevel {
        name: name.into(),
        node_label: label.into(),
    };
    engine.apply_topology(Topology {
        name: TopologyName::new("hall"),
        levels: vec![level("row", "block"), level("leaf", "rack")],
    });
    assert_eq!(
        explain_gang(&mut engine, &whole_node_gang(3, required("leaf"))),
        "ExceedsTopology: 3 pods must be in one domain of level \"leaf\"; \
         \"block-1/rack-2\", the largest of 3, has room for 2 even when empty"
    );
    let labels = engine.domain_labels("leaf", &NodeName::new("n2")).unwrap();
    let labels: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(labels, ["block=block-1", "rack=rack-2"]);
    assert_eq!(engine.domain_labels("rack", &NodeName::new("n2")), None);
}

#[test]
fn no_domain_could_hold_the_gang_even_if_empty() {
    let mut engine = hall_engine();
    assert_eq!(
        explain_gang(&mut engine, &whole_node_gang(3, required("rack"))),
        "ExceedsTopology: 3 pods must be in one domain of level \"rack\"; \
         \"block-1/rack-2\", the largest of 3, has room for 2 even when empty"
    );
    engine.apply_node(label(gpu_node("n4", 8), "rack", "rack-2"));
    assert_eq!(
        explain_gang(&mut engine, &whole_node_gang(4, required("block"))),
        "ExceedsTopology: 4 pods must be in one domain of level \"block\"; \
         \"block-1\", the largest of 2, has room for 3 even when empty; \
         1 node is in no domain of level \"block\", because it lacks the label \"block\""
    );
    let mut bare = crate::common::engine(gpu_nodes(2));
    bare.apply_topology(Topology {
        name: TopologyName::new("hall"),
        levels: vec![TopologyLevel::from_label("rack")],
    });
    assert_eq!(
        explain_gang(&mut bare, &whole_node_gang(1, required("rack"))),
        "ExceedsTopology: 1 pod must be in one domain of level \"rack\", \
         and no node has the label \"rack\": label the nodes, or ask for another level"
    );
}

#[test]
fn enough_capacity_is_free_but_not_in_one_domain() {
    let mut engine = hall_engine();
    apply_pod(&mut engine, "x/a", "n1", gpu(1, 1));
    assert_eq!(
        explain_gang(&mut engine, &whole_node_gang(2, required("rack"))),
        "TopologyFragmented: 2 pods must be in one domain of level \"rack\"; \
         \"block-1/rack-1\", the best of 3, has room for 1; it would fit with 1 nvidia.com/gpu \
         more free on \"n1\""
    );
    let mut several = gang(
        "w",
        vec![group("a", 1, gpu(1, 1)), group("b", 2, gpu(8, 8))],
    );
    several.groups[1].topology = required("rack");
    assert_eq!(
        explain_gang(&mut engine, &several),
        "TopologyFragmented: group \"b\": 2 pods must be in one domain of level \"rack\"; \
         \"block-1/rack-1\", the best of 3, has room for 1; it would fit with 1 nvidia.com/gpu \
         more free on \"n1\""
    );
}

#[test]
fn missing_total_capacity_is_reported_before_fragmentation() {
    let mut engine = hall_engine();
    for node in ["n0", "n1", "n3"] {
        apply_pod(&mut engine, &format!("x/{node}"), node, gpu(1, 8));
    }
    assert_eq!(
        explain_gang(&mut engine, &whole_node_gang(2, required("rack"))),
        "InsufficientCapacity: needs 16 nvidia.com/gpu, 8 are free on 4 matching nodes: \
         8 are missing; gangs hold 0, other pods 24"
    );
}

#[test]
fn groups_fit_alone_but_not_together_in_their_domains() {
    let mut engine = hall_engine();
    let mut pipeline = gang(
        "w",
        vec![group("a", 2, gpu(8, 8)), group("b", 2, gpu(8, 8))],
    );
    for group in &mut pipeline.groups {
        group.topology = required("rack");
    }
    engine.apply_node(hall_node("n4", "block-2", "rack-2"));
    assert_eq!(
        explain_gang(&mut engine, &pipeline),
        "ExceedsTopology: group \"b\": 2 pods must be in one domain of level \"rack\", \
         and 4 domains do not hold all together as close as they must be even when empty"
    );
    engine.apply_node(hall_node("n5", "block-2", "rack-2"));
    pipeline.topology = required("block");
    assert_eq!(
        explain_gang(&mut engine, &pipeline),
        "ExceedsTopology: 4 pods must be in one domain of level \"block\"; \
         \"block-1\", the largest of 2, has room for 3 even when empty"
    );
    pipeline.topology = None;
    assert_eq!(
        trial_placement(&mut engine, &pipeline),
        "a: n1*1 n2*1, b: n4*1 n5*1"
    );
}

#[test]
fn excluded_nodes_are_the_reason_if_they_would_suffice() {
    let mut engine = hall_engine();
    let mut gang = whole_node_gang(2, required("rack"));
    gang.excluded_nodes = vec![NodeName::new("n1")];
    assert_eq!(
        explain_gang(&mut engine, &gang),
        "NodesAvoided: 1 node is left out for a while after a failure there, \
         and the others do not suffice"
    );
}
