//! Tests of the obstacles to new nodes, as the explanation of a waiting gang names them.

use super::*;
use trellis_scheduler::{GangId, Taint, TaintEffect};

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
fn explanation_has_the_new_nodes_that_will_be_ordered() {
    let mut engine = growing_engine(64);
    engine.apply_gang(growing_gang("w", 2));
    run_cycle_at(&mut engine, seconds(0));
    let explanation = engine.explanation(&id("w")).unwrap();
    assert_eq!(
        explanation.to_string(),
        "there are no nodes; the job would start with 2 new nodes of flavor \"h100\", to be ordered \
         once it has lacked only nodes for 30 s"
    );
    run_cycle_at(&mut engine, seconds(30));
    assert_eq!(obstacle(&engine, "w"), None, "the nodes are on order");
}

#[test]
fn explanation_has_max_nodes_if_the_flavor_may_not_grow_enough() {
    let mut engine = growing_engine(4);
    engine.apply_node(pool_node("n0", "h100"));
    assert_eq!(
        obstacle_of(&mut engine, growing_gang("w", 5)).as_deref(),
        Some("maxNodes permits only 3 new nodes of flavor \"h100\", and the job needs more")
    );
    for node in ["n1", "n2", "n3"] {
        engine.apply_node(pool_node(node, "h100"));
    }
    run_cycle_at(&mut engine, seconds(31));
    assert_eq!(
        obstacle(&engine, "w").as_deref(),
        Some("flavor \"h100\" has 4 nodes, and its maxNodes permits 4")
    );
}

#[test]
fn explanation_has_the_amount_of_a_pod_that_is_larger_than_a_new_node() {
    let large = Gang {
        provisions: true,
        ..workers("w", 1, gpu(1, 9))
    };
    assert_eq!(
        obstacle_of(&mut growing_engine(64), large).as_deref(),
        Some(
            "one pod needs 9 nvidia.com/gpu, and a new node of flavor \"h100\" has 8 \
             (node.allocatable)"
        )
    );
}

#[test]
fn explanation_has_the_label_that_the_gang_selects_and_new_nodes_lack() {
    let mut gang = growing_gang("w", 2);
    for group in &mut gang.groups {
        let selector = &mut group.constraints.node_selector;
        selector.insert("kubernetes.io/arch".to_owned(), "arm64".to_owned());
    }
    assert_eq!(
        obstacle_of(&mut growing_engine(64), gang).as_deref(),
        Some(
            "new nodes of flavor \"h100\" lack label \"kubernetes.io/arch=arm64\", which the job \
             selects: if they will have it, add it to node.labels of the flavor"
        )
    );
}

#[test]
fn explanation_has_the_taint_of_new_nodes_that_the_gang_does_not_tolerate() {
    let mut engine = growing_engine(64);
    let mut flavor = growing_flavor("h100", 64);
    if let Some(growth) = &mut flavor.growth {
        growth.node.taints = vec![Taint {
            key: "maintenance".to_owned(),
            value: String::new(),
            effect: TaintEffect::NoSchedule,
        }];
    }
    engine.apply_flavor(flavor);
    assert_eq!(
        obstacle_of(&mut engine, growing_gang("w", 1)).as_deref(),
        Some(
            "new nodes of flavor \"h100\" have taint \"maintenance:NoSchedule\", which the job does not \
             tolerate"
        )
    );
}

#[test]
fn explanation_has_the_topology_label_that_new_nodes_lack() {
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
            "new nodes of flavor \"h100\" lack label \"zone\" of a topology level that the job requires: add it \
             to node.labels of the flavor"
        )
    );
}

#[test]
fn explanation_has_the_queue_that_permits_no_nodes() {
    for (scope, expected) in [
        (
            ProvisioningScope::Never,
            "queue \"default\" permits no new nodes (provisioning.order)",
        ),
        (
            ProvisioningScope::Nominal,
            "the job would borrow quota, and queue \"default\" permits new nodes only within its own quota (provisioning.order)",
        ),
    ] {
        let mut engine = growing_engine(64);
        let mut queue = growing_queue("default", 16, &["h100"]);
        queue.parent = Some(QueueName::new("root"));
        queue.provisioning.scope = scope;
        engine.apply_queue(growing_queue("root", 64, &["h100"]));
        engine.apply_queue(queue);
        let obstacle = obstacle_of(&mut engine, growing_gang("w", 4));
        assert_eq!(obstacle.as_deref(), Some(expected));
    }
}

#[test]
fn explanation_has_the_denial_by_a_policy() {
    let mut engine = growing_engine(64);
    let denial = "policy x denies nodes of flavor \"h100\"".to_owned();
    let gang = Gang {
        denied_flavors: BTreeMap::from([(FlavorName::new("h100"), denial.clone())]),
        ..growing_gang("w", 2)
    };
    assert_eq!(obstacle_of(&mut engine, gang), Some(denial));
}

#[test]
fn explanation_has_the_end_of_the_back_off() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 2));
    engine.fail_provisioning(&id("w"));
    run_cycle_at(&mut engine, seconds(40));
    assert_eq!(
        obstacle(&engine, "w").as_deref(),
        Some(
            "nodes of flavor \"h100\" did not come in time, and are not ordered again before \
             1970-01-01T00:01:40Z"
        )
    );
}

#[test]
fn explanation_has_the_maximum_number_of_gangs() {
    let mut engine = growing_engine(64);
    for number in 0..9 {
        engine.apply_gang(growing_gang(&format!("w{number}"), 2));
    }
    run_cycle_at(&mut engine, seconds(0));
    run_cycle_at(&mut engine, seconds(30));
    assert_eq!(
        obstacle(&engine, "w8").as_deref(),
        Some("8 other jobs already wait for new nodes of flavor \"h100\", which is the maximum")
    );
}

#[test]
fn explanation_has_the_first_of_the_obstacles_of_several_flavors() {
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
        Some("maxNodes permits only 1 new node of flavor \"h100\", and the job needs more")
    );
}

#[test]
fn explanation_has_no_obstacle_if_neither_flavor_nor_gang_permits_new_nodes() {
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

#[test]
fn new_nodes_on_order_for_other_gangs_are_counted() {
    let mut engine = growing_engine(4);
    submit(&mut engine, growing_gang("a", 3));
    assert_eq!(
        obstacle_of(&mut engine, growing_gang("b", 2)).as_deref(),
        Some(
            "maxNodes permits only 4 new nodes of flavor \"h100\" (3 are on order for other jobs), and \
             the job needs more"
        )
    );
}

/// More nodes would not help, although an existing node is large enough for one pod.
#[test]
fn existing_larger_node_does_not_hide_that_new_nodes_are_too_small() {
    let mut engine = growing_engine(64);
    engine.apply_node(label(gpu_node("large", 16), POOL, "h100"));
    let gang = Gang {
        provisions: true,
        ..workers("w", 2, gpu(1, 16))
    };
    let obstacle = obstacle_of(&mut engine, gang).unwrap();
    assert!(
        obstacle.starts_with("one pod needs 16 nvidia.com/gpu, and a new node"),
        "{obstacle}"
    );
}

/// Zone `b` has two free nodes, and new nodes are in zone `a`.
#[test]
fn domain_that_new_nodes_could_fill_is_limited_by_max_nodes() {
    let mut engine = growing_engine(4);
    let mut flavor = growing_flavor("h100", 4);
    if let Some(growth) = &mut flavor.growth {
        let zone = ("zone".to_owned(), "a".to_owned());
        growth.node.labels.extend([zone]);
    }
    engine.apply_flavor(flavor);
    engine.apply_topology(crate::topology::topology("t", &["zone"]));
    for node in ["n0", "n1"] {
        engine.apply_node(label(pool_node(node, "h100"), "zone", "b"));
    }
    let gang = Gang {
        topology: Some(TopologyRequest::required("zone")),
        ..growing_gang("w", 3)
    };
    assert_eq!(
        obstacle_of(&mut engine, gang).as_deref(),
        Some("maxNodes permits only 2 new nodes of flavor \"h100\", and the job needs more")
    );
}

#[test]
fn lasting_obstacle_is_reported_before_a_temporary_one() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 2));
    engine.fail_provisioning(&id("w"));
    run_cycle_at(&mut engine, seconds(40));
    let large = Gang {
        provisions: true,
        ..workers("large", 1, gpu(1, 9))
    };
    engine.apply_gang(large);
    run_cycle_at(&mut engine, seconds(41));
    let obstacle = obstacle(&engine, "large").unwrap();
    assert!(obstacle.starts_with("one pod needs 9"), "{obstacle}");
}

#[test]
fn changed_obstacle_is_reported() {
    let mut engine = growing_engine(64);
    for number in 0..9 {
        engine.apply_gang(growing_gang(&format!("w{number}"), 2));
    }
    run_cycle_at(&mut engine, seconds(0));
    let decisions = run_cycle_at(&mut engine, seconds(30));
    let last = decisions.iter().filter(|text| text.contains("w8")).count();
    assert_eq!(last, 1, "too many gangs wait: {decisions:?}");
    assert!(run_cycle_at(&mut engine, seconds(31)).is_empty());
}

#[test]
fn gang_is_tried_again_once_its_queue_permits_new_nodes() {
    let mut engine = growing_engine(64);
    let mut queue = growing_queue("default", 1_000, &["h100"]);
    queue.provisioning.scope = ProvisioningScope::Never;
    engine.apply_queue(queue);
    submit(&mut engine, growing_gang("w", 2));
    engine.apply_queue(growing_queue("default", 1_000, &["h100"]));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(60)),
        ["$w 2 h100", "-w Provisioning"]
    );
}

#[test]
fn gang_is_tried_again_once_its_flavor_permits_more_nodes() {
    let mut engine = growing_engine(1);
    engine.apply_node(pool_node("n0", "h100"));
    submit(&mut engine, growing_gang("w", 2));
    engine.apply_flavor(growing_flavor("h100", 2));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(60)),
        ["$w 1 h100", "-w Provisioning"]
    );
}

#[test]
fn gang_that_may_only_preempt_first_has_an_obstacle_too() {
    let mut engine = growing_engine(1);
    let mut queue = growing_queue("default", 1_000, &["h100"]);
    queue.provisioning.after_preemption = true;
    engine.apply_queue(queue);
    assert_eq!(
        obstacle_of(&mut engine, growing_gang("w", 2)).as_deref(),
        Some("maxNodes permits only 1 new node of flavor \"h100\", and the job needs more")
    );
}
