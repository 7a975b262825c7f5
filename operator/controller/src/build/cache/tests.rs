//! The builds of one job, and the inputs that change them.

mod children;
mod eviction;
mod limits;
mod namespace;
mod place;
mod policy_decisions;
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
use trellis_policies::cedar::{ObjectKey, Policies, PolicyLoader, PolicyObject};

use super::*;
use crate::job_context;

/// A cache with the job "ns/j" and the inputs of its build.
struct BuildFixture {
    context: Arc<Context>,
    version: u64,
}

impl BuildFixture {
    /// Returns a fixture with a default queue, and with these fields in the job's spec.
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
        case.context.cache.jobs.insert_observed(key(), job);
        case.namespace(json!({}));
        case.queue("default", json!({}));
        case.context.cache.policies.replace(policies());
        case
    }

    /// Adds a queue that all namespaces may use, as the default of these namespaces.
    fn queue(&mut self, name: &str, default_for: Value) {
        self.queue_with(name, json!({"defaultFor": default_for}));
    }

    /// Adds a queue that all namespaces may use, with these fields.
    fn queue_with(&mut self, name: &str, more: Value) {
        let version = self.next_version();
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
            .insert_observed(Key::new("", name), queue);
    }

    /// Sets the labels of the job's namespace.
    fn namespace(&mut self, labels: Value) {
        let namespace: SlimNamespace = serde_json::from_value(json!({
            "metadata": {"name": "ns", "uid": "ns", "resourceVersion": self.next_version(), "labels": labels},
        }))
        .unwrap();
        self.context
            .cache
            .namespaces
            .insert_observed(Key::new("", "ns"), namespace);
    }

    fn remove_namespace(&self) {
        self.context.cache.namespaces.remove(&Key::new("", "ns"));
    }

    fn delete_queue(&self, name: &str) {
        self.context
            .cache
            .queues
            .delete_observed(&Key::new("", name), name);
    }

    /// Adds a default profile with this value of the variable A.
    fn profile(&self, name: &str, value: &str) {
        self.profile_with(name, json!({"env": [{"name": "A", "value": value}]}));
    }

    /// Adds a default profile with these fields.
    fn profile_with(&self, name: &str, more: Value) {
        let mut profile: RuntimeProfile = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
            "metadata": {"name": name, "uid": name}, "spec": more,
        }))
        .unwrap();
        profile.spec.global_default = Some(true);
        self.context.cache.profiles.insert(name, profile.into());
    }

    /// Sets the attempt and the profile in the job's status.
    fn status(&mut self, attempt: i64, profile: Option<JobProfile>) {
        let mut job = self
            .context
            .cache
            .jobs
            .get(&key())
            .unwrap()
            .as_ref()
            .clone();
        job.metadata.resource_version = Some(self.next_version());
        job.status = Some(TrainingJobStatus {
            attempt: Some(attempt),
            profile,
            ..TrainingJobStatus::default()
        });
        self.context.cache.jobs.insert_observed(key(), job);
    }

    /// Returns the profile in the job's status, and the hash of the compiled job for its children.
    fn profile_and_children(&self, builds: &BuildCache) -> (Option<JobProfile>, Option<String>) {
        let mut job_context = self.read_context();
        let build = builds.get_or_build(&key(), &mut job_context, &Arc::default());
        let children = build
            .compiled_children(&job_context)
            .map(|job| job.hash().to_owned());
        (build.profile(&job_context), children)
    }

    fn next_version(&mut self) -> String {
        self.version = self.version.saturating_add(1);
        self.version.to_string()
    }

    fn read_context(&self) -> JobContext {
        let job = self.context.cache.jobs.get(&key()).unwrap();
        job_context::read_job(&self.context.cache, &key(), job, None)
    }

    /// Builds the job. Returns its queue and priority.
    fn build(&self, builds: &BuildCache) -> Result<(String, i32), Reason> {
        let build = builds.get_or_build(&key(), &mut self.read_context(), &Arc::default());
        match &build.result {
            Ok(job) => {
                let job = job.compiled();
                Ok((job.queue().to_owned(), job.priority()))
            }
            Err(hold) => Err(hold.reason),
        }
    }

    /// Adds a journal in this phase, with a plan for the job as it is built now.
    fn add_plan(&mut self, phase: PodGroupPhase) {
        let build =
            BuildCache::default().get_or_build(&key(), &mut self.read_context(), &Arc::default());
        let job = build.result.as_ref().unwrap().compiled();
        let mut group: PodGroup = job.pod_group();
        group.metadata.uid = Some("group".to_owned());
        group.metadata.resource_version = Some(self.next_version());
        group.status = Some(
            serde_json::from_value(json!({"plan": {
                "hash": "plan", "attempt": 1, "generation": 1, "compiled": job.hash(),
                "queue": job.queue(), "priority": job.priority(), "assignments": [],
                "resourcesPerGPU": job.queue_resources().per_gpu(),
            }}))
            .unwrap(),
        );
        group.status.as_mut().unwrap().phase = Some(phase);
        self.context.cache.pod_groups.insert_observed(key(), group);
    }

    fn set_phase(&mut self, phase: PodGroupPhase) {
        let mut group = self
            .context
            .cache
            .pod_groups
            .get(&key())
            .unwrap()
            .as_ref()
            .clone();
        group.metadata.resource_version = Some(self.next_version());
        group.status.as_mut().unwrap().phase = Some(phase);
        self.context.cache.pod_groups.insert_observed(key(), group);
    }
}

fn key() -> Key {
    Key::new("ns", "j")
}

/// Returns a policy object with the enforcement Deny.
fn policy_object(
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
        decode_error: None,
    }
}

fn load_policies(objects: Vec<PolicyObject>) -> Arc<Policies> {
    Arc::new(PolicyLoader::new().unwrap().load(None, objects).0)
}

/// Loads these policies, given by namespace and text.
fn reporting_policies(objects: &[(Option<&str>, &str)]) -> Arc<Policies> {
    let objects = objects.iter().enumerate();
    let object = |(n, (namespace, cedar)): (usize, &(Option<&str>, &str))| {
        policy_object(*namespace, &format!("p{n}"), cedar, OnViolation::Report)
    };
    load_policies(objects.map(object).collect())
}

const ALL: &str = "permit(principal, action, resource);";
