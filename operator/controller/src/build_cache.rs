//! Builds of jobs, kept while none of their inputs changes. A job is reconciled far more often than
//! its spec changes.

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

use super::build::{BuildOutcome, PolicyOutcome, compiled_profile};
use super::job_context::{JobContext, UntrustedStamp};
use super::{build, validate};

/// Inputs from which a job has to be built.
pub(super) struct PendingBuild {
    inputs: BuildInputs,
    /// When the inputs had been read.
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
    doubt: Option<UntrustedStamp>,
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
    fn from_context(seen: &JobContext) -> Self {
        let queue = seen.queue.as_ref().map_err(Clone::clone).map(|q| {
            let meta = &q.metadata;
            (meta.name.clone(), meta.uid.clone(), meta.generation)
        });
        Self {
            uid: seen.uid().to_owned(),
            generation: seen.job.metadata.generation,
            queue,
            // The queue's name is left out because a stored plan does not record it.
            queue_resources: seen.queue_resources.per_gpu(),
            priority: seen.priority.clone(),
            namespace_labels: seen.namespace_labels.clone(),
            labels: seen.job.metadata.labels.clone(),
            requester: seen.requester.clone(),
            doubt: seen.untrusted_stamp.clone(),
            attempt: seen.attempt(),
            policies: seen.policies.as_ref().map(|p| p.version(seen.namespace())),
            quotas: (
                seen.quotas.0,
                // Only if no stamp names the requester: otherwise each place would change the
                // inputs.
                seen.placed_plan()
                    .filter(|_| seen.requester.is_none())
                    .and_then(|plan| plan.requester.clone()),
            ),
            services: seen.services.clone(),
            profile: seen.profile.clone(),
        }
    }
}

/// Result of building a job.
pub(super) struct JobBuild {
    inputs: BuildInputs,
    /// When the inputs had been read.
    pub(super) read_at: Instant,
    /// The job with its children, or why it stands still.
    pub(super) result: Result<Arc<AuthorizedJob>, JobHold>,
    /// Why a later stage could not run: nothing starts.
    pub(super) blocked_stage: Option<BlockedStage>,
    /// Decision of the policies. None: they were not evaluated.
    pub(super) policy: Option<PolicyOutcome>,
    /// State that the children keep while the job has pods, even if it may not start any more: the
    /// last build, or the plan.
    retained: Option<RetainedBuild>,
    /// The children with their hashes. Their readiness is filled in later.
    pub(super) objects: Vec<CompiledObject>,
    /// Objects that the pods need to start, each with the field that names it.
    pub(super) references: BTreeMap<RequiredObject, String>,
    /// Resource versions of the children that were found correct, by kind and name.
    pub(super) verified_versions: Mutex<BTreeMap<(String, Arc<str>), String>>,
}

/// The compiled result that the children of a job with pods keep.
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
    /// The profile with which the job is compiled, or was compiled when it was placed.
    pub(super) fn profile(&self, seen: &JobContext) -> Option<JobProfile> {
        match &self.result {
            Ok(job) if !has_other_profile(job, seen) => compiled_profile(job.compiled()),
            Err(_) if !seen.has_pods() => None,
            _ => seen.status_profile().cloned(),
        }
    }

    /// The compiled result for the job's children. None: they are left as they are.
    pub(super) fn compiled_children(&self, seen: &JobContext) -> Option<&CompiledJob> {
        match &self.result {
            // An earlier operator compiled it, with a profile that is not known any more.
            Ok(job) if has_other_profile(job, seen) => None,
            // No pod of the job starts.
            Ok(_) if self.blocked_stage.is_some() && !seen.has_pods() => None,
            Ok(job) => Some(job.compiled()),
            Err(_) => {
                let kept = self.retained.as_ref().filter(|_| seen.has_pods());
                kept.map(RetainedBuild::compiled)
            }
        }
    }

    /// True if the job is refused and has no pods: it must not read from secret stores.
    pub(super) fn is_refused(&self, seen: &JobContext) -> bool {
        let later = self.blocked_stage.as_ref().map(|later| &later.held);
        let mut held = self.result.as_ref().err().into_iter().chain(later);
        held.any(JobHold::is_refused) && !seen.has_pods()
    }
}

/// True if the gang is placed, and was compiled with another profile than now.
fn has_other_profile(job: &AuthorizedJob, seen: &JobContext) -> bool {
    let compiled = job.compiled();
    let planned = seen.placed_plan().filter(|_| seen.is_placed());
    let is_as_planned = planned.is_none_or(|plan| plan.compiled == compiled.hash());
    !is_as_planned
        && seen
            .status_profile()
            .is_some_and(|told| Some(told) != compiled_profile(compiled).as_ref())
}

/// The builds of all jobs.
#[derive(Default)]
pub(super) struct BuildCache {
    builds: Mutex<HashMap<Key, Arc<JobBuild>>>,
}

impl BuildCache {
    /// The job's last build, if its inputs have not changed. A placed job keeps the profile with
    /// which it was built: another one is for the next attempt.
    ///
    /// # Errors
    /// The inputs for a new build ([`BuildCache::build`]).
    pub(super) fn get(
        &self,
        key: &Key,
        seen: &mut JobContext,
    ) -> Result<Arc<JobBuild>, Box<PendingBuild>> {
        let before = self.builds.lock().get(key).cloned();
        if let Some(before) = &before
            && seen.is_placed()
            && before.inputs.uid == seen.uid()
            && before.inputs.attempt == seen.attempt()
            && before.inputs.profile.is_ok()
        {
            seen.profile = before.inputs.profile.clone();
        }
        let inputs = BuildInputs::from_context(seen);
        let read_at = Instant::now();
        match before.filter(|before| before.inputs == inputs) {
            Some(before) => Ok(before),
            None => Err(Box::new(PendingBuild { inputs, read_at })),
        }
    }

    /// Builds the job. This takes long if there are many policies.
    pub(super) fn build(
        &self,
        key: &Key,
        unbuilt: PendingBuild,
        seen: &JobContext,
        settings: &Arc<Settings>,
    ) -> Arc<JobBuild> {
        let PendingBuild { inputs, read_at } = unbuilt;
        let before = self.builds.lock().get(key).cloned();
        let BuildOutcome {
            policy: decided,
            result,
            blocked_stage: later,
        } = build::build_job(seen, settings);
        let result = result.map(Arc::new);
        let kept = match &result {
            Ok(job) => Some(RetainedBuild::Built(job.clone())),
            Err(_) => before
                .filter(|before| before.inputs.uid == inputs.uid)
                .and_then(|before| before.retained.clone())
                .or_else(|| retained_plan(seen, settings)),
        };
        let build = Arc::new(JobBuild {
            retained: kept,
            objects: result
                .as_ref()
                .map_or_else(|_| Vec::new(), |job| compiled_objects(job)),
            references: result
                .as_ref()
                .map_or_else(|_| BTreeMap::new(), |job| job.compiled().required_objects()),
            inputs,
            read_at,
            blocked_stage: later,
            policy: decided,
            result,
            verified_versions: Mutex::default(),
        });
        self.builds.lock().insert(key.clone(), build.clone());
        build
    }

    /// The build, made if it does not exist.
    #[cfg(test)]
    pub(super) fn get_or_build(
        &self,
        key: &Key,
        seen: &mut JobContext,
        settings: &Arc<Settings>,
    ) -> Arc<JobBuild> {
        self.get(key, seen)
            .unwrap_or_else(|unbuilt| self.build(key, *unbuilt, seen, settings))
    }

    /// Forgets a job that is gone or has ended.
    pub(super) fn remove(&self, key: &Key) {
        self.builds.lock().remove(key);
    }

    #[cfg(test)]
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.builds.lock().contains_key(key)
    }
}

fn retained_plan(seen: &JobContext, settings: &Arc<Settings>) -> Option<RetainedBuild> {
    let job = validate::validate_job(seen).ok()?;
    let compiled = build::compile_planned(job, seen.placed_plan()?, seen, settings)?;
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
        // The hash is of the name, because the operator may not read the content.
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
