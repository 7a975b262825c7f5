//! Inputs and builds of one job.

mod children;
mod decided;
mod evicted;
mod limits;
mod namespace;
mod place;
mod resources;

use serde_json::{Value, json};
use trellis_api::job::{JobPhase, JobProfile, PolicyDecision, TrainingJobStatus};
use trellis_api::job_policy::OnViolation;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{
    Enforcement, PodGroup, QuotaPolicy, Reason, RuntimeProfile, TrainingJob, TrainingQueue,
};
use trellis_dispatch::context::Context;
use trellis_gang::fixtures::{policies, spec_with};
use trellis_gang::observed::SlimNamespace;
use trellis_policies::cedar::{Loader, ObjectKey, Policies, PolicyObject};

use super::*;
use crate::dereference;

/// A context whose cache has the job "ns/j" and its inputs.
struct Case {
    context: Arc<Context>,
    version: u64,
}

impl Case {
    /// With a default queue, and these fields in the job's spec.
    fn new(more: Value) -> Self {
        let mut case = Self {
            context: Context::new().0,
            version: 0,
        };
        let spec = spec_with(more);
        let job: TrainingJob = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "j", "namespace": "ns", "uid": "uid", "resourceVersion": "1"},
            "spec": spec,
        }))
        .unwrap();
        case.context.cache.jobs.observed(key(), job);
        case.namespace(json!({}));
        case.queue("default", json!({}));
        case.context.cache.policies.replace(policies());
        case
    }

    /// A queue that anyone may use, and the default of these namespaces.
    fn queue(&mut self, name: &str, default_for: Value) {
        self.queue_with(name, json!({"defaultFor": default_for}));
    }

    /// A queue that anyone may use, with these fields.
    fn queue_with(&mut self, name: &str, more: Value) {
        let version = self.next();
        let mut queue: TrainingQueue = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
            "metadata": {"name": name, "uid": name, "resourceVersion": version},
            "spec": more,
        }))
        .unwrap();
        queue.metadata.generation = version.parse().ok();
        queue.spec.namespace_selector = Some(Default::default());
        self.context
            .cache
            .queues
            .observed(Key::new("", name), queue);
    }

    /// The namespace of the job has these labels.
    fn namespace(&mut self, labels: Value) {
        let namespace: SlimNamespace = serde_json::from_value(json!({
            "metadata": {"name": "ns", "uid": "ns", "resourceVersion": self.next(), "labels": labels},
        }))
        .unwrap();
        self.context
            .cache
            .namespaces
            .observed(Key::new("", "ns"), namespace);
    }

    fn namespace_is_not_shown(&self) {
        self.context.cache.namespaces.remove(&Key::new("", "ns"));
    }

    fn delete_queue(&self, name: &str) {
        self.context.cache.queues.deleted(&Key::new("", name), name);
    }

    /// The cluster's default profile has this variable.
    fn profile(&self, name: &str, value: &str) {
        self.profile_with(name, json!({"env": [{"name": "A", "value": value}]}));
    }

    /// The cluster's default profile has these fields.
    fn profile_with(&self, name: &str, more: Value) {
        let mut profile: RuntimeProfile = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
            "metadata": {"name": name, "uid": name}, "spec": more,
        }))
        .unwrap();
        profile.spec.global_default = Some(true);
        self.context.cache.profiles.take(name, profile.into());
    }

    /// The job's status says that it is at this attempt, with this profile.
    fn status(&mut self, attempt: i64, profile: Option<JobProfile>) {
        let mut job = self
            .context
            .cache
            .jobs
            .get(&key())
            .unwrap()
            .as_ref()
            .clone();
        job.metadata.resource_version = Some(self.next());
        job.status = Some(TrainingJobStatus {
            attempt: Some(attempt),
            profile,
            ..TrainingJobStatus::default()
        });
        self.context.cache.jobs.observed(key(), job);
    }

    /// The profile in the job's status, and the hash of the result that its children keep.
    fn told(&self, builds: &Builds) -> (Option<JobProfile>, Option<String>) {
        let mut seen = self.look();
        let build = builds.of(&key(), &mut seen, &Arc::default());
        let children = build.children(&seen).map(|job| job.hash().to_owned());
        (build.profile(&seen), children)
    }

    fn next(&mut self) -> String {
        self.version = self.version.saturating_add(1);
        self.version.to_string()
    }

    fn look(&self) -> Surrounded {
        let job = self.context.cache.jobs.get(&key()).unwrap();
        dereference::job(&self.context.cache, &key(), job, None)
    }

    /// Queue and priority of the build.
    fn build(&self, builds: &Builds) -> Result<(String, i32), Reason> {
        let build = builds.of(&key(), &mut self.look(), &Arc::default());
        match &build.result {
            Ok(job) => {
                let job = job.compiled();
                Ok((job.queue().to_owned(), job.priority()))
            }
            Err(held) => Err(held.reason),
        }
    }

    /// The job was planned as it is built now, and its journal is in this phase.
    fn plan(&mut self, phase: PodGroupPhase) {
        let build = Builds::default().of(&key(), &mut self.look(), &Arc::default());
        let job = build.result.as_ref().unwrap().compiled();
        let mut group: PodGroup = job.pod_group();
        group.metadata.uid = Some("group".to_owned());
        group.metadata.resource_version = Some(self.next());
        group.status = Some(
            serde_json::from_value(json!({"plan": {
                "hash": "plan", "attempt": 1, "generation": 1, "compiled": job.hash(),
                "queue": job.queue(), "priority": job.priority(), "assignments": [],
                "resourcesPerGPU": job.queue_resources().per_gpu(),
            }}))
            .unwrap(),
        );
        group.status.as_mut().unwrap().phase = Some(phase);
        self.context.cache.pod_groups.observed(key(), group);
    }

    fn becomes(&mut self, phase: PodGroupPhase) {
        let mut group = self
            .context
            .cache
            .pod_groups
            .get(&key())
            .unwrap()
            .as_ref()
            .clone();
        group.metadata.resource_version = Some(self.next());
        group.status.as_mut().unwrap().phase = Some(phase);
        self.context.cache.pod_groups.observed(key(), group);
    }
}

fn key() -> Key {
    Key::new("ns", "j")
}

/// A policy object that denies.
fn object(
    namespace: Option<&str>,
    name: &str,
    cedar: &str,
    on_violation: OnViolation,
) -> PolicyObject {
    PolicyObject {
        key: ObjectKey {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        },
        uid: name.to_owned(),
        generation: None,
        cedar: cedar.to_owned(),
        enforcement: Enforcement::Deny,
        on_violation,
        selector: None,
        tests: Vec::new(),
        unreadable: None,
    }
}

fn loaded(objects: Vec<PolicyObject>) -> Arc<Policies> {
    Arc::new(Loader::new().unwrap().load(None, objects).0)
}

/// Policies of these namespaces.
fn set(objects: &[(Option<&str>, &str)]) -> Arc<Policies> {
    let all = objects.iter().enumerate();
    let object = |(n, (namespace, cedar)): (usize, &(Option<&str>, &str))| {
        object(*namespace, &format!("p{n}"), cedar, OnViolation::Report)
    };
    loaded(all.map(object).collect())
}

const ALL: &str = "permit(principal, action, resource);";
