//! Fixtures for the tests of the scheduler.

#![allow(
    clippy::unwrap_used,
    reason = "tests alone use it, and a wrong fixture is to panic"
)]

mod shelf;

pub use shelf::Shelf;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{QueueResources, QueueSpec, ResolvedJob, TrainingJob, ValidatedJob};
use trellis_compiler::{CompiledJob, Found, Surroundings, compile};
use trellis_policies::Facts;
use trellis_policies::cedar::{Loader, Policies, Submission, authorize};

use super::wish::{Run, Wish};

/// All phases of a journal.
pub const PHASES: [PodGroupPhase; 6] = [
    PodGroupPhase::Pending,
    PodGroupPhase::Committing,
    PodGroupPhase::Placed,
    PodGroupPhase::Unwinding,
    PodGroupPhase::Finished,
    PodGroupPhase::Nominated,
];

/// The policies of a fresh install.
pub fn policies() -> Arc<Policies> {
    let loader = Loader::new().unwrap();
    Arc::new(
        loader
            .load(None, trellis_policies::cedar::starter::objects())
            .0,
    )
}

/// Compiles the job "team-a/llm" with this spec.
pub fn compiled(spec: serde_json::Value) -> CompiledJob {
    compiled_as("llm", "team-a", spec)
}

/// Compiles a job of that name and namespace with this spec.
pub fn compiled_as(name: &str, namespace: &str, spec: serde_json::Value) -> CompiledJob {
    let job: TrainingJob = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    }))
    .unwrap();
    let job = ValidatedJob::try_from(job).unwrap();
    let job = ResolvedJob::new(job, None, "default", QueueResources::default()).unwrap();
    let found = Found {
        queue: "default",
        priority: 0,
        namespace_enforces_restricted: false,
        services: &BTreeMap::new(),
    };
    let surroundings = Surroundings::resolve(job.job(), found).unwrap();
    compile(job, surroundings, &Arc::default())
}

/// The wish to run an attempt of the job "team-a/llm" with uid "mine".
pub fn run(attempt: i64) -> Wish {
    run_with(attempt, json!({}))
}

/// A spec of one pod that fills its node, with these additional fields.
pub fn spec_with(more: serde_json::Value) -> serde_json::Value {
    let mut spec = json!({"taskGroups": [{"name": "worker", "gpus": 8, "image": "train:1",
        "resources": {"limits": {"cpu": "96", "memory": "1Ti"}}}]});
    let more = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(more);
    spec
}

/// As [`run`], for a job with these additional spec fields.
pub fn run_with(attempt: i64, more: serde_json::Value) -> Wish {
    let queue: QueueSpec = serde_json::from_value(json!({"namespaceSelector": {}})).unwrap();
    let facts = Facts {
        queue: "default",
        queue_spec: &queue,
        namespace: "team-a",
        namespace_labels: &BTreeMap::new(),
        priority_class: None,
    };
    let submission = Submission {
        labels: &BTreeMap::new(),
        requester: None,
        attempt,
    };
    let compiled = compiled(spec_with(more));
    let (_, job) = authorize(Some(&policies()), compiled, &facts, &submission);
    let job = job.unwrap();
    Wish::Run(Arc::new(Run {
        job: job.into(),
        read_at: tokio::time::Instant::now(),
        uid: "mine".to_owned(),
        attempt,
        submitted: Timestamp::UNIX_EPOCH,
        not_before: None,
        preempted: false,
        never_preempts: false,
        excluded: Vec::new(),
        suspects: Vec::new(),
        hurry: false,
        checkpoint: None,
        awaited: Default::default(),
        volumes: Default::default(),
    }))
}
