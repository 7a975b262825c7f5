//! Tests of new nodes for gangs that lack room.

mod ends;
mod obstacles;
mod order;
mod random;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::*;
use crate::kept_places::placement_text;
use crate::preemption::{priority_gang, run_cycle_at, seconds};
use trellis_scheduler::{
    Engine, Flavor, FlavorGrowth, FlavorName, FlavorQuotas, Gang, Node, NodeTemplate,
    ProvisioningPolicy, ProvisioningScope, Queue, QueueName, Quota, ResourceGroup, ResourceName,
    TopologyRequest, WaitReason,
};

const TIMEOUT: i64 = 1_800;
const IDLE: i64 = 600;
const POOL: &str = "pool";

/// Returns a flavor with label `pool=<name>` that may have this many nodes of 8 GPUs.
pub fn growing_flavor(name: &str, max_nodes: u32) -> Flavor {
    let labels = BTreeMap::from([(POOL.to_owned(), name.to_owned())]);
    let node = gpu_node("template", 8);
    Flavor {
        node_labels: labels.clone(),
        growth: Some(FlavorGrowth {
            node: NodeTemplate {
                labels,
                taints: Vec::new(),
                allocatable: node.allocatable,
            },
            max_nodes,
            timeout: Duration::from_secs(1_800),
            idle: Duration::from_secs(600),
            usual: None,
        }),
        ..Flavor::new(FlavorName::new(name))
    }
}

/// Returns a queue with a quota of this many GPUs of each flavor, which lets nodes be provisioned
/// after 30 s.
pub fn growing_queue(name: &str, gpus: i64, flavors: &[&str]) -> Queue {
    let offered = |flavor: &&str| FlavorQuotas {
        flavor: FlavorName::new(*flavor),
        quotas: [("cpu", 1_000_000), ("pods", 1_000), (GPU, gpus)]
            .map(|(resource, nominal)| {
                let quota = Quota {
                    nominal,
                    ..Quota::default()
                };
                (ResourceName::new(resource), quota)
            })
            .into(),
    };
    Queue {
        resource_groups: vec![ResourceGroup {
            flavors: flavors.iter().map(offered).collect(),
        }],
        provisioning: ProvisioningPolicy {
            scope: ProvisioningScope::Nominal,
            after: Duration::from_secs(30),
            after_preemption: false,
        },
        ..Queue::new(QueueName::new(name))
    }
}

/// Returns a gang that needs this many nodes, and may cause new ones.
pub fn growing_gang(name: &str, nodes: u32) -> Gang {
    Gang {
        provisions: true,
        ..priority_gang(0, name, nodes)
    }
}

/// Returns a node of the flavor.
pub fn pool_node(name: &str, flavor: &str) -> Node {
    label(gpu_node(name, 8), POOL, flavor)
}

/// Returns an engine without nodes, with a flavor `h100` that may have `max_nodes`, and a queue
/// `default` with a quota of 1,000 GPUs.
pub fn growing_engine(max_nodes: u32) -> Engine {
    let mut engine = Engine::new();
    engine.apply_flavor(growing_flavor("h100", max_nodes));
    engine.apply_queue(growing_queue("default", 1_000, &["h100"]));
    engine
}

/// Applies a gang at 0 s, and returns the decisions at 30 s.
pub fn submit(engine: &mut Engine, gang: Gang) -> Vec<String> {
    submit_at(engine, 0, gang)
}

/// Applies a gang at this second, and returns the decisions 30 s later.
pub fn submit_at(engine: &mut Engine, second: i64, gang: Gang) -> Vec<String> {
    engine.apply_gang(gang);
    run_cycle_at(engine, seconds(second));
    run_cycle_at(engine, seconds(second + 30))
}

#[test]
fn gang_starts_once_as_many_nodes_as_it_needs_have_arrived() {
    let mut engine = growing_engine(64);
    engine.apply_gang(growing_gang("w", 4));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(0)),
        ["-w NoMatchingNodes"],
        "running gangs may end in the first 30 s"
    );
    assert_eq!(engine.next_wakeup(), Some(seconds(30)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(30)),
        ["$w 4 h100", "-w Provisioning"]
    );
    assert_eq!(
        engine.explanation(&id("w")).unwrap().to_string(),
        "waits for 4 new nodes of flavor \"h100\": 0 are ready; the order times out at \
         1970-01-01T00:30:30Z"
    );
    for number in 0..3 {
        engine.apply_node(pool_node(&format!("n{number}"), "h100"));
        assert!(run_cycle_at(&mut engine, seconds(40 + number)).is_empty());
        let (wanted, arrived) = engine.provisioning(&id("w")).unwrap().progress();
        assert_eq!((wanted, i64::from(arrived)), (4, number + 1));
    }
    engine.apply_node(pool_node("n3", "h100"));
    assert_eq!(run_cycle_at(&mut engine, seconds(50)), ["+w"]);
    assert_eq!(placement_text(&engine, "w"), "worker: n0*1 n1*1 n2*1 n3*1");
    assert_eq!(engine.provisioning(&id("w")), None);
    assert_eq!(engine.next_wakeup(), None);
}

#[test]
fn explanation_counts_the_nodes_that_are_ready() {
    let mut engine = growing_engine(64);
    submit(&mut engine, growing_gang("w", 2));
    engine.apply_node(pool_node("n0", "h100"));
    run_cycle_at(&mut engine, seconds(40));
    let explanation = engine.explain(&id("w"), seconds(41)).unwrap().to_string();
    assert!(explanation.contains("1 is ready"), "{explanation}");
}

#[test]
fn free_nodes_are_used_before_new_ones() {
    let mut engine = growing_engine(64);
    for node in ["n0", "n1", "n2"] {
        engine.apply_node(pool_node(node, "h100"));
    }
    engine.apply_gang(workers("runs", 1, gpu(1, 8)));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+runs"]);
    assert_eq!(
        submit(&mut engine, growing_gang("w", 4)),
        ["$w 2 h100", "-w Provisioning"]
    );
    // The free nodes are kept for the gang.
    engine.apply_gang(workers("z", 1, gpu(1, 8)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(31)),
        ["-z InsufficientCapacity"]
    );
}

#[test]
fn flavor_gets_no_more_nodes_than_it_may_have() {
    let mut engine = growing_engine(4);
    engine.apply_node(pool_node("n0", "h100"));
    engine.apply_gang(workers("runs", 1, gpu(1, 8)));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+runs"]);
    assert!(submit(&mut engine, growing_gang("large", 4)).is_empty());
    assert_eq!(
        wait_reason(&engine, "large"),
        Some(WaitReason::ExceedsCluster)
    );
    engine.delete_gang(&id("large"));
    assert_eq!(
        submit_at(&mut engine, 31, growing_gang("fits", 3)),
        ["$fits 3 h100", "-fits Provisioning"]
    );
    engine.apply_gang(growing_gang("next", 1));
    run_cycle_at(&mut engine, seconds(62));
    assert!(run_cycle_at(&mut engine, seconds(99)).is_empty());
    assert_eq!(engine.provisioning(&id("next")), None);
}

#[test]
fn gang_too_large_for_the_existing_nodes_gets_new_ones_once_the_rest_is_free() {
    let mut engine = growing_engine(3);
    for node in ["n0", "n1"] {
        engine.apply_node(pool_node(node, "h100"));
    }
    engine.apply_gang(growing_gang("a", 1));
    engine.apply_gang(growing_gang("b", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+a", "+b"]);
    assert!(submit_at(&mut engine, 1, growing_gang("w", 3)).is_empty());
    engine.delete_gang(&id("a"));
    assert!(run_cycle_at(&mut engine, seconds(40)).is_empty());
    engine.delete_gang(&id("b"));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(50)),
        ["$w 1 h100", "-w Provisioning"]
    );
}

#[test]
fn nothing_is_provisioned_for_a_gang_that_lacks_quota() {
    let mut engine = growing_engine(64);
    engine.apply_queue(growing_queue("default", 31, &["h100"]));
    assert!(submit(&mut engine, growing_gang("w", 4)).is_empty());
    assert_eq!(wait_reason(&engine, "w"), Some(WaitReason::ExceedsQuota));
}

#[test]
fn quota_is_charged_while_nodes_are_on_order() {
    let mut engine = growing_engine(64);
    engine.apply_queue(growing_queue("default", 32, &["h100"]));
    submit(&mut engine, growing_gang("w", 3));
    let used = engine.queue_usage(&QueueName::new("default"));
    assert_eq!(used[&ResourceName::new(GPU)], 24);
    engine.apply_gang(growing_gang("other", 2));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(31)),
        ["-other QuotaExceeded"]
    );
    engine.delete_gang(&id("w"));
    let used = engine.queue_usage(&QueueName::new("default"));
    assert_eq!(used.get(&ResourceName::new(GPU)).copied().unwrap_or(0), 0);
}

#[test]
fn queue_orders_beyond_its_own_quota_only_if_it_may_borrow_for_that() {
    for (scope, orders) in [
        (ProvisioningScope::Never, false),
        (ProvisioningScope::Nominal, false),
        (ProvisioningScope::Borrowing, true),
    ] {
        let mut engine = growing_engine(64);
        let below = |name: &str, gpus| {
            let mut queue = growing_queue(name, gpus, &["h100"]);
            queue.parent = Some(QueueName::new("root"));
            queue.provisioning.scope = scope;
            queue
        };
        engine.apply_queue(growing_queue("root", 0, &["h100"]));
        engine.apply_queue(below("default", 16));
        engine.apply_queue(below("lender", 64));
        let decisions = submit(&mut engine, growing_gang("w", 4));
        assert_eq!(!decisions.is_empty(), orders, "{scope:?} {decisions:?}");
        let within = submit_at(&mut engine, 31, growing_gang("within", 2));
        assert_eq!(
            !within.is_empty(),
            scope != ProvisioningScope::Never,
            "{scope:?} {within:?}"
        );
    }
}

#[test]
fn pod_larger_than_a_new_node_causes_none() {
    let mut engine = growing_engine(64);
    let gang = Gang {
        provisions: true,
        ..workers("w", 1, gpu(1, 9))
    };
    assert!(submit(&mut engine, gang).is_empty());
    assert_eq!(wait_reason(&engine, "w"), Some(WaitReason::NoMatchingNodes));
}

#[test]
fn required_level_is_solved_by_new_nodes_only_if_their_template_names_it() {
    for (zone, provisions) in [(None, false), (Some("a"), true)] {
        let mut engine = growing_engine(64);
        let mut flavor = growing_flavor("h100", 64);
        if let (Some(zone), Some(growth)) = (zone, &mut flavor.growth) {
            let label = ("zone".to_owned(), zone.to_owned());
            growth.node.labels.extend([label]);
        }
        engine.apply_flavor(flavor);
        engine.apply_topology(crate::topology::topology("t", &["zone"]));
        engine.apply_node(label(pool_node("n0", "h100"), "zone", "b"));
        let gang = Gang {
            topology: Some(TopologyRequest::required("zone")),
            ..growing_gang("w", 2)
        };
        let decisions = submit(&mut engine, gang);
        assert_eq!(!decisions.is_empty(), provisions, "{decisions:?}");
    }
}

#[test]
fn small_gangs_share_a_new_node() {
    let mut engine = growing_engine(64);
    for number in 0..8 {
        let gang = workers(&format!("w{number}"), 1, gpu(1, 1));
        engine.apply_gang(Gang {
            provisions: true,
            ..gang
        });
    }
    run_cycle_at(&mut engine, seconds(0));
    run_cycle_at(&mut engine, seconds(30));
    engine.apply_node(pool_node("n0", "h100"));
    let placed = run_cycle_at(&mut engine, seconds(40));
    assert_eq!(placed.len(), 8, "{placed:?}");
}

#[test]
fn only_gangs_that_say_so_cause_new_nodes() {
    let mut engine = growing_engine(64);
    assert!(submit(&mut engine, priority_gang(0, "w", 1)).is_empty());
    // A trial does not wait for running gangs to end, even that of a pending gang.
    engine.apply_gang(growing_gang("trial", 2));
    run_cycle_at(&mut engine, seconds(31));
    let trial = engine
        .try_gang(&growing_gang("trial", 2), seconds(31))
        .unwrap();
    assert_eq!(
        trial.new_nodes,
        BTreeMap::from([(FlavorName::new("h100"), 2)])
    );
}
