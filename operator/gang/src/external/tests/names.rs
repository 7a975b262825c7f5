//! Names of gangs and pods.

use trellis_scheduler::{GangId, ResourceName, Resources};

use super::super::placed_gang::{PlacedPod, is_same_placement, to_placed_gang};
use super::*;
use crate::engine;
use crate::observed::FlavorsByResource;

#[test]
fn external_gang_key_never_equals_a_job_key() {
    let group = Key::new("ns", "g");
    let unit = pod_group_gang_key(&group);
    assert_eq!(engine::gang_id(&unit), GangId::new("ns/PodGroup/g"));
    assert_eq!(
        engine::parse_gang_id(&engine::gang_id(&unit)),
        (unit.clone(), None)
    );
    assert_eq!(
        crate::external::parse_gang_key(&unit),
        Some(ExternalGangRef::Group(group.clone()))
    );
    assert_eq!(
        crate::external::parse_gang_key(&pod_gang_key(&group)),
        Some(ExternalGangRef::Pod(group))
    );
    // A surplus pod of a job of that name.
    assert!(!is_external(&Key::new("ns", "pod/worker-1")));
}

#[test]
fn engine_pod_names_of_one_node_are_consecutive() {
    let request = |cpu| Resources::new().with("cpu", cpu);
    let held = |name: &str, node: &str, cpu| PlacedPod {
        pod: Key::new("ns", name),
        uid: name.to_owned(),
        node: node.to_owned(),
        request: request(cpu),
        flavors: FlavorsByResource::new(),
        group: None,
        created: None,
        grace: 30,
        active_seconds: None,
        is_bound: true,
    };
    let all = [
        held("a", "n", 1),
        held("b", "m", 1),
        held("c", "n", 2),
        held("d", "n", 1),
    ];
    let unit = pod_group_gang_key(&Key::new("ns", "g"));
    let standing = to_placed_gang(&unit, 3, None, ("q", 5), &all);
    let gang = &standing.gang;
    assert_eq!(
        gang.groups.iter().map(|g| g.count).collect::<Vec<_>>(),
        [3, 1]
    );
    let cpu = ResourceName::new("cpu");
    assert_eq!(gang.groups[1].request.get(&cpu), 2);
    let name = |pod: &str| standing.pod_names[&Key::new("ns", pod)].as_str().to_owned();
    assert_eq!(
        ["a", "b", "c", "d"].map(name),
        ["g0-1", "g0-0", "g1-0", "g0-2"].map(|own| format!("ns/PodGroup/g/3/{own}"))
    );
    let engines = &standing.pod_names[&Key::new("ns", "a")];
    assert!(engine_gang::is_pod_of_gang(&unit, engines));
    assert!(!engine_gang::is_pod_of_gang(
        &pod_group_gang_key(&Key::new("ns", "g0")),
        engines
    ));
    assert!(!engine_gang::is_pod_of_gang(
        &pod_gang_key(&Key::new("ns", "a")),
        engines
    ));
    // The engine gives the same name.
    assert_eq!(gang.pod_key(&gang.groups[0], 2).as_str(), name("d"));
    let runs: Vec<_> = standing
        .placement
        .iter()
        .map(|(_, index, node)| (index, node.as_str().to_owned()))
        .collect();
    assert_eq!(runs.len(), 4);
    assert!(is_same_placement(
        &all,
        &all.clone().map(|held| PlacedPod {
            is_bound: false,
            ..held
        })
    ));
}
