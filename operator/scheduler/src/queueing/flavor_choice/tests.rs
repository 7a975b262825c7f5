//! Tests of the assignments of small gangs, their order, and the reasons why there are none.

use super::*;
use crate::ids::{GangId, GroupName, QueueName};
use crate::queue::Flavor;
use crate::quota::Quota;
use crate::resources::Resources;

fn group(name: &str, gpus: i64, flavors: &[&str]) -> TaskGroup {
    let request = Resources::new().with("cpu", 1).with("gpu", gpus);
    TaskGroup {
        flavors: flavors.iter().map(|f| FlavorName::new(*f)).collect(),
        ..TaskGroup::new(GroupName::new(name), 1, request, name.to_owned())
    }
}

/// Returns all assignments of the gang. Asserts that `combine` leaves none out.
fn assignments(
    gang: &Gang,
    offered: &[ResourceGroup],
    flavors: &Flavors,
) -> Result<Vec<Vec<FlavorChoice>>, NoFlavorAssignment> {
    let (ways, cut) = combine(gang, &flavor_choices(gang, offered, flavors)?);
    assert!(!cut);
    Ok(ways)
}

fn gang(groups: Vec<TaskGroup>) -> Gang {
    Gang::new(GangId::new("a/b"), QueueName::new("q"), groups)
}

fn resource_group(resources: &[&str], flavors: &[&str]) -> ResourceGroup {
    ResourceGroup {
        flavors: flavors
            .iter()
            .map(|flavor| FlavorQuotas {
                flavor: FlavorName::new(*flavor),
                quotas: resources
                    .iter()
                    .map(|r| (ResourceName::new(*r), Quota::default()))
                    .collect(),
            })
            .collect(),
    }
}

fn defined(names: &[&str]) -> Flavors {
    let mut flavors = Flavors::default();
    for name in names {
        flavors.apply(Flavor::new(FlavorName::new(*name)));
    }
    flavors
}

fn to_text(ways: &[Vec<FlavorChoice>]) -> Vec<String> {
    let choice = |c: &FlavorChoice| {
        let parts: Vec<String> = c.iter().map(|(r, f)| format!("{r}={f}")).collect();
        parts.join(",")
    };
    ways.iter()
        .map(|way| way.iter().map(choice).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn group_order_precedes_queue_order_with_one_flavor_per_resource_group() {
    let offered = [resource_group(&["cpu", "gpu"], &["h100", "a100"])];
    let flavors = defined(&["h100", "a100"]);
    let any = gang(vec![group("w", 1, &[])]);
    assert_eq!(
        to_text(&assignments(&any, &offered, &flavors).unwrap()),
        ["cpu=h100,gpu=h100", "cpu=a100,gpu=a100"]
    );
    let own = gang(vec![group("w", 1, &["a100", "h100"])]);
    assert_eq!(
        to_text(&assignments(&own, &offered, &flavors).unwrap()),
        ["cpu=a100,gpu=a100", "cpu=h100,gpu=h100"]
    );
    let one = gang(vec![group("w", 1, &["a100"])]);
    assert_eq!(
        to_text(&assignments(&one, &offered, &flavors).unwrap()),
        ["cpu=a100,gpu=a100"]
    );
}

#[test]
fn resource_groups_get_flavors_independently() {
    let offered = [
        resource_group(&["cpu"], &["spot", "own"]),
        resource_group(&["gpu"], &["h100"]),
    ];
    let flavors = defined(&["spot", "own", "h100"]);
    let both = gang(vec![group("w", 1, &[]), group("master", 0, &["own"])]);
    assert_eq!(
        to_text(&assignments(&both, &offered, &flavors).unwrap()),
        ["cpu=spot,gpu=h100 cpu=own", "cpu=own,gpu=h100 cpu=own"]
    );
}

#[test]
fn missing_resource_or_flavor_has_no_assignment() {
    let offered = [resource_group(&["cpu"], &["gone"])];
    let none = assignments(&gang(vec![group("w", 1, &[])]), &offered, &defined(&[]));
    assert_eq!(
        none,
        Err(NoFlavorAssignment::NotOffered {
            group: 0,
            resource: ResourceName::new("gpu")
        })
    );
    let none = assignments(&gang(vec![group("w", 0, &[])]), &offered, &defined(&[]));
    assert_eq!(
        none,
        Err(NoFlavorAssignment::NoFlavor {
            group: 0,
            flavors: vec![FlavorName::new("gone")]
        })
    );
}

#[test]
fn flavor_named_by_a_group_is_always_considered() {
    let flavors = defined(&["spot", "own", "h100"]);
    let nosuch = gang(vec![group("w", 1, &["nosuch"])]);
    let offered = [
        resource_group(&["cpu"], &["spot", "own"]),
        resource_group(&["gpu"], &["h100"]),
    ];
    let offers = ["h100", "own", "spot"].map(FlavorName::new).to_vec();
    assert_eq!(
        assignments(&nosuch, &offered, &flavors),
        Err(NoFlavorAssignment::NotOfferedFlavor { group: 0, offers })
    );
    // A name of one resource group does not restrict another group.
    let gpu = gang(vec![group("w", 1, &["h100"])]);
    assert_eq!(
        to_text(&assignments(&gpu, &offered, &flavors).unwrap()),
        ["cpu=spot,gpu=h100", "cpu=own,gpu=h100"]
    );
    // A flavor of resources that the group does not need gives no assignment.
    let cpu = gang(vec![group("w", 0, &["h100"])]);
    let offers = ["own", "spot"].map(FlavorName::new).to_vec();
    assert_eq!(
        assignments(&cpu, &offered, &flavors),
        Err(NoFlavorAssignment::NotOfferedFlavor { group: 0, offers })
    );
}

#[test]
fn queue_without_quotas_offers_each_flavor_a_group_names() {
    let flavors = defined(&["h100"]);
    let of = |names: &[&str]| assignments(&gang(vec![group("w", 1, names)]), &[], &flavors);
    assert_eq!(to_text(&of(&[]).unwrap()), [""]);
    assert_eq!(
        to_text(&of(&["gone", "h100"]).unwrap()),
        ["cpu=h100,gpu=h100"]
    );
    let gone = vec![FlavorName::new("gone")];
    assert_eq!(
        of(&["gone"]),
        Err(NoFlavorAssignment::NoFlavor {
            group: 0,
            flavors: gone
        })
    );
}

#[test]
fn assignments_with_one_flavor_for_all_groups_survive_the_bound() {
    let names: Vec<String> = (0..16).map(|i| format!("f{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let offered = [resource_group(&["cpu", "gpu"], &names)];
    let groups = (0..16).map(|i| group(&format!("g{i}"), 1, &[])).collect();
    let many = gang(groups);
    let choices = flavor_choices(&many, &offered, &defined(&names)).unwrap();
    let (found, cut) = combine(&many, &choices);
    assert!(cut && found.len() <= MAX_ASSIGNMENTS && found.len() > MAX_ASSIGNMENTS / 2);
    for name in names {
        let all =
            |way: &&Vec<FlavorChoice>| way.iter().all(|c| c.values().all(|f| f.as_str() == name));
        assert_eq!(found.iter().filter(all).count(), 1, "{name}");
    }
    let one = gang(vec![group("g0", 1, &[])]);
    assert!(matches!(combine(&one, &choices[..1]), (ways, false) if ways.len() == 16));
}

/// Returns the group, with the same flavor as another group.
fn same_as(other: &str, group: TaskGroup) -> TaskGroup {
    TaskGroup {
        same_flavor_as: Some(GroupName::new(other)),
        ..group
    }
}

#[test]
fn groups_that_share_a_flavor_get_no_mix() {
    let offered = [resource_group(&["cpu", "gpu"], &["h100", "a100"])];
    let flavors = defined(&["h100", "a100"]);
    let of = |groups| to_text(&assignments(&gang(groups), &offered, &flavors).unwrap());
    let both = [
        "cpu=h100,gpu=h100 cpu=h100,gpu=h100",
        "cpu=a100,gpu=a100 cpu=a100,gpu=a100",
    ];
    let leader = || same_as("worker", group("leader", 1, &[]));
    assert_eq!(of(vec![leader(), group("worker", 1, &[])]), both);
    // The leader accepts what the worker names, in the worker's order.
    let reversed: Vec<&str> = both.into_iter().rev().collect();
    let picky = group("worker", 1, &["a100", "h100"]);
    assert_eq!(of(vec![leader(), picky]), reversed);
    // Only the resources that both request are compared.
    assert_eq!(
        of(vec![
            same_as("worker", group("leader", 0, &[])),
            group("worker", 1, &[]),
        ]),
        ["cpu=h100 cpu=h100,gpu=h100", "cpu=a100 cpu=a100,gpu=a100",]
    );
    // A third group is free. A chain of groups has one flavor.
    let third = |third| vec![leader(), group("worker", 1, &[]), third];
    assert_eq!(of(third(group("eval", 1, &[]))).len(), 4);
    assert_eq!(of(third(same_as("leader", group("eval", 1, &[])))).len(), 2);
}

#[test]
fn group_without_flavors_shares_those_of_its_mate_in_a_queue_without_quotas() {
    let groups = vec![
        same_as("worker", group("leader", 0, &[])),
        group("worker", 1, &["h100", "a100"]),
    ];
    let found = assignments(&gang(groups), &[], &defined(&["h100", "a100"]));
    assert_eq!(
        to_text(&found.unwrap()),
        ["cpu=h100 cpu=h100,gpu=h100", "cpu=a100 cpu=a100,gpu=a100",]
    );
}

#[test]
fn groups_without_a_shared_flavor_get_no_assignment() {
    let offered = [resource_group(&["cpu", "gpu"], &["h100", "a100"])];
    let groups = vec![
        group("other", 1, &[]),
        same_as("worker", group("leader", 1, &["h100"])),
        group("worker", 1, &["a100"]),
    ];
    assert_eq!(
        assignments(&gang(groups), &offered, &defined(&["h100", "a100"])),
        Err(NoFlavorAssignment::NoSharedFlavor {
            groups: vec![
                (1, vec![FlavorName::new("h100")]),
                (2, vec![FlavorName::new("a100")])
            ]
        })
    );
}

/// The nodes of a queue without quotas may have several flavors, or none.
#[test]
fn groups_that_share_an_unnamed_flavor_of_a_queue_without_quotas_get_no_assignment() {
    let groups = vec![
        same_as("worker", group("leader", 1, &[])),
        group("worker", 1, &[]),
    ];
    assert_eq!(
        assignments(&gang(groups), &[], &defined(&["h100", "a100"])),
        Err(NoFlavorAssignment::NoSharedFlavor {
            groups: vec![(0, vec![]), (1, vec![])]
        })
    );
}
