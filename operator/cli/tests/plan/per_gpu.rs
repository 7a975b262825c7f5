//! Jobs that request only GPUs, with the amounts per GPU from profiles and queues.

use serde_json::Value;

use super::{file, plan_with};

const QUEUES: &str = "
apiVersion: trellis.dev/v1alpha1
kind: TrainingQueue
metadata: {name: research}
spec: {resourcesPerGPU: {cpu: 8, memory: 64Gi}}
---
apiVersion: trellis.dev/v1alpha1
kind: TrainingQueue
metadata: {name: vision}
spec: {parentName: research, namespaceSelector: {}, defaultFor: {}}
";
const PROFILE: &str = "
apiVersion: trellis.dev/v1alpha1
kind: RuntimeProfile
metadata: {name: h100}
spec: {globalDefault: true, resourcesPerGPU: {cpu: 12}}
";

/// The job of four pods with 8 GPUs each and no other amounts, with these objects.
fn input(objects: &[&str]) -> String {
    let job = file("job.yaml").replace("    resources: {limits: {cpu: 96, memory: 1000Gi}}\n", "");
    assert!(!job.contains("resources"));
    [&[job.as_str()], objects].concat().join("---\n")
}

#[test]
fn plan_names_the_source_of_the_amounts() {
    let files = ["--nodes", "nodes.yaml", "-f", "-"];
    let run = plan_with(&files, &input(&[QUEUES, PROFILE]));
    assert_eq!(run.code, 0, "{run:?}");
    let expected = "  defaults worker: cpu 96 by RuntimeProfile \"h100\", memory 512Gi by queue \"research\"\n";
    assert!(run.out.contains(expected), "{}", run.out);
    let json = plan_with(
        &[&files[..], &["-o", "json"]].concat(),
        &input(&[QUEUES, PROFILE]),
    );
    let list: Value = serde_json::from_str(&json.out).unwrap();
    let objects = list["items"].as_array().unwrap();
    let pods: Vec<_> = objects.iter().filter(|o| o["kind"] == "Pod").collect();
    assert_eq!(pods.len(), 4);
    for pod in pods {
        let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(
            (&requests["cpu"], &requests["memory"]),
            (&"96".into(), &"512Gi".into())
        );
    }
    // A job that states its own amounts has no such line.
    let own = [file("job.yaml").as_str(), QUEUES, PROFILE].join("---\n");
    let run = plan_with(&files, &own);
    assert!(!run.out.contains("defaults"), "{}", run.out);
}

#[test]
fn job_without_stated_amounts_would_wait() {
    let without_memory = QUEUES.replace(", memory: 64Gi", "");
    let run = plan_with(
        &["--nodes", "nodes.yaml", "-f", "-"],
        &input(&[&without_memory, PROFILE]),
    );
    assert_eq!(run.code, 1, "{run:?}");
    let expected = "ResourcesMissing: spec.taskGroups[0].resources.limits.memory: is required: state it, or \
                  resourcesPerGPU.memory in RuntimeProfile \"h100\" or queue \"vision\"";
    assert!(run.out.contains(expected), "{}", run.out);
}
