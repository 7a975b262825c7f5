//! The worst that one namespace may write: policies at every bound of a namespace, and a job whose
//! images cost them most.

use std::time::{Duration, Instant};

use serde_json::json;
use trellis_api::authorization_policy::PolicyTest;
use trellis_api::{AuthorizationPolicy, TrainingJob, ValidatedJob};
use trellis_compiler::CompiledJob;
use trellis_policies::cedar::{
    Loader, MAX_TEXT, NAMESPACE_OBJECTS, NAMESPACE_POLICIES, NAMESPACE_STEPS, PolicyObject,
};

use super::{compiled, decide, median, objects};

/// Images of the worst job, each of [`MAX_TEXT`] characters: a job has at most 1.5 MB.
const IMAGES: usize = 416;

pub(super) fn print(loader: &Loader, print: &dyn Fn(&str, Duration)) {
    let common = objects(100);
    let (calm, _) = loader.load(None, common.clone());
    for (what, own) in [("patterns", patterns()), ("words", words())] {
        let start = Instant::now();
        let part = loader.part(None, Some("n0"), own.clone());
        print(&format!("load the worst namespace: {what}"), start.elapsed());
        let set = calm.with(part);
        for verdict in set.verdicts_of(Some("n0")) {
            assert!(verdict.problems.is_empty(), "{:?}", verdict.problems);
        }
        let start = Instant::now();
        let cluster = loader.part(Some(&set), None, common.clone());
        let set = set.with(cluster);
        print(&format!("load the cluster's policies beside it: {what}"), start.elapsed());
        for images in [1, IMAGES] {
            let job = job(images);
            let took = median(3, || drop(decide(&set, &job)));
            let demands = decide(&set, &job).decided.len();
            print(&format!("decide {demands} demands of the worst job: {what}"), took);
            let took = median(3, || drop(decide(&calm, &job)));
            print(&format!("decide {demands} demands without its policies"), took);
        }
    }
}

/// What is compared again at each character of an image.
fn patterns() -> Vec<PolicyObject> {
    let longest = MAX_TEXT / 2;
    let count = (NAMESPACE_STEPS - (1 << 17)) / (longest * MAX_TEXT);
    let pattern = format!("*{}b", "a".repeat(longest - 1));
    let one = format!(
        "forbid(principal, action, resource is Trellis::Image) when {{ resource.repository like {pattern:?} }};"
    );
    let all: Vec<_> = (0..count).map(|_| one.clone()).collect();
    spread(&all)
}

/// As many words as there may be, each evaluated for each image.
fn words() -> Vec<PolicyObject> {
    let sum = "context.gpus + 1 + ".repeat(8);
    let one = format!(
        "forbid(principal, action, resource is Trellis::Image) when {{ {sum} 0 < 0 && [{}].contains(resource.repository) }};",
        "\"a\", \"b\", \"c\", \"d\"",
    );
    let all: Vec<_> = (0..NAMESPACE_POLICIES).map(|_| one.clone()).collect();
    spread(&all)
}

/// Over as many objects as a namespace may have.
fn spread(policies: &[String]) -> Vec<PolicyObject> {
    let each = policies.len().div_ceil(NAMESPACE_OBJECTS).max(1);
    let tests: Vec<PolicyTest> = (0..64)
        .map(|i| {
            serde_json::from_value(json!({
                "name": format!("t{i}"), "decision": "Allow",
                "request": {"namespace": "n0", "action": "UseImage",
                    "resource": {"name": "a".repeat(512)}},
            }))
            .expect("a test")
        })
        .collect();
    let object = |(i, texts): (usize, &[String])| {
        let object: AuthorizationPolicy = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "AuthorizationPolicy",
            "metadata": {"name": format!("o{i}"), "namespace": "n0", "uid": i.to_string()},
            "spec": {"cedar": texts.join("\n")},
        }))
        .expect("an object");
        PolicyObject {
            tests: tests.clone(),
            ..PolicyObject::from(&object)
        }
    };
    policies.chunks(each).enumerate().map(object).collect()
}

/// A job with so many images, each as long as it may be.
fn job(images: usize) -> CompiledJob {
    let image = |i: usize| format!("registry.example/{i:03}{}", "a".repeat(MAX_TEXT - 20));
    let group = |(g, images): (usize, &[usize])| {
        let containers = images.iter().skip(1).map(|i| {
            json!({"name": format!("c{i}"), "image": image(*i),
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}})
        });
        let containers: Vec<_> = containers.collect();
        json!({
            "name": format!("g{g}"), "replicas": 1, "gpus": 1, "image": image(images[0]),
            "resources": {"cpu": 1, "memory": "1Gi"},
            "podTemplate": {"spec": {"containers": containers}},
        })
    };
    let all: Vec<usize> = (0..images).collect();
    let groups: Vec<_> = all.chunks(26).enumerate().map(group).collect();
    let job: TrainingJob = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "n0"},
        "spec": {"taskGroups": groups},
    }))
    .expect("a job");
    compiled(ValidatedJob::try_from(job).expect("a valid job"))
}
