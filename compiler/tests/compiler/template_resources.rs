//! Resources of pods that templates change, counted as the kubelet counts them.

use k8s_openapi::serde_json::{Value, json, to_value};
use trellis_api::Quantity;

use super::support::spec;
use super::templates::{compile_with_profile, first_pod_of, job_with_group, profile};

/// Kubernetes' rule (KEP-753, `PodRequests` of component-helpers): sidecars count beside
/// the containers, and beside the init containers that start after them.
#[test]
fn pod_requests_count_sidecars_and_init_containers_as_the_kubelet_does() {
    let side = |name: &str, cpu: &str| json!({"name": name, "image": "i", "resources": {"limits": {"cpu": cpu, "memory": "1Mi"}}});
    let init = |name: &str, cpu: &str, sidecar: bool| {
        let mut container = side(name, cpu);
        if sidecar {
            container["restartPolicy"] = json!("Always");
        }
        container
    };
    // The main container's 2 cores in each.
    for (containers, inits, cpu) in [
        (json!([]), json!([]), "2"),
        (json!([side("a", "500m")]), json!([]), "2.5"),
        (json!([]), json!([init("i", "1", false)]), "2"),
        (json!([]), json!([init("i", "3", false)]), "3"),
        (json!([side("a", "2")]), json!([init("i", "3", false)]), "4"),
        (json!([]), json!([init("s", "1", true)]), "3"),
        // A sidecar counts with the containers that start after it.
        (
            json!([]),
            json!([init("s", "1", true), init("i", "3", false)]),
            "4",
        ),
        (
            json!([]),
            json!([init("i", "3", false), init("s", "1", true)]),
            "3",
        ),
        (
            json!([]),
            json!([init("s", "1", true), init("t", "2", true)]),
            "5",
        ),
        (
            json!([]),
            json!([
                init("s", "1", true),
                init("i", "9", false),
                init("t", "2", true)
            ]),
            "10",
        ),
    ] {
        let written =
            json!({"podTemplate": {"spec": {"containers": containers, "initContainers": inits}}});
        let job = compile_with_profile(job_with_group(written.clone()), None);
        let resources = job.groups()[0].resources();
        let amount = |q: &Quantity| q.amount().unwrap();
        assert_eq!(
            amount(&resources["cpu"]),
            amount(&Quantity::from(cpu)),
            "{written}"
        );
        assert_eq!(
            job.groups()[0].request()["cpu"],
            amount(&Quantity::from(cpu))
        );
        let member = &job.pod_group().spec.groups[0];
        assert_eq!(member.resources, resources);
    }
    // Resources that only a sidecar or init container requests count too; other quantities stay as
    // written.
    let fetch = json!({"name": "f", "image": "i", "resources": {"limits": {"cpu": "2000m", "memory": "2Gi", "ephemeral-storage": "3Gi"}}});
    let job = compile_with_profile(
        job_with_group(json!({"podTemplate": {"spec": {"initContainers": [fetch]}}})),
        None,
    );
    let resources = job.groups()[0].resources();
    assert_eq!(resources["cpu"].as_str(), "2", "as it was written");
    assert_eq!(resources["memory"].amount(), Quantity::from("2Gi").amount());
    assert_eq!(
        resources["ephemeral-storage"].amount(),
        Quantity::from("3Gi").amount()
    );
}

/// A template replaces a container's resources as a whole: a request of the profile beside a limit
/// of the job would be less than the container uses.
#[test]
fn template_replaces_container_resources_as_a_whole() {
    let side = |says: Value| {
        let mut side = json!({"name": "side"});
        let says = says.as_object().unwrap().clone();
        side.as_object_mut().unwrap().extend(says);
        json!({"podTemplate": {"spec": {"initContainers": [side]}}})
    };
    let small = json!({"cpu": 1, "memory": "1Gi", "ephemeral-storage": "1Gi"});
    let below = side(
        json!({"image": "s:1", "restartPolicy": "Always", "resources": {"requests": small, "limits": small}}),
    );
    let large = json!({"resources": {"limits": {"cpu": 4, "memory": "4Gi"}}});
    let job = compile_with_profile(
        job_with_group(side(large.clone())),
        Some(profile(below.clone())),
    );
    let pod = first_pod_of(side(large), Some(below));
    let sides = to_value(&spec(&pod).init_containers).unwrap();
    assert_eq!(
        sides[0]["resources"],
        json!({"limits": {"cpu": "4", "memory": "4Gi"}})
    );
    let resources = job.groups()[0].resources();
    assert_eq!(resources["cpu"].amount(), Quantity::from("6").amount());
    assert_eq!(resources["memory"].amount(), Quantity::from("5Gi").amount());
    assert_eq!(resources["ephemeral-storage"].as_str(), "1Gi", "its own");
}
