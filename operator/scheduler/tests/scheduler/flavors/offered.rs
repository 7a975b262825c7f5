//! Tests of the resources that a queue offers if it has no quotas itself, or is misconfigured.

use crate::common::*;
use crate::queues::{flavor, gpu_quota, queue_below, small_gang};
use trellis_scheduler::{
    Engine, FlavorName, FlavorQuotas, Queue, QueueName, Quota, ResourceGroup, ResourceName,
    WaitReason,
};

const PLENTY: i64 = i64::MAX >> 8;

fn quotas(of: &[(&str, i64)]) -> std::collections::BTreeMap<ResourceName, Quota> {
    let quota =
        |(resource, nominal): &(&str, i64)| (ResourceName::new(*resource), gpu_quota(*nominal));
    of.iter().map(quota).collect()
}

/// Returns a queue that offers this many GPUs of each flavor, in order, and practically unlimited
/// cores.
pub fn queue_with_flavors(name: &str, parent: Option<&str>, of: &[(&str, i64)]) -> Queue {
    let flavors = of.iter().map(|(flavor, nominal)| FlavorQuotas {
        flavor: FlavorName::new(*flavor),
        quotas: quotas(&[(GPU, *nominal), ("cpu", PLENTY)]),
    });
    Queue {
        parent: parent.map(QueueName::new),
        resource_groups: vec![ResourceGroup {
            flavors: flavors.collect(),
        }],
        ..Queue::new(QueueName::new(name))
    }
}

/// Returns an engine with a node of 8 GPUs of each flavor.
pub fn engine_with_one_node_per_flavor(flavors: &[&str]) -> Engine {
    let mut engine = engine([]);
    for name in flavors {
        engine.apply_flavor(flavor(name));
        engine.apply_node(label(gpu_node(name, 8), "gpu", name));
    }
    engine
}

fn queue_without_quotas(name: &str, parent: &str) -> Queue {
    Queue {
        parent: Some(QueueName::new(parent)),
        ..Queue::new(QueueName::new(name))
    }
}

#[test]
fn queue_without_quotas_is_limited_by_its_tree() {
    let mut engine = engine_with_one_node_per_flavor(&["a"]);
    engine.apply_queue(queue_with_flavors("root", None, &[("a", 2)]));
    engine.apply_queue(queue_without_quotas("team", "root"));
    let told = trial_explanation(&mut engine, &small_gang("team", "w", 8));
    assert_eq!(
        format!("{}: {told}", told.reason),
        "ExceedsQuota: needs 8 nvidia.com/gpu of flavor \"a\", the whole quota of queue \"team\" is 2; \
         it would fit with 6 more nvidia.com/gpu of flavor \"a\" in the quota of queue \"root\""
    );
    engine.apply_gang(small_gang("team", "first", 2));
    engine.apply_gang(small_gang("team", "more", 1));
    assert_eq!(cycle(&mut engine), ["+first", "-more QuotaExceeded"]);
    let standing = engine.queue_usage_report(&QueueName::new("root")).unwrap();
    let held = standing.lines.iter().find(|l| l.resource.as_str() == GPU);
    assert_eq!(held.map(|l| (l.flavor.as_str(), l.usage)), Some(("a", 2)));
    let odd = workers("odd", 1, gpu(1, 1).with("memory", GI));
    let odd = trellis_scheduler::Gang {
        queue: QueueName::new("team"),
        ..odd
    };
    assert_eq!(
        trial_explanation(&mut engine, &odd).to_string(),
        "needs 1Gi memory, which queue \"team\" does not offer (it offers cpu, nvidia.com/gpu)"
    );
}

#[test]
fn queue_without_quotas_borrows_in_the_flavor_order_of_its_parent() {
    let mut engine = engine_with_one_node_per_flavor(&["a", "b", "c"]);
    engine.apply_queue(queue_with_flavors("root", None, &[("b", 0), ("a", 0)]));
    engine.apply_queue(queue_with_flavors(
        "beside",
        Some("root"),
        &[("a", 8), ("b", 8), ("c", 8)],
    ));
    engine.apply_queue(queue_without_quotas("team", "root"));
    for (name, on) in [("first", "b"), ("second", "a"), ("third", "c")] {
        let gang = small_gang("team", name, 8);
        assert_eq!(
            trial_placement(&mut engine, &gang),
            format!("worker: {on}*8")
        );
        engine.apply_gang(gang);
        cycle(&mut engine);
    }
    engine.apply_gang(small_gang("beside", "owner", 1));
    assert_eq!(cycle(&mut engine), ["-owner QuotaExceeded"]);
}

#[test]
fn resources_with_different_flavors_are_chosen_independently() {
    let mut engine = engine_with_one_node_per_flavor(&["a", "b"]);
    engine.apply_queue(queue_without_quotas("team", "root"));
    engine.apply_queue(queue_without_quotas("root", "none"));
    let of = |name: &str, flavor: &str, of: &[(&str, i64)]| Queue {
        parent: Some(QueueName::new("root")),
        resource_groups: vec![ResourceGroup {
            flavors: vec![FlavorQuotas {
                flavor: FlavorName::new(flavor),
                quotas: quotas(of),
            }],
        }],
        ..Queue::new(QueueName::new(name))
    };
    engine.apply_queue(Queue::new(QueueName::new("root")));
    engine.apply_queue(of("cores", "default", &[("cpu", 4_000)]));
    engine.apply_queue(of("gpus", "b", &[(GPU, 4), ("cpu", 1_000)]));
    assert_eq!(
        trial_placement(&mut engine, &small_gang("team", "w", 4)),
        "worker: b*4"
    );
    let told = trial_explanation(&mut engine, &small_gang("team", "w", 5));
    assert_eq!(told.reason, WaitReason::ExceedsQuota, "{told}");
}

#[test]
fn inconsistent_resource_group_stops_the_queue() {
    let mut engine = engine_with_one_node_per_flavor(&["a", "b"]);
    let says = |engine: &mut Engine, queue: &Queue| {
        engine.apply_queue(queue.clone());
        let told = trial_explanation(engine, &small_gang("team", "w", 8));
        assert_eq!(told.reason, WaitReason::QueueMisconfigured, "{told}");
        told.to_string()
    };
    let sound = queue_with_flavors("team", None, &[("a", 0), ("b", 0)]);
    let mut unlike = sound.clone();
    let second = &mut unlike.resource_groups[0].flavors[1].quotas;
    second.remove(&ResourceName::new(GPU));
    assert_eq!(
        says(&mut engine, &unlike),
        "queue \"team\" names other resources of flavor \"b\" than of flavor \"a\", which is in \
         the same resource group"
    );
    let twice = queue_with_flavors("team", None, &[("a", 8), ("a", 0)]);
    assert_eq!(
        says(&mut engine, &twice),
        "queue \"team\" names flavor \"a\" twice in one resource group"
    );
    let mut again = sound.clone();
    again.resource_groups.push(sound.resource_groups[0].clone());
    assert_eq!(
        says(&mut engine, &again),
        "queue \"team\" names resource \"cpu\" in two resource groups"
    );
    // No queue borrows from it either, until the fault is corrected.
    engine.apply_queue(queue_below("all", None, gpu_quota(0)));
    engine.apply_queue(Queue {
        parent: Some(QueueName::new("all")),
        ..twice
    });
    engine.apply_queue(queue_with_flavors("other", Some("all"), &[("a", 0)]));
    let told = trial_explanation(&mut engine, &small_gang("other", "w", 8));
    assert_eq!(told.reason, WaitReason::ExceedsQuota, "{told}");
    engine.apply_queue(queue_with_flavors("team", Some("all"), &[("a", 8)]));
    assert_eq!(
        trial_placement(&mut engine, &small_gang("other", "w", 8)),
        "worker: a*8"
    );
}
