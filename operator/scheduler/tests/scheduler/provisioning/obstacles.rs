//! Tests of the obstacles to new nodes, as the explanation of a waiting gang names them.

use super::*;
use trellis_scheduler::GangId;

/// Returns the part of a gang's explanation that follows the shortage.
fn obstacle(engine: &Engine, gang: &str) -> Option<String> {
    obstacle_by_id(engine, &id(gang))
}

fn obstacle_by_id(engine: &Engine, gang: &GangId) -> Option<String> {
    let explanation = engine.explanation(gang).unwrap();
    Some(explanation.provisioning_obstacle.as_ref()?.to_string())
}

/// Submits the gang, and returns its obstacle 30 s later.
fn obstacle_of(engine: &mut Engine, gang: Gang) -> Option<String> {
    let id = gang.id.clone();
    submit(engine, gang);
    obstacle_by_id(engine, &id)
}

#[test]
fn gang_is_told_when_its_nodes_are_ordered() {
    let mut engine = growing_engine(64);
    engine.apply_gang(growing_gang("w", 2));
    run_cycle_at(&mut engine, seconds(0));
    let explanation = engine.explanation(&id("w")).unwrap();
    assert_eq!(
        explanation.to_string(),
        "there are no nodes; it would start with 2 new nodes of flavor \"h100\", to be ordered at \
         1970-01-01T00:00:30Z"
    );
    assert_eq!(
        format!("{explanation:#}"),
        "there are no nodes; it would start with 2 new nodes of flavor \"h100\", to be ordered at \
         30 s"
    );
    run_cycle_at(&mut engine, seconds(30));
    assert_eq!(obstacle(&engine, "w"), None, "the nodes are on order");
}

#[test]
fn gang_is_told_the_maximum_of_its_flavor() {
    let mut engine = growing_engine(4);
    engine.apply_node(pool_node("n0", "h100"));
    assert_eq!(
        obstacle_of(&mut engine, growing_gang("w", 5)).as_deref(),
        Some("3 new nodes of flavor \"h100\", all that maxNodes permits, would not suffice")
    );
    for node in ["n1", "n2", "n3"] {
        engine.apply_node(pool_node(node, "h100"));
    }
    run_cycle_at(&mut engine, seconds(31));
    assert_eq!(
        obstacle(&engine, "w").as_deref(),
        Some("flavor \"h100\" has all 4 nodes that its maxNodes permits")
    );
}

#[test]
fn gang_is_told_that_new_nodes_would_not_help() {
    let large = Gang {
        provisions: true,
        ..workers("w", 1, gpu(1, 9))
    };
    assert_eq!(
        obstacle_of(&mut growing_engine(64), large).as_deref(),
        Some(
            "new nodes of flavor \"h100\" would not help: needs 9 nvidia.com/gpu on one node; the \
             largest of 64 matching nodes has 8"
        )
    );
}

#[test]
fn gang_is_told_that_new_nodes_lack_the_label_of_its_topology_level() {
    let mut engine = growing_engine(64);
    engine.apply_topology(crate::topology::topology("t", &["zone"]));
    engine.apply_node(label(pool_node("n0", "h100"), "zone", "b"));
    let gang = Gang {
        topology: Some(TopologyRequest::required("zone")),
        ..growing_gang("w", 2)
    };
    assert_eq!(
        obstacle_of(&mut engine, gang).as_deref(),
        Some(
            "new nodes of flavor \"h100\" would not help: they have no label \"zone\", see \
             node.labels of the flavor"
        )
    );
}

#[test]
fn gang_is_told_that_its_queue_orders_no_nodes_for_it() {
    for (scope, expected) in [
        (
            ProvisioningScope::Never,
            "queue \"default\" orders no nodes",
        ),
        (
            ProvisioningScope::Nominal,
            "queue \"default\" orders nodes only within its own quota",
        ),
    ] {
        let mut engine = growing_engine(64);
        let mut queue = growing_queue("default", 16, &["h100"]);
        queue.parent = Some(QueueName::new("root"));
        queue.provisioning.scope = scope;
        engine.apply_queue(growing_queue("root", 64, &["h100"]));
        engine.apply_queue(queue);
        let told = obstacle_of(&mut engine, growing_gang("w", 4));
        assert_eq!(told.as_deref(), Some(expected));
    }
}

#[test]
fn gang_is_told_the_denial_of_its_flavor() {
    let mut engine = growing_engine(64);
    let denial = "policy x denies nodes of flavor \"h100\"".to_owned();
    let gang = Gang {
        denied_flavors: BTreeMap::from([(FlavorName::new("h100"), denial.clone())]),
        ..growing_gang("w", 2)
    };
    assert_eq!(obstacle_of(&mut engine, gang), Some(denial));
}

#[test]
fn gang_is_told_the_end_of_a_back_off() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 2));
    engine.fail_provisioning(&id("w"));
    run_cycle_at(&mut engine, seconds(40));
    assert_eq!(
        obstacle(&engine, "w").as_deref(),
        Some(
            "nodes of flavor \"h100\" did not come, and are not ordered again before \
             1970-01-01T00:01:40Z"
        )
    );
}

#[test]
fn gang_is_told_that_too_many_gangs_wait_for_new_nodes() {
    let mut engine = growing_engine(64);
    for number in 0..9 {
        engine.apply_gang(growing_gang(&format!("w{number}"), 1));
    }
    run_cycle_at(&mut engine, seconds(0));
    run_cycle_at(&mut engine, seconds(30));
    assert_eq!(
        obstacle(&engine, "w8").as_deref(),
        Some("it gets no new nodes while 8 other jobs wait for new nodes of flavor \"h100\"")
    );
}

#[test]
fn gang_is_told_the_obstacle_of_the_flavor_that_is_nearest_to_an_order() {
    let mut engine = growing_engine(1);
    engine.apply_flavor(growing_flavor("a100", 64));
    engine.apply_queue(growing_queue("default", 1_000, &["h100", "a100"]));
    let denial = "policy x denies nodes of flavor \"a100\"".to_owned();
    let gang = Gang {
        denied_flavors: BTreeMap::from([(FlavorName::new("a100"), denial)]),
        ..growing_gang("w", 2)
    };
    assert_eq!(
        obstacle_of(&mut engine, gang).as_deref(),
        Some("1 new node of flavor \"h100\", all that maxNodes permits, would not suffice")
    );
}

#[test]
fn gang_without_a_growing_flavor_is_told_nothing_about_new_nodes() {
    let mut engine = growing_engine(64);
    engine.apply_flavor(Flavor {
        growth: None,
        ..growing_flavor("fixed", 0)
    });
    engine.apply_queue(growing_queue("default", 1_000, &["fixed"]));
    assert_eq!(obstacle_of(&mut engine, growing_gang("w", 2)), None);
    let unable = priority_gang(0, "unable", 2);
    engine.apply_queue(growing_queue("default", 1_000, &["h100"]));
    assert_eq!(obstacle_of(&mut engine, unable), None);
}
