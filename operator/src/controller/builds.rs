//! What jobs were built into, kept while nothing that went into it changes. A
//! job is looked at many times for each time that its spec changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use parking_lot::Mutex;
use trellis_api::job::CompiledObject;
use trellis_compiler::{CompiledJob, Settings, hash_of};
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::Requester;

use super::build::Decided;
use super::dereference::Surrounded;
use super::lifecycle::Standing;
use super::{build, validate};
use crate::key::Key;

/// Everything that validation, compilation and authorization read.
#[derive(PartialEq)]
struct Inputs {
    uid: String,
    generation: Option<i64>,
    queue: Result<Object, Standing>,
    priority: Result<(Option<String>, i32), Standing>,
    namespace_labels: BTreeMap<String, String>,
    labels: Option<BTreeMap<String, String>>,
    requester: Option<Requester>,
    doubt: Option<String>,
    attempt: i64,
    /// Version of the policies that decide about it.
    policies: Option<String>,
    services: BTreeMap<String, Service>,
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
            priority: seen.priority.clone(),
            namespace_labels: seen.namespace_labels.clone(),
            labels: seen.job.metadata.labels.clone(),
            requester: seen.requester.clone(),
            doubt: seen.doubt.clone(),
            attempt: seen.attempt(),
            policies: seen.policies.as_ref().map(|p| p.version(seen.namespace())),
            services: seen.services.clone(),
        }
    }
}

/// What a job was built into.
pub(super) struct Build {
    inputs: Inputs,
    /// The job with all that it becomes, or why it stands still.
    pub(super) result: Result<Arc<AuthorizedJob>, Standing>,
    /// What policies have decided. None: they were not asked.
    pub(super) decided: Option<Decided>,
    /// What its children are kept as while it has pods, though nothing new may start: what it was
    /// built into last, or was planned as.
    kept: Option<Kept>,
    /// The objects that it becomes, with their hashes; whether they are ready is left open.
    pub(super) objects: Vec<CompiledObject>,
    /// Resource versions of the children that were found to be as they should, by kind.
    pub(super) checked: Mutex<BTreeMap<String, String>>,
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
    /// What the job's children are to be. None: they are left as they are.
    pub(super) fn children(&self, seen: &Surrounded) -> Option<&CompiledJob> {
        match &self.result {
            Ok(job) => Some(job.compiled()),
            Err(_) => {
                let kept = self.kept.as_ref().filter(|_| seen.has_pods());
                kept.map(Kept::compiled)
            }
        }
    }
}

/// The builds of all jobs.
#[derive(Default)]
pub(super) struct Builds {
    builds: Mutex<HashMap<Key, Arc<Build>>>,
}

impl Builds {
    /// The job's build: the one from before if nothing has changed.
    pub(super) fn of(&self, key: &Key, seen: &Surrounded, settings: &Arc<Settings>) -> Arc<Build> {
        let inputs = Inputs::of(seen);
        let before = self.builds.lock().get(key).cloned();
        if let Some(before) = &before
            && before.inputs == inputs
        {
            return before.clone();
        }
        let (decided, result) = match validate::job(seen) {
            Ok(job) => build::authorized(job, seen, settings),
            Err(standing) => (None, Err(standing)),
        };
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
            inputs,
            decided,
            result,
            checked: Mutex::default(),
        });
        self.builds.lock().insert(key.clone(), build.clone());
        build
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
