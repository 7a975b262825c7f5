//! Tests of the flavors to which the engine charges a placed gang, and of their report.

use std::collections::BTreeMap;

use crate::common::*;
use trellis_scheduler::{
    Engine, Flavor, FlavorName, FlavorQuotas, Gang, GroupName, NodeName, Placement, Queue,
    QueueName, Quota, ResourceGroup, ResourceName,
};

/// Returns an engine with a queue that offers cores of `any`, and 8 GPUs each of `own` and `spot`.
/// Both flavors are the same nodes, bought in two ways.
fn engine_with_two_flavors_on_one_node() -> Engine {
    let mut engine = engine([gpu_node("a", 16)]);
    for name in ["any", "own", "spot"] {
        engine.apply_flavor(Flavor::new(FlavorName::new(name)));
    }
    let offer = |flavor: &str, resource: &str, nominal| FlavorQuotas {
        flavor: FlavorName::new(flavor),
        quotas: BTreeMap::from([(
            ResourceName::new(resource),
            Quota {
                nominal,
                ..Quota::default()
            },
        )]),
    };
    let mut queue = Queue::new(QueueName::new("q"));
    queue.resource_groups = vec![
        ResourceGroup {
            flavors: vec![offer("any", "cpu", 1 << 40)],
        },
        ResourceGroup {
            flavors: vec![offer("own", GPU, 8), offer("spot", GPU, 8)],
        },
    ];
    engine.apply_queue(queue);
    engine
}

fn eight_gpu_gang(name: &str) -> Gang {
    let mut gang = workers(name, 8, gpu(1, 1));
    gang.queue = QueueName::new("q");
    gang
}

/// Returns the flavors of the first group, by resource.
fn charged_flavors(engine: &Engine, name: &str) -> Option<String> {
    let groups = engine.flavors(&id(name))?;
    let flavors = groups[0].flavors.iter();
    let words: Vec<String> = flavors.map(|(r, f)| format!("{r}={f}")).collect();
    Some(words.join(" "))
}

#[test]
fn placed_gang_reports_its_charged_flavors() {
    let mut engine = engine_with_two_flavors_on_one_node();
    engine.apply_gang(eight_gpu_gang("first"));
    assert_eq!(charged_flavors(&engine, "first"), None, "it waits");
    engine.apply_gang(eight_gpu_gang("second"));
    assert_eq!(cycle(&mut engine), ["+first", "+second"]);
    let with = |flavor: &str| Some(format!("cpu=any {GPU}={flavor}"));
    assert_eq!(charged_flavors(&engine, "first"), with("own"));
    assert_eq!(charged_flavors(&engine, "second"), with("spot"));
    engine.release_gang(&id("first"), None);
    assert_eq!(charged_flavors(&engine, "first"), None);
    engine.delete_gang(&id("second"));
    assert_eq!(charged_flavors(&engine, "second"), None);
}

#[test]
fn queue_without_quotas_charges_no_flavor() {
    let mut engine = engine([gpu_node("a", 8)]);
    engine.apply_gang(workers("w", 8, gpu(1, 1)));
    assert_eq!(cycle(&mut engine), ["+w"]);
    assert_eq!(charged_flavors(&engine, "w").as_deref(), Some(""));
}

fn placement_on_a() -> Placement {
    [(GroupName::new("worker"), vec![(NodeName::new("a"), 8)])]
        .into_iter()
        .collect()
}

/// Returns the GPUs of each flavor that gangs hold of the queue's quota.
fn charged_gpus(engine: &Engine) -> Vec<(String, i128)> {
    let standing = engine.queue_usage_report(&QueueName::new("q")).unwrap();
    let lines = standing.lines.iter().filter(|l| l.resource.as_str() == GPU);
    lines
        .map(|l| (l.flavor.as_str().to_owned(), l.usage))
        .collect()
}

#[test]
fn restored_gang_is_charged_to_its_former_flavors() {
    let mut first = engine_with_two_flavors_on_one_node();
    for name in ["gone", "old"] {
        first.apply_gang(eight_gpu_gang(name));
    }
    cycle(&mut first);
    let flavors = first.flavors(&id("old")).unwrap();
    assert_eq!(
        charged_flavors(&first, "old"),
        Some(format!("cpu=any {GPU}=spot"))
    );

    let spot = |used| vec![("own".to_owned(), 0), ("spot".to_owned(), used)];
    let mut second = engine_with_two_flavors_on_one_node();
    second.restore_gang_with_flavors(eight_gpu_gang("old"), placement_on_a(), &flavors, ms(0));
    assert_eq!(
        (charged_flavors(&second, "old"), charged_gpus(&second)),
        (charged_flavors(&first, "old"), spot(8))
    );
    // The charged flavors count even if the queue no longer offers them.
    let mut third = engine_with_two_flavors_on_one_node();
    third.delete_flavor(&FlavorName::new("spot"));
    third.restore_gang_with_flavors(eight_gpu_gang("old"), placement_on_a(), &flavors, ms(0));
    assert_eq!(charged_gpus(&third), spot(8));
    third.delete_gang(&id("old"));
    assert_eq!(charged_gpus(&third), spot(0));
    // If the flavors are unknown, the engine charges the first flavor that matches the nodes.
    third.restore_gang(eight_gpu_gang("old"), placement_on_a(), ms(0));
    assert_eq!(charged_gpus(&third)[0].1, 8);
}
