//! What jobs were built into, kept while nothing that went into it changes. A
//! job is looked at many times for each time that its spec changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use parking_lot::Mutex;
use tokio::time::Instant;
use trellis_api::ResourcesPerGpu;
use trellis_api::job::{CompiledObject, JobProfile};
use trellis_compiler::{CompiledJob, Need, Profile, Settings, hash_of};
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::Requester;

use super::build::{Decided, Later, Outcome};
use super::dereference::{Doubt, Surrounded};
use super::{build, validate};
use crate::gang::Held;
use crate::gang::key::Key;

/// What a job is to be built from.
pub(super) struct Unbuilt {
    inputs: Inputs,
    /// When those had been read.
    read_at: Instant,
}

/// Everything that validation, compilation and authorization read.
#[derive(PartialEq)]
struct Inputs {
    uid: String,
    generation: Option<i64>,
    queue: Result<Object, Held>,
    queue_resources: Option<ResourcesPerGpu>,
    priority: Result<(Option<String>, i32), Held>,
    namespace_labels: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
    requester: Option<Requester>,
    doubt: Option<Doubt>,
    attempt: i64,
    /// Version of the policies that decide about it.
    policies: Option<String>,
    /// Version of the quota policies, and whose job it was when it got its place.
    quotas: (u64, Option<String>),
    services: BTreeMap<String, Service>,
    profile: Result<Option<Arc<Profile>>, Held>,
}

/// Name, uid and generation: of an object whose status does not matter.
type Object = (Option<String>, Option<String>, Option<i64>);

impl Inputs {
    fn of(seen: &Surrounded) -> Self {
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
            doubt: seen.doubt.clone(),
            attempt: seen.attempt(),
            policies: seen.policies.as_ref().map(|p| p.version(seen.namespace())),
            quotas: (
                seen.quotas.0,
                // Asked where nobody else can tell: else each place would be another input.
                seen.place()
                    .filter(|_| seen.requester.is_none())
                    .and_then(|plan| plan.requester.clone()),
            ),
            services: seen.services.clone(),
            profile: seen.profile.clone(),
        }
    }
}

/// What a job was built into.
pub(super) struct Build {
    inputs: Inputs,
    /// When those had been read.
    pub(super) read_at: Instant,
    /// The job with all that it becomes, or why it stands still.
    pub(super) result: Result<Arc<AuthorizedJob>, Held>,
    /// Why a later stage could not run: nothing starts.
    pub(super) later: Option<Later>,
    /// What policies have decided. None: they were not asked.
    pub(super) decided: Option<Decided>,
    /// What its children are kept as while it has pods, though nothing new may start: what it was
    /// built into last, or was planned as.
    kept: Option<Kept>,
    /// The objects that it becomes, with their hashes; whether they are ready is left open.
    pub(super) objects: Vec<CompiledObject>,
    /// What its pods cannot start without, each with the field that names it.
    pub(super) needs: BTreeMap<Need, String>,
    /// Resource versions of the children that were found to be as they should, by kind and name.
    pub(super) checked: Mutex<BTreeMap<(String, Arc<str>), String>>,
}

/// What the children of a job that has pods are to be.
#[derive(Clone)]
enum Kept {
    /// As it was built last.
    Built(Arc<AuthorizedJob>),
    /// As it was planned, by an operator before this one.
    Planned(Arc<CompiledJob>),
}

impl Kept {
    fn compiled(&self) -> &CompiledJob {
        match self {
            Self::Built(job) => job.compiled(),
            Self::Planned(job) => job,
        }
    }
}

impl Build {
    /// The profile that the job is compiled with, or was when it got its place.
    pub(super) fn profile(&self, seen: &Surrounded) -> Option<JobProfile> {
        match &self.result {
            Ok(job) if !is_of_another_profile(job, seen) => profile(job.compiled()),
            Err(_) if !seen.has_pods() => None,
            _ => seen.told_profile().cloned(),
        }
    }

    /// What the job's children are to be. None: they are left as they are.
    pub(super) fn children(&self, seen: &Surrounded) -> Option<&CompiledJob> {
        match &self.result {
            // Of an operator before this one: what it compiled nobody can tell any more.
            Ok(job) if is_of_another_profile(job, seen) => None,
            // Nothing of it starts.
            Ok(_) if self.later.is_some() && !seen.has_pods() => None,
            Ok(job) => Some(job.compiled()),
            Err(_) => {
                let kept = self.kept.as_ref().filter(|_| seen.has_pods());
                kept.map(Kept::compiled)
            }
        }
    }

    /// True if it is refused, and nothing of it runs: what it would read of stores is not
    /// for it.
    pub(super) fn is_refused(&self, seen: &Surrounded) -> bool {
        let later = self.later.as_ref().map(|later| &later.held);
        let mut held = self.result.as_ref().err().into_iter().chain(later);
        held.any(Held::is_refused) && !seen.has_pods()
    }
}

/// True if the gang has its place, and had it with another profile than it would be
/// compiled with now.
fn is_of_another_profile(job: &AuthorizedJob, seen: &Surrounded) -> bool {
    let compiled = job.compiled();
    let planned = seen.place().filter(|_| seen.is_placed());
    let is_as_planned = planned.is_none_or(|plan| plan.compiled == compiled.hash());
    !is_as_planned
        && seen
            .told_profile()
            .is_some_and(|told| Some(told) != profile(compiled).as_ref())
}

/// The profile that a job is compiled with, as its status tells it.
pub(super) fn profile(compiled: &CompiledJob) -> Option<JobProfile> {
    compiled.profile().map(|profile| JobProfile {
        name: profile.name().to_owned(),
        hash: profile.hash().to_owned(),
    })
}

/// The builds of all jobs.
#[derive(Default)]
pub(super) struct Builds {
    builds: Mutex<HashMap<Key, Arc<Build>>>,
}

impl Builds {
    /// The job's build of before, if nothing has changed. What has its place keeps the profile
    /// that it was built with: another is for the next attempt.
    ///
    /// # Errors
    /// With what it is to be built from ([`Builds::make`]).
    pub(super) fn known(
        &self,
        key: &Key,
        seen: &mut Surrounded,
    ) -> Result<Arc<Build>, Box<Unbuilt>> {
        let before = self.builds.lock().get(key).cloned();
        if let Some(before) = &before
            && seen.is_placed()
            && before.inputs.uid == seen.uid()
            && before.inputs.attempt == seen.attempt()
            && before.inputs.profile.is_ok()
        {
            seen.profile = before.inputs.profile.clone();
        }
        let inputs = Inputs::of(seen);
        let read_at = Instant::now();
        match before.filter(|before| before.inputs == inputs) {
            Some(before) => Ok(before),
            None => Err(Box::new(Unbuilt { inputs, read_at })),
        }
    }

    /// Builds the job. That may take long, where its policies are many.
    pub(super) fn make(
        &self,
        key: &Key,
        unbuilt: Unbuilt,
        seen: &Surrounded,
        settings: &Arc<Settings>,
    ) -> Arc<Build> {
        let Unbuilt { inputs, read_at } = unbuilt;
        let before = self.builds.lock().get(key).cloned();
        let Outcome {
            decided,
            result,
            later,
        } = build::outcome(seen, settings);
        let result = result.map(Arc::new);
        let kept = match &result {
            Ok(job) => Some(Kept::Built(job.clone())),
            Err(_) => before
                .filter(|before| before.inputs.uid == inputs.uid)
                .and_then(|before| before.kept.clone())
                .or_else(|| planned(seen, settings)),
        };
        let build = Arc::new(Build {
            kept,
            objects: result
                .as_ref()
                .map_or_else(|_| Vec::new(), |job| objects(job)),
            needs: result
                .as_ref()
                .map_or_else(|_| BTreeMap::new(), |job| job.compiled().needs()),
            inputs,
            read_at,
            later,
            decided,
            result,
            checked: Mutex::default(),
        });
        self.builds.lock().insert(key.clone(), build.clone());
        build
    }

    /// The build, made here if there is none.
    #[cfg(test)]
    pub(super) fn of(
        &self,
        key: &Key,
        seen: &mut Surrounded,
        settings: &Arc<Settings>,
    ) -> Arc<Build> {
        self.known(key, seen)
            .unwrap_or_else(|unbuilt| self.make(key, *unbuilt, seen, settings))
    }

    /// The job is gone, or has ended.
    pub(super) fn forget(&self, key: &Key) {
        self.builds.lock().remove(key);
    }

    #[cfg(test)]
    pub(super) fn knows(&self, key: &Key) -> bool {
        self.builds.lock().contains_key(key)
    }
}

fn planned(seen: &Surrounded, settings: &Arc<Settings>) -> Option<Kept> {
    let job = validate::job(seen).ok()?;
    let compiled = build::planned(job, seen.place()?, seen, settings)?;
    Some(Kept::Planned(Arc::new(compiled)))
}

fn objects(job: &AuthorizedJob) -> Vec<CompiledObject> {
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
    let mut list = vec![
        object("v1", "Service", name, hash_of(&compiled.service())),
        object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            name,
            hash_of(&compiled.network_policy()),
        ),
    ];
    for map in compiled.config_maps() {
        let name = map.metadata.name.as_deref().unwrap_or_default();
        list.push(object("v1", "ConfigMap", name, hash_of(&map)));
    }
    if let Some(name) = compiled.key_secret_name() {
        // What is in it nobody can tell by it.
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
