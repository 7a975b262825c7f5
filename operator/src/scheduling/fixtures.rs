//! What the tests of the scheduler have in common.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use trellis_api::{QueueSpec, TrainingJob, ValidatedJob};
use trellis_compiler::{Found, Settings, Surroundings, compile};
use trellis_policies::{Facts, authorize};

use super::wish::{Run, Wish};

/// The wish that an attempt of the job "team-a/llm", whose uid is "mine", runs.
pub(super) fn run(attempt: i64) -> Wish {
    let job: TrainingJob = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "team-a"},
        "spec": {"taskGroups": [{"name": "worker", "gpus": 8, "image": "train:1",
            "resources": {"cpu": "96", "memory": "1Ti"}}]},
    }))
    .unwrap();
    let job = ValidatedJob::try_from(job).unwrap();
    let found = Found {
        queue: "default",
        priority: 0,
        namespace_enforces_restricted: false,
        services: &BTreeMap::new(),
    };
    let surroundings = Surroundings::resolve(&job, found).unwrap();
    let queue: QueueSpec = serde_json::from_value(json!({"namespaceSelector": {}})).unwrap();
    let facts = Facts {
        queue: "default",
        queue_spec: &queue,
        namespace: "team-a",
        namespace_labels: &BTreeMap::new(),
        priority_class: None,
    };
    let job = authorize(compile(job, surroundings, &Settings::default()), &facts).unwrap();
    Wish::Run(Arc::new(Run {
        job: job.into(),
        uid: "mine".to_owned(),
        attempt,
        submitted: Timestamp::UNIX_EPOCH,
        not_before: None,
        excluded: Vec::new(),
        volumes: Default::default(),
    }))
}
