//! Names of gangs and pods.

use trellis_scheduler::{GangId, ResourceName, Resources};

use super::super::standing::{Held, is_same, standing};
use super::*;
use crate::engine;
use crate::observed::Flavors;

#[test]
fn no_job_is_called_as_a_external_gang() {
    let group = Key::new("ns", "g");
    let unit = of_group(&group);
    assert_eq!(engine::id(&unit), GangId::new("ns/PodGroup/g"));
    assert_eq!(engine::whose(&engine::id(&unit)), (unit.clone(), None));
    assert_eq!(
        crate::external::unit(&unit),
        Some(Unit::Group(group.clone()))
    );
    assert_eq!(
        crate::external::unit(&of_pod(&group)),
        Some(Unit::Pod(group))
    );
    // A surplus pod of a job of that name.
    assert!(!is_external(&Key::new("ns", "pod/worker-1")));
}

#[test]
fn pods_of_one_node_follow_each_other_in_the_engine() {
    let request = |cpu| Resources::new().with("cpu", cpu);
    let held = |name: &str, node: &str, cpu| Held {
        pod: Key::new("ns", name),
        uid: name.to_owned(),
        node: node.to_owned(),
        request: request(cpu),
        flavors: Flavors::new(),
        group: None,
        created: None,
        grace: 30,
        active_seconds: None,
        bound: true,
    };
    let all = [
        held("a", "n", 1),
        held("b", "m", 1),
        held("c", "n", 2),
        held("d", "n", 1),
    ];
    let unit = of_group(&Key::new("ns", "g"));
    let standing = standing(&unit, 3, None, ("q", 5), &all);
    let gang = &standing.gang;
    assert_eq!(
        gang.groups.iter().map(|g| g.count).collect::<Vec<_>>(),
        [3, 1]
    );
    let cpu = ResourceName::new("cpu");
    assert_eq!(gang.groups[1].request.get(&cpu), 2);
    let name = |pod: &str| standing.names[&Key::new("ns", pod)].as_str().to_owned();
    assert_eq!(
        ["a", "b", "c", "d"].map(name),
        ["g0-1", "g0-0", "g1-0", "g0-2"].map(|own| format!("ns/PodGroup/g/3/{own}"))
    );
    let engines = &standing.names[&Key::new("ns", "a")];
    assert!(form::is_name_of(&unit, engines));
    assert!(!form::is_name_of(&of_group(&Key::new("ns", "g0")), engines));
    assert!(!form::is_name_of(&of_pod(&Key::new("ns", "a")), engines));
    // The engine gives the same name.
    assert_eq!(gang.pod_key(&gang.groups[0], 2).as_str(), name("d"));
    let runs: Vec<_> = standing
        .placement
        .iter()
        .map(|(_, index, node)| (index, node.as_str().to_owned()))
        .collect();
    assert_eq!(runs.len(), 4);
    assert!(is_same(
        &all,
        &all.clone().map(|held| Held {
            bound: false,
            ..held
        })
    ));
}
