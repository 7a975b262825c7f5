//! Tests of what a queue offers that has no quotas itself, or is misconfigured.

use crate::common::*;
use crate::queues::{below, flavor, gpus, small};
use trellis_scheduler::{
    Engine, FlavorName, FlavorQuotas, Queue, QueueName, Quota, ResourceGroup, ResourceName,
    WaitReason,
};

const PLENTY: i64 = i64::MAX >> 8;

fn quotas(of: &[(&str, i64)]) -> std::collections::BTreeMap<ResourceName, Quota> {
    let quota = |(resource, nominal): &(&str, i64)| (ResourceName::new(*resource), gpus(*nominal));
    of.iter().map(quota).collect()
}

/// A queue that offers this many GPUs of each flavor, in order, and practically unlimited cores.
pub fn flavored(name: &str, parent: Option<&str>, of: &[(&str, i64)]) -> Queue {
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

/// A node of 8 GPUs of each flavor.
pub fn one_of_each(flavors: &[&str]) -> Engine {
    let mut engine = engine([]);
    for name in flavors {
        engine.apply_flavor(flavor(name));
        engine.apply_node(label(gpu_node(name, 8), "gpu", name));
    }
    engine
}

fn without_quotas(name: &str, parent: &str) -> Queue {
    Queue {
        parent: Some(QueueName::new(parent)),
        ..Queue::new(QueueName::new(name))
    }
}

#[test]
fn a_queue_without_quotas_is_held_to_those_of_its_tree() {
    let mut engine = one_of_each(&["a"]);
    engine.apply_queue(flavored("root", None, &[("a", 2)]));
    engine.apply_queue(without_quotas("team", "root"));
    let told = refusal(&mut engine, &small("team", "w", 8));
    assert_eq!(
        format!("{}: {told}", told.reason),
        "ExceedsQuota: needs 8 nvidia.com/gpu of flavor \"a\", the whole quota of queue \"team\" is 2; \
         it would fit with 6 more nvidia.com/gpu of flavor \"a\" in the quota of queue \"root\""
    );
    engine.apply_gang(small("team", "first", 2));
    engine.apply_gang(small("team", "more", 1));
    assert_eq!(cycle(&mut engine), ["+first", "-more QuotaExceeded"]);
    let standing = engine.queue_standing(&QueueName::new("root")).unwrap();
    let held = standing.lines.iter().find(|l| l.resource.as_str() == GPU);
    assert_eq!(held.map(|l| (l.flavor.as_str(), l.usage)), Some(("a", 2)));
    let odd = workers("odd", 1, gpu(1, 1).with("memory", GI));
    let odd = trellis_scheduler::Gang {
        queue: QueueName::new("team"),
        ..odd
    };
    assert_eq!(
        refusal(&mut engine, &odd).to_string(),
        "needs 1Gi memory, which queue \"team\" does not offer (it offers cpu, nvidia.com/gpu)"
    );
}

#[test]
fn it_may_hold_what_the_queues_beside_it_leave_idle_in_the_order_of_the_one_above() {
    let mut engine = one_of_each(&["a", "b", "c"]);
    engine.apply_queue(flavored("root", None, &[("b", 0), ("a", 0)]));
    engine.apply_queue(flavored(
        "beside",
        Some("root"),
        &[("a", 8), ("b", 8), ("c", 8)],
    ));
    engine.apply_queue(without_quotas("team", "root"));
    for (name, on) in [("first", "b"), ("second", "a"), ("third", "c")] {
        let gang = small("team", name, 8);
        assert_eq!(place(&mut engine, &gang), format!("worker: {on}*8"));
        engine.apply_gang(gang);
        cycle(&mut engine);
    }
    engine.apply_gang(small("beside", "owner", 1));
    assert_eq!(cycle(&mut engine), ["-owner QuotaExceeded"]);
}

#[test]
fn resources_of_unlike_flavors_are_chosen_apart() {
    let mut engine = one_of_each(&["a", "b"]);
    engine.apply_queue(without_quotas("team", "root"));
    engine.apply_queue(without_quotas("root", "none"));
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
    assert_eq!(place(&mut engine, &small("team", "w", 4)), "worker: b*4");
    let told = refusal(&mut engine, &small("team", "w", 5));
    assert_eq!(told.reason, WaitReason::ExceedsQuota, "{told}");
}

#[test]
fn what_is_named_twice_or_not_for_every_flavor_stops_the_queue() {
    let mut engine = one_of_each(&["a", "b"]);
    let says = |engine: &mut Engine, queue: &Queue| {
        engine.apply_queue(queue.clone());
        let told = refusal(engine, &small("team", "w", 8));
        assert_eq!(told.reason, WaitReason::QueueMisconfigured, "{told}");
        told.to_string()
    };
    let sound = flavored("team", None, &[("a", 0), ("b", 0)]);
    let mut unlike = sound.clone();
    let second = &mut unlike.resource_groups[0].flavors[1].quotas;
    second.remove(&ResourceName::new(GPU));
    assert_eq!(
        says(&mut engine, &unlike),
        "queue \"team\" names other resources of flavor \"b\" than of flavor \"a\", which is in \
         the same resource group"
    );
    let twice = flavored("team", None, &[("a", 8), ("a", 0)]);
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
    // No queue borrows from it either, until the fault is mended.
    engine.apply_queue(below("all", None, gpus(0)));
    engine.apply_queue(Queue {
        parent: Some(QueueName::new("all")),
        ..twice
    });
    engine.apply_queue(flavored("other", Some("all"), &[("a", 0)]));
    let told = refusal(&mut engine, &small("other", "w", 8));
    assert_eq!(told.reason, WaitReason::ExceedsQuota, "{told}");
    engine.apply_queue(flavored("team", Some("all"), &[("a", 8)]));
    assert_eq!(place(&mut engine, &small("other", "w", 8)), "worker: a*8");
}
