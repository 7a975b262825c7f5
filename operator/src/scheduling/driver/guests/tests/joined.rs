//! Pods that come once their gang has its place.

use std::time::Duration;

use super::*;
use crate::scheduling::gang;

fn of_group(name: &str) -> SlimPod {
    pod(name, json!({"trellis.dev/pod-group": "g"}))
}

/// One GPU each.
fn small(name: &str) -> SlimPod {
    decoded(json!({
        "metadata": {"name": name, "namespace": "team-a", "uid": name,
            "labels": {"trellis.dev/pod-group": "g"}},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}]},
        "status": {"phase": "Pending"},
    }))
}

/// A limit of jobs counts the gang once, and a limit of one job counts all of its pods.
#[tokio::test]
async fn who_joins_is_no_job_of_its_own_and_part_of_one() {
    let mut scene = Scene::new();
    scene.placed(json!({}));
    scene.see_bound(of_group("a"), &[]);
    scene.limit(json!({"runningJobs": 1, "queuedJobs": 0}));
    scene.decide();
    scene.see(of_group("b"));
    scene.decide();
    assert_eq!(
        scene.used(),
        (8, 0),
        "{}",
        scene.told(&guests::of_pod(&key("b")))
    );

    let mut scene = Scene::new();
    scene.placed(json!({}));
    scene.see_bound(of_group("a"), &[]);
    scene.limit(json!({"gpusPerJob": 6}));
    scene.decide();
    scene.see(of_group("b"));
    scene.decide();
    assert_eq!(scene.used(), (4, 0), "8 of 6");
    let told = scene.told(&guests::of_pod(&key("b")));
    assert_eq!(told, "QuotaPolicyExceeded: ");
}

/// GPU-hours are of GPUs, whoever made the pod.
#[tokio::test]
async fn guests_draw_gpu_hours() {
    let mut scene = Scene::new();
    scene.limit(json!({"gpuHours": {"hours": 10, "per": "30d"}}));
    scene.placed(json!({}));
    scene.see_bound(of_group("a"), &[]);
    scene.see(pod("alone", json!({})));
    scene.decide();
    let drawn: Vec<i128> = scene.driver.engine.limits().map(|(_, gpus)| gpus).collect();
    assert_eq!(drawn, [8]);
}

/// Its place is in that queue and has that priority, whatever the PodGroup names by now.
#[tokio::test]
async fn who_joins_does_so_where_the_gang_has_its_place() {
    let mut scene = Scene::new();
    let elsewhere: Queue = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "elsewhere"},
        "spec": {"namespaceSelector": {}},
    }));
    scene.watched.apply(Key::new("", "elsewhere"), elsewhere);
    scene.placed(json!({"queue": "elsewhere", "priority": 7}));
    scene.see_bound(of_group("a"), &[("trellis.dev/placed-in", "elsewhere")]);
    scene.decide();
    scene.see(of_group("b"));
    scene.decide();
    let unit = guests::of_pod(&key("b"));
    assert_eq!(scene.inside(&unit), Inside::Placed);
    let asks = scene.driver.guests.gangs[&unit].asks.clone().unwrap();
    assert_eq!((&*asks.queue, asks.priority), ("elsewhere", 7));
}

/// The flavors that were given stand on the pods: who leads next charges them to those, and not to
/// the first ones that their nodes are of.
#[tokio::test]
async fn what_is_held_is_charged_to_the_flavors_that_were_given() {
    let mut scene = Scene::new();
    let quota = |name: &str| json!({"name": name, "quotas": [{"resource": GPU, "nominal": "8"}]});
    let queue: Queue = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "default"},
        "spec": {"namespaceSelector": {}, "defaultFor": {}, "resourceGroups": [
            {"resources": [GPU], "flavors": [quota("first"), quota("second")]}]},
    }));
    for name in ["first", "second"] {
        let flavor: trellis_api::ResourceFlavor = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor",
            "metadata": {"name": name}, "spec": {},
        }));
        scene.watched.apply(Key::new("", name), flavor);
    }
    scene.watched.apply(Key::new("", "default"), queue);
    scene.placed(json!({}));
    let second = [("trellis.dev/flavors", r#"{"nvidia.com/gpu":"second"}"#)];
    scene.see_bound(of_group("a"), &second);
    scene.see_bound(pod("alone", json!({})), &second);
    scene.decide();
    for unit in [guests::of_group(&key("g")), guests::of_pod(&key("alone"))] {
        let given = scene.driver.engine.flavors(&gang::id(&unit)).unwrap();
        let flavor = given[0].flavors.get(&ResourceName::new(GPU)).unwrap();
        assert_eq!(flavor.as_str(), "second", "{unit}");
    }
}

/// The engine learns of a whole gang at most every two seconds, however many pods come one by one.
#[tokio::test(start_paused = true)]
async fn those_that_come_one_by_one_become_the_gangs_together() {
    let mut scene = Scene::new();
    let unit = guests::of_group(&key("g"));
    scene.placed(json!({}));
    scene.see_bound(small("a"), &[]);
    scene.decide();
    let held = |scene: &Scene| scene.driver.guests.gangs[&unit].held.len();
    let alone = |name: &str| guests::of_pod(&key(name));
    for (name, expected) in [("b", 2), ("c", 2), ("d", 2)] {
        scene.see(small(name));
        scene.decide();
        assert_eq!(scene.inside(&alone(name)), Inside::Placed);
        // Its task would have bound it.
        scene.see_bound(small(name), &[]);
        let world = scene.driver.committer.world().clone();
        world.tell(Feed::Ended(alone(name), Outcome::Done));
        scene.decide();
        scene.decide();
        assert_eq!(held(&scene), expected, "{name}");
    }
    assert_eq!(scene.used(), (4, 0));
    assert_eq!(scene.inside(&alone("d")), Inside::Placed);
    tokio::time::advance(Duration::from_secs(2)).await;
    scene.look(&unit);
    assert_eq!((held(&scene), scene.used()), (4, (4, 0)));
    assert!(!scene.driver.guests.gangs.contains_key(&alone("d")));
}

/// Pods that have come while those of the last place stop are the next gang.
#[tokio::test]
async fn nobody_joins_a_gang_that_only_stops() {
    let mut scene = Scene::new();
    scene.placed(json!({}));
    scene.see_bound(of_group("a"), &[]);
    scene.decide();
    let big = |name: &str| {
        let mut pod = of_group(name);
        pod.metadata.uid = Some(format!("{name}-2"));
        pod
    };
    // One that has asked before, and waits for room.
    scene.see(pod("else", json!({})));
    scene.decide();
    scene.see(big("b"));
    scene.decide();
    let unit = guests::of_pod(&key("b"));
    assert_eq!(scene.inside(&unit), Inside::Waiting);
    let mut stops = of_group("a");
    stops.metadata.deletion_timestamp = Some(decoded(json!("2027-01-15T08:00:00Z")));
    scene.see_bound(stops, &[]);
    scene.see(big("c"));
    scene.decide();
    for name in ["b", "c"] {
        let unit = guests::of_pod(&key(name));
        assert_eq!(scene.inside(&unit), Inside::No, "{name}");
    }
}
