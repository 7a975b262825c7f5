//! Tests of the explanations about flavors that groups name, and about lent quota.

use std::collections::BTreeMap;

use crate::common::*;
use crate::queues::{below, flavor, gpus, small, two_flavors};
use trellis_scheduler::{Flavor, FlavorName, Queue, QueueName, Quota, WaitReason};

/// The example of docs/queues.md, word by word.
#[test]
fn what_a_queue_does_not_lend_is_its_own() {
    let text = include_str!("../../../../docs/queues.md");
    let mut engine = engine(gpu_nodes(20));
    let vision = Quota {
        lending_limit: Some(48),
        borrowing_limit: Some(32),
        ..gpus(64)
    };
    engine.apply_queue(below("research", None, gpus(0)));
    engine.apply_queue(below("vision", Some("research"), vision));
    engine.apply_queue(below("speech", Some("research"), gpus(32)));
    assert!(refusal(&mut engine, &small("speech", "s", 81)).reason == WaitReason::ExceedsQuota);
    assert!(refusal(&mut engine, &small("vision", "v", 97)).reason == WaitReason::ExceedsQuota);
    place(&mut engine, &small("vision", "v", 96));
    engine.apply_gang(small("speech", "all", 80));
    engine.apply_gang(small("vision", "ten", 10));
    assert_eq!(cycle(&mut engine), ["+ten", "+all"]);
    place(&mut engine, &small("vision", "six", 6));
    let says = refusal(&mut engine, &small("vision", "eight", 8)).to_string();
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
fn a_flavor_that_is_not_offered_or_has_no_nodes_says_so() {
    let mut engine = two_flavors();
    let mut gang = small("q", "w", 1);
    gang.groups[0].flavors = vec![FlavorName::new("nosuch")];
    assert_eq!(
        refusal(&mut engine, &gang).to_string(),
        "asks for flavor \"nosuch\", which queue \"q\" does not offer (it offers \"a100\", \"h100\")"
    );
    engine.apply_flavor(Flavor {
        node_labels: BTreeMap::from([("product".to_owned(), "b200".to_owned())]),
        ..flavor("h100")
    });
    gang.groups[0].flavors = vec![FlavorName::new("h100")];
    let wants = refusal(&mut engine, &gang).to_string();
    assert!(
        wants.contains(" without label \"product=b200\" of flavor \"h100\""),
        "{wants}"
    );
    // A label that the user wrote is not attributed to the flavor.
    let own = &mut gang.groups[0].constraints.node_selector;
    own.insert("product".to_owned(), "b200".to_owned());
    let wants = refusal(&mut engine, &gang).to_string();
    assert!(
        wants.ends_with(" without label \"product=b200\""),
        "{wants}"
    );
}

#[test]
fn a_queue_without_quotas_gives_the_nodes_of_a_flavor() {
    let mut engine = two_flavors();
    engine.apply_queue(Queue::new(QueueName::new("all")));
    let mut gang = small("all", "w", 4);
    gang.groups[0].flavors = vec![FlavorName::new("a100")];
    assert_eq!(place(&mut engine, &gang), "worker: a100*4");
    gang.groups[0].flavors = vec![FlavorName::new("nosuch")];
    let refused = refusal(&mut engine, &gang);
    assert_eq!(refused.reason, WaitReason::FlavorNotFound);
    assert_eq!(
        refused.to_string(),
        "queue \"all\" has no flavor for it: \"nosuch\" does not exist (create the ResourceFlavor)"
    );
}
