//! Fixtures for the tests of the scheduler.

#![allow(
    clippy::unwrap_used,
    reason = "tests alone use it, and a wrong fixture is to panic"
)]

mod fake_storage;

pub use fake_storage::FakeStorage;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{QueueResources, QueueSpec, ResolvedJob, TrainingJob, ValidatedJob};
use trellis_compiler::{CompileContext, CompileFacts, CompiledJob, compile};
use trellis_policies::ClusterFacts;
use trellis_policies::cedar::{Policies, PolicyLoader, SubmissionFacts, authorize};

use super::desired_gang::{AuthorizedAttempt, DesiredAttempt, DesiredGang};

/// All phases of a journal.
pub const PHASES: [PodGroupPhase; 6] = [
    PodGroupPhase::Pending,
    PodGroupPhase::Committing,
    PodGroupPhase::Placed,
    PodGroupPhase::Unwinding,
    PodGroupPhase::Finished,
    PodGroupPhase::Nominated,
];

/// Returns the policies of a fresh install.
pub fn policies() -> Arc<Policies> {
    let loader = PolicyLoader::new().unwrap();
    Arc::new(
        loader
            .load(
                None,
                trellis_policies::cedar::starter_set::starter_objects(),
            )
            .0,
    )
}

/// Compiles the job "team-a/llm" with this spec.
pub fn compile_job(spec: serde_json::Value) -> CompiledJob {
    compile_job_as("llm", "team-a", spec)
}

/// Compiles a job of that name and namespace with this spec.
pub fn compile_job_as(name: &str, namespace: &str, spec: serde_json::Value) -> CompiledJob {
    let job: TrainingJob = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace, "uid": "mine"}, "spec": spec,
    }))
    .unwrap();
    let job = ValidatedJob::try_from(job).unwrap();
    let job = ResolvedJob::new(job, None, "default", QueueResources::default()).unwrap();
    let found = CompileFacts {
        queue: "default",
        priority: 0,
        namespace_enforces_restricted: false,
        services: &BTreeMap::new(),
    };
    let surroundings = CompileContext::resolve(job.job(), found).unwrap();
    compile(job, surroundings, &Arc::default())
}

/// Returns the wish to run an attempt of the job "team-a/llm" with uid "mine".
pub fn desired_run(attempt: i64) -> DesiredGang {
    desired_run_with(attempt, json!({}))
}

/// Returns a spec of one pod that fills its node, with these additional fields.
pub fn spec_with(more: serde_json::Value) -> serde_json::Value {
    let mut spec = json!({"taskGroups": [{"name": "worker", "gpus": 8, "image": "train:1",
        "resources": {"limits": {"cpu": "96", "memory": "1Ti"}}}]});
    let more = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(more);
    spec
}

/// Like [`desired_run`], for a job with these additional spec fields.
pub fn desired_run_with(attempt: i64, more: serde_json::Value) -> DesiredGang {
    let queue: QueueSpec = serde_json::from_value(json!({"namespaceSelector": {}})).unwrap();
    let facts = ClusterFacts {
        queue: "default",
        queue_spec: &queue,
        namespace: "team-a",
        namespace_labels: &BTreeMap::new(),
        priority_class: None,
    };
    let submission = SubmissionFacts {
        labels: &BTreeMap::new(),
        requester: None,
        attempt,
    };
    let compiled = compile_job(spec_with(more));
    let (_, job) = authorize(Some(&policies()), compiled, &facts, &submission);
    let job = job.unwrap();
    DesiredGang::Run(Arc::new(AuthorizedAttempt {
        attempt: desired_attempt(attempt),
        job: job.into(),
        read_at: tokio::time::Instant::now(),
        uid: "mine".to_owned(),
        preempted: false,
        never_preempts: false,
        volumes: Default::default(),
    }))
}

/// Returns an attempt that was submitted long ago and may start at once on any node.
pub fn desired_attempt(number: i64) -> DesiredAttempt {
    DesiredAttempt {
        number,
        submitted: Timestamp::UNIX_EPOCH,
        not_before: None,
        excluded_nodes: Vec::new(),
        suspect_nodes: Vec::new(),
        hurry: false,
        checkpoint: None,
        awaited: Default::default(),
    }
}
