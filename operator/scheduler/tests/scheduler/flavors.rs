//! Tests of the explanations about flavors that groups name, and about lent quota.

pub(super) mod assignments;
pub(super) mod charged;
pub(super) mod kueue;
pub(super) mod offered;

use std::collections::BTreeMap;

use crate::common::*;
use crate::queues::{engine_with_two_offered_flavors, flavor, gpu_quota, queue_below, small_gang};
use trellis_scheduler::{Flavor, FlavorName, Queue, QueueName, Quota, WaitReason};

/// The exact example of docs/queues.md.
#[test]
fn quota_beyond_the_lending_limit_is_not_lent() {
    let text = include_str!("../../../../docs/queues.md");
    let mut engine = engine(gpu_nodes(20));
    let vision = Quota {
        lending_limit: Some(48),
        borrowing_limit: Some(32),
        ..gpu_quota(64)
    };
    engine.apply_queue(queue_below("research", None, gpu_quota(0)));
    engine.apply_queue(queue_below("vision", Some("research"), vision));
    engine.apply_queue(queue_below("speech", Some("research"), gpu_quota(32)));
    assert!(
        trial_explanation(&mut engine, &small_gang("speech", "s", 81)).reason
            == WaitReason::ExceedsQuota
    );
    assert!(
        trial_explanation(&mut engine, &small_gang("vision", "v", 97)).reason
            == WaitReason::ExceedsQuota
    );
    trial_placement(&mut engine, &small_gang("vision", "v", 96));
    engine.apply_gang(small_gang("speech", "all", 80));
    engine.apply_gang(small_gang("vision", "ten", 10));
    assert_eq!(cycle(&mut engine), ["+ten", "+all"]);
    trial_placement(&mut engine, &small_gang("vision", "six", 6));
    let says = trial_explanation(&mut engine, &small_gang("vision", "eight", 8)).to_string();
    let (told, rest) = text
        .split_once("waits with *")
        .unwrap()
        .1
        .split_once("; ...; ")
        .unwrap();
    let own = rest.split_once('*').unwrap().0;
    assert!(says.starts_with(told) && says.ends_with(own), "{says}");
}

#[test]
fn flavor_not_offered_or_without_nodes_is_explained() {
    let mut engine = engine_with_two_offered_flavors();
    let mut gang = small_gang("q", "w", 1);
    gang.groups[0].flavors = vec![FlavorName::new("nosuch")];
    assert_eq!(
        trial_explanation(&mut engine, &gang).to_string(),
        "asks for flavor \"nosuch\", which queue \"q\" does not offer (it offers \"a100\", \"h100\")"
    );
    engine.apply_flavor(Flavor {
        node_labels: BTreeMap::from([("product".to_owned(), "b200".to_owned())]),
        ..flavor("h100")
    });
    gang.groups[0].flavors = vec![FlavorName::new("h100")];
    let wants = trial_explanation(&mut engine, &gang).to_string();
    assert!(
        wants.contains(" without label \"product=b200\" of flavor \"h100\""),
        "{wants}"
    );
    // The explanation does not attribute a label of the user to the flavor.
    let own = &mut gang.groups[0].constraints.node_selector;
    own.insert("product".to_owned(), "b200".to_owned());
    let wants = trial_explanation(&mut engine, &gang).to_string();
    assert!(
        wants.ends_with(" without label \"product=b200\""),
        "{wants}"
    );
}

#[test]
fn queue_without_quotas_offers_the_nodes_of_a_flavor() {
    let mut engine = engine_with_two_offered_flavors();
    engine.apply_queue(Queue::new(QueueName::new("all")));
    let mut gang = small_gang("all", "w", 4);
    gang.groups[0].flavors = vec![FlavorName::new("a100")];
    assert_eq!(trial_placement(&mut engine, &gang), "worker: a100*4");
    gang.groups[0].flavors = vec![FlavorName::new("nosuch")];
    let refused = trial_explanation(&mut engine, &gang);
    assert_eq!(refused.reason, WaitReason::FlavorNotFound);
    assert_eq!(
        refused.to_string(),
        "queue \"all\" has no flavor for it: \"nosuch\" does not exist (create the ResourceFlavor)"
    );
}
