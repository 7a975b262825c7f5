//! Caches the builds of jobs while their inputs stay the same. A job is reconciled far more often
//! than its spec changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use parking_lot::Mutex;
use tokio::time::Instant;
use trellis_api::ResourcesPerGpu;
use trellis_api::job::{CompiledObject, JobProfile};
use trellis_compiler::{CompiledJob, HashedProfile, RequiredObject, Settings, hash_of};
use trellis_gang::JobHold;
use trellis_gang::build::BlockedStage;
use trellis_gang::key::Key;
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::Requester;

use super::{BuildOutcome, PolicyOutcome, compiled_profile};
use crate::job_context::{JobContext, UntrustedStamp};
use crate::{build, validate};

/// The inputs of a build that has not been made yet.
pub(crate) struct PendingBuild {
    inputs: BuildInputs,
    /// When the inputs were read.
    read_at: Instant,
}

/// Everything that validation, compilation and authorization read.
#[derive(PartialEq)]
struct BuildInputs {
    uid: String,
    generation: Option<i64>,
    queue: Result<QueueVersion, JobHold>,
    queue_resources: Option<ResourcesPerGpu>,
    priority: Result<(Option<String>, i32), JobHold>,
    namespace_labels: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
    requester: Option<Requester>,
    untrusted_stamp: Option<UntrustedStamp>,
    attempt: i64,
    /// Version of the policies that decide on the job.
    policies: Option<String>,
    /// Version of the quota policies, and the requester in the job's plan.
    quotas: (u64, Option<String>),
    services: BTreeMap<String, Service>,
    profile: Result<Option<Arc<HashedProfile>>, JobHold>,
}

/// Name, uid and generation of an object whose status does not matter.
type QueueVersion = (Option<String>, Option<String>, Option<i64>);

impl BuildInputs {
    fn from_context(job_context: &JobContext) -> Self {
        let queue = job_context.queue.as_ref().map_err(Clone::clone).map(|q| {
            let meta = &q.metadata;
            (meta.name.clone(), meta.uid.clone(), meta.generation)
        });
        Self {
            uid: job_context.uid().to_owned(),
            generation: job_context.job.metadata.generation,
            queue,
            // The amounts do not include the queue's name, which a stored plan does not record.
            queue_resources: job_context.queue_resources.per_gpu(),
            priority: job_context.priority.clone(),
            namespace_labels: job_context.namespace_labels.clone(),
            labels: job_context.job.metadata.labels.clone(),
            requester: job_context.requester.clone(),
            untrusted_stamp: job_context.untrusted_stamp.clone(),
            attempt: job_context.attempt(),
            policies: job_context
                .policies
                .as_ref()
                .map(|p| p.version(job_context.namespace())),
            quotas: (
                job_context.quotas.0,
                // The requester of the plan matters only without a stamp. Otherwise each placement
                // would change the inputs.
                job_context
                    .placed_plan()
                    .filter(|_| job_context.requester.is_none())
                    .and_then(|plan| plan.requester.clone()),
            ),
            services: job_context.services.clone(),
            profile: job_context.profile.clone(),
        }
    }
}

/// Result of building a job.
pub(crate) struct JobBuild {
    inputs: BuildInputs,
    /// When the inputs were read.
    pub(crate) read_at: Instant,
    /// The authorized job, or why it may not start.
    pub(crate) result: Result<Arc<AuthorizedJob>, JobHold>,
    /// Why a later stage could not run. Then no stage starts.
    pub(crate) blocked_stage: Option<BlockedStage>,
    /// Decision of the policies. None if they were not evaluated.
    pub(crate) policy: Option<PolicyOutcome>,
    /// The compiled job that the children keep while the job has pods, even if the job may not
    /// start any more.
    retained: Option<RetainedBuild>,
    /// The children with their hashes. Their readiness is filled in later.
    pub(crate) objects: Vec<CompiledObject>,
    /// Objects that the pods need to start, each with the field that names it.
    pub(crate) references: BTreeMap<RequiredObject, String>,
    /// Resource versions of the children that were found correct, by kind and name.
    pub(crate) verified_versions: Mutex<BTreeMap<(String, Arc<str>), String>>,
}

/// The compiled job that the children of a job with pods keep.
#[derive(Clone)]
enum RetainedBuild {
    /// The last build.
    Built(Arc<AuthorizedJob>),
    /// The plan of an earlier operator.
    Planned(Arc<CompiledJob>),
}

impl RetainedBuild {
    fn compiled(&self) -> &CompiledJob {
        match self {
            Self::Built(job) => job.compiled(),
            Self::Planned(job) => job,
        }
    }
}

impl JobBuild {
    /// Returns the profile with which the job is compiled, or was compiled when it was placed.
    pub(crate) fn profile(&self, job_context: &JobContext) -> Option<JobProfile> {
        match &self.result {
            Ok(job) if !has_other_profile(job, job_context) => compiled_profile(job.compiled()),
            Err(_) if !job_context.has_pods() => None,
            _ => job_context.status_profile().cloned(),
        }
    }

    /// Returns the compiled job for the job's children. None if the children stay as they are.
    pub(crate) fn compiled_children(&self, job_context: &JobContext) -> Option<&CompiledJob> {
        match &self.result {
            // The running gang was compiled with a profile that is not known any more.
            Ok(job) if has_other_profile(job, job_context) => None,
            // No pod of the job starts.
            Ok(_) if self.blocked_stage.is_some() && !job_context.has_pods() => None,
            Ok(job) => Some(job.compiled()),
            Err(_) => {
                let retained = self.retained.as_ref().filter(|_| job_context.has_pods());
                retained.map(RetainedBuild::compiled)
            }
        }
    }

    /// Returns true if the job is refused and has no pods. Then it must not read from secret
    /// stores.
    pub(crate) fn is_refused(&self, job_context: &JobContext) -> bool {
        let stage_hold = self
            .blocked_stage
            .as_ref()
            .map(|stage_hold| &stage_hold.hold);
        let mut holds = self.result.as_ref().err().into_iter().chain(stage_hold);
        holds.any(JobHold::is_refused) && !job_context.has_pods()
    }
}

/// Returns true if the gang is placed and was compiled with another profile.
fn has_other_profile(job: &AuthorizedJob, job_context: &JobContext) -> bool {
    let compiled = job.compiled();
    let planned = job_context
        .placed_plan()
        .filter(|_| job_context.is_placed());
    let is_as_planned = planned.is_none_or(|plan| plan.compiled == compiled.hash());
    !is_as_planned
        && job_context
            .status_profile()
            .is_some_and(|profile| Some(profile) != compiled_profile(compiled).as_ref())
}

/// The builds of all jobs.
#[derive(Default)]
pub(crate) struct BuildCache {
    builds: Mutex<HashMap<Key, Arc<JobBuild>>>,
}

impl BuildCache {
    /// Returns the job's last build, if its inputs have not changed. A placed job keeps the profile
    /// with which it was built. Another profile applies to the next attempt.
    ///
    /// # Errors
    /// If there is no such build: the inputs for [`BuildCache::build`].
    pub(crate) fn get(
        &self,
        key: &Key,
        job_context: &mut JobContext,
    ) -> Result<Arc<JobBuild>, Box<PendingBuild>> {
        let previous = self.builds.lock().get(key).cloned();
        if let Some(previous) = &previous
            && job_context.is_placed()
            && previous.inputs.uid == job_context.uid()
            && previous.inputs.attempt == job_context.attempt()
            && previous.inputs.profile.is_ok()
        {
            job_context.profile = previous.inputs.profile.clone();
        }
        let inputs = BuildInputs::from_context(job_context);
        let read_at = Instant::now();
        match previous.filter(|previous| previous.inputs == inputs) {
            Some(previous) => Ok(previous),
            None => Err(Box::new(PendingBuild { inputs, read_at })),
        }
    }

    /// Builds the job. This may take seconds if there are many policies.
    pub(crate) fn build(
        &self,
        key: &Key,
        pending: PendingBuild,
        job_context: &JobContext,
        settings: &Arc<Settings>,
    ) -> Arc<JobBuild> {
        let PendingBuild { inputs, read_at } = pending;
        let previous = self.builds.lock().get(key).cloned();
        let BuildOutcome {
            policy: policy_outcome,
            result,
            blocked_stage,
        } = build::build_job(job_context, settings);
        let result = result.map(Arc::new);
        let retained = match &result {
            Ok(job) => Some(RetainedBuild::Built(job.clone())),
            Err(_) => previous
                .filter(|previous| previous.inputs.uid == inputs.uid)
                .and_then(|previous| previous.retained.clone())
                .or_else(|| retained_plan(job_context, settings)),
        };
        let build = Arc::new(JobBuild {
            retained,
            objects: result
                .as_ref()
                .map_or_else(|_| Vec::new(), |job| compiled_objects(job)),
            references: result
                .as_ref()
                .map_or_else(|_| BTreeMap::new(), |job| job.compiled().required_objects()),
            inputs,
            read_at,
            blocked_stage,
            policy: policy_outcome,
            result,
            verified_versions: Mutex::default(),
        });
        self.builds.lock().insert(key.clone(), build.clone());
        build
    }

    /// Returns the build, and makes it if it does not exist.
    #[cfg(test)]
    pub(crate) fn get_or_build(
        &self,
        key: &Key,
        job_context: &mut JobContext,
        settings: &Arc<Settings>,
    ) -> Arc<JobBuild> {
        self.get(key, job_context)
            .unwrap_or_else(|pending| self.build(key, *pending, job_context, settings))
    }

    /// Removes the build of a job that is deleted or has ended.
    pub(crate) fn remove(&self, key: &Key) {
        self.builds.lock().remove(key);
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.builds.lock().contains_key(key)
    }
}

fn retained_plan(job_context: &JobContext, settings: &Arc<Settings>) -> Option<RetainedBuild> {
    let job = validate::validate_job(job_context).ok()?;
    let compiled = build::compile_planned(job, job_context.placed_plan()?, job_context, settings)?;
    Some(RetainedBuild::Planned(Arc::new(compiled)))
}

fn compiled_objects(job: &AuthorizedJob) -> Vec<CompiledObject> {
    let compiled = job.compiled();
    let name = compiled.job().name();
    let object = |api_version: &str, kind: &str, name: &str, hash: String| CompiledObject {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        hash,
        ready: false,
        problem: None,
    };
    let services = compiled.services().into_iter().map(|service| {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        object("v1", "Service", name, hash_of(&service))
    });
    let mut list: Vec<_> = services.collect();
    list.push(object(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        name,
        hash_of(&compiled.network_policy()),
    ));
    for map in compiled.config_maps() {
        let name = map.metadata.name.as_deref().unwrap_or_default();
        list.push(object("v1", "ConfigMap", name, hash_of(&map)));
    }
    if let Some(name) = compiled.key_secret_name() {
        // The operator may not read the content, so this is the hash of the name.
        list.push(object("v1", "Secret", &name, hash_of(&name)));
    }
    list.extend(compiled.external_secrets().iter().map(|secret| {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        object(
            "external-secrets.io/v1",
            "ExternalSecret",
            name,
            hash_of(secret),
        )
    }));
    list.push(object(
        "trellis.dev/v1alpha1",
        "PodGroup",
        name,
        hash_of(&compiled.pod_group()),
    ));
    for pods in compiled.groups() {
        let last = pods.replicas().saturating_sub(1);
        list.push(object(
            "v1",
            "Pod",
            &format!("{name}-{}-0..{last}", pods.name()),
            pods.hash().to_owned(),
        ));
    }
    list
}

#[cfg(test)]
mod tests;
