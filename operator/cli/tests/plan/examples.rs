//! Plans every example.
//! The cluster has ten nodes of eight GPUs, of which one is cordoned and one is not ready. One more
//! node has no GPUs.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::Value;
use trellis_api::{PodGroup, document};

use super::{Run, plan};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|f| f.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn plan_example(example: &Path, options: &[&str]) -> Run {
    let file = example.to_str().unwrap();
    plan(&[&["-f", file, "--nodes", "nodes.yaml"], options].concat())
}

#[test]
fn every_example_is_planned() {
    for example in examples() {
        let name = example.file_stem().unwrap().to_str().unwrap();
        insta::assert_snapshot!(
            format!("example-{name}"),
            plan_example(&example, &[]).golden()
        );
    }
}

/// This example needs a cluster without other queues, so the test plans it alone.
#[test]
fn queue_tree_example_is_planned() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/queues");
    let run = plan_example(&folder.join("two-teams.yaml"), &[]);
    insta::assert_snapshot!("example-two-teams", run.golden());
}

#[test]
fn examples_planned_together_share_the_nodes() {
    let files = examples();
    let mut arguments = vec!["--nodes", "nodes.yaml"];
    for file in &files {
        arguments.extend(["-f", file.to_str().unwrap()]);
    }
    insta::assert_snapshot!("examples-together", plan(&arguments).golden());
}

#[test]
fn example_objects_print_as_yaml() {
    let files = examples();
    let file = files.iter().find(|f| f.ends_with("master-workers.yaml"));
    insta::assert_snapshot!(
        "objects",
        plan_example(file.unwrap(), &["-o", "yaml"]).golden()
    );
}

/// Returns the pods among the objects.
fn pods(objects: &[Value]) -> Vec<Pod> {
    objects
        .iter()
        .filter(|o| o["kind"] == "Pod")
        .map(|o| serde_json::from_value(o.clone()).unwrap())
        .collect()
}

#[test]
fn yaml_and_json_contain_equal_objects() {
    for example in examples() {
        let json = plan_example(&example, &["-o", "json"]);
        let place = example.display();
        assert_eq!(json.code, 0, "{place}");
        let noted = json.err.lines().all(|line| line.starts_with("note: "));
        assert!(noted, "{place}: {}", json.err);
        let list: Value = serde_json::from_str(&json.out).unwrap();
        let objects = list["items"].as_array().unwrap().clone();
        let yaml = plan_example(&example, &["-o", "yaml"]).out;
        let read = document::split(&yaml).unwrap();
        let read: Vec<Value> = read.iter().map(|d| d.decode().unwrap()).collect();
        assert_eq!(read, objects);
        let (mut maps, mut others) = (Vec::new(), Vec::new());
        for object in &objects {
            match object["kind"].as_str().unwrap() {
                "ConfigMap" => maps.push(object),
                "Pod" => {}
                kind => others.push((kind, object)),
            }
        }
        let kinds: Vec<_> = others.iter().map(|(kind, _)| *kind).collect();
        let services = kinds.iter().filter(|kind| **kind == "Service").count();
        // The head of Ray has a Service of its own.
        let is_ray = example.ends_with("ray.yaml");
        assert_eq!(services, if is_ray { 2 } else { 1 }, "{place}");
        assert_eq!(kinds[services..], ["NetworkPolicy", "PodGroup"]);
        for (_, service) in &others[..services] {
            let _: Service = serde_json::from_value((*service).clone()).unwrap();
        }
        let policy = others[services].1.clone();
        let _: NetworkPolicy = serde_json::from_value(policy).unwrap();
        let group = others[services + 1].1.clone();
        let group: PodGroup = serde_json::from_value(group).unwrap();
        for map in maps {
            assert_eq!(objects[services + 1], *map);
            let _: ConfigMap = serde_json::from_value(map.clone()).unwrap();
        }
        let pods = pods(&objects);
        assert_eq!(pods.len(), usize::try_from(group.spec.min_member).unwrap());
        for pod in pods {
            let node = pod.spec.unwrap().node_name.unwrap();
            assert!(!["gpu-08", "gpu-09"].contains(&node.as_str()), "{node}");
        }
    }
}

#[test]
fn equal_input_gives_equal_output() {
    for example in examples() {
        let first = plan_example(&example, &["-o", "yaml"]);
        assert_eq!(
            first.golden(),
            plan_example(&example, &["-o", "yaml"]).golden()
        );
    }
}
